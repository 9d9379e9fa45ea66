"""Where the money went: costs by any grouping, beside the period before; the same as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from fleetwatch.figures import pricing, ranking
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.comparison import Compared, compared
from fleetwatch.figures.ranking import Place, Ranked
from fleetwatch.figures.selectors import Group, Look
from fleetwatch.figures.totals import EVERYTHING, Scope, together
from fleetwatch.ledger.policy import SHOWN_STATES
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.reports.exports.cover import WORDS, Cover
from fleetwatch.reports.exports.files import to_xlsx
from fleetwatch.reports.exports.headings import heading
from fleetwatch.reports.exports.tables import Cell, Table

ALL = 2**31  # lines
LABELS = {"unverified": "Busy, unverified"}  # of states that are called otherwise
SIX_PLACES = Decimal("0.000001")
# the page's columns in the page's order
FIGURES = (
    "cost_usd",
    "change_usd",
    "before_usd",
    "gpu_hours",
    "share_of_cost",
    "usd_per_gpu_hour",
    "wasted_usd",
)
PERIODS = ("from_utc", "to_utc", "before_from_utc", "before_to_utc")
SHEET = "Costs"


class FromJob(NamedTuple):
    """By what jobs are sorted, from which position or place in that order on, and how many of the
    dearest a chart draws (0: there is none).
    """

    sort: str
    start: int | Place
    drawn: int = 0


DEAREST = FromJob(ranking.COST, 0)


@dataclass(frozen=True, slots=True)
class Others:
    """The lines that are not shown, as one."""

    count: int
    line: Compared


@dataclass(frozen=True, slots=True)
class Undrawn:
    """What a chart of the `drawn` dearest of so many jobs leaves out: with the drawn ones it is the
    whole.
    """

    drawn: int
    jobs: int
    others_usd: Decimal
    unheld_usd: Decimal  # of what no job held

    @property
    def others(self) -> int:
        """How many jobs are not drawn."""
        return self.jobs - self.drawn


@dataclass(frozen=True, slots=True)
class Explored:
    """The lines of a grouping, the dearest first, and the others: together the whole. `page` is
    where in their order the lines of jobs stand, `undrawn` which of them no chart shows.
    """

    interval: Interval
    before: Interval | None  # None = there is nothing to compare with
    group_by: str
    lines: list[Compared]
    others: Others
    whole: Compared
    page: Ranked | None = None
    undrawn: Undrawn | None = None

    @property
    def is_compared(self) -> bool:
        """Whether lines are beside what they cost before."""
        return self.before is not None and self.group_by != "job"


def explored(
    interval: Interval,
    before: Interval | None,
    group_by: str,
    *,
    scope: Scope = EVERYTHING,
    size: int = ALL,
    jobs: FromJob = DEAREST,
) -> Explored:
    """Costs of the interval by a grouping of figures or by state, in `size` lines, each beside what
    it cost in `before`, where the ledger knows all of that (None: beside nothing).

    Jobs come and go: their lines are compared with nothing, and are those that `jobs`
    says. Raises ValueError for another group_by.
    """
    seen = _look(interval, group_by, scope)
    then = _look(before, group_by, scope) if before and _is_known(before) else None
    whole = Compared("", "Total", seen.totals(), then.totals() if then else None)
    compared_with = before if then else None
    if group_by == "job":
        page = seen.ranked("job", size, sort=jobs.sort, start=jobs.start)
        undrawn = _undrawn(seen, jobs.drawn) if jobs.drawn else None
        return Explored(interval, compared_with, group_by, *_jobs(page), whole, page, undrawn)
    lines, others = _groups(seen, then, group_by, size)
    return Explored(interval, compared_with, group_by, lines, others, whole)


def _is_known(interval: Interval) -> bool:
    began = costs.ledger_began()
    return began is not None and began <= interval.start


def _look(interval: Interval, group_by: str, scope: Scope) -> Look:
    groups = () if group_by == "state" else (group_by,)
    return costs.look(interval, *groups, scope=scope)


def _jobs(page: Ranked) -> tuple[list[Compared], Others]:
    """Of tens of thousands only the shown ones are summed one by one."""
    rest = [page.before, page.after]
    totals = together(each.totals for each in rest)
    count = sum(each.groups for each in rest)
    return compared(page.groups, None), Others(count, Compared("", "", totals, None))


def _undrawn(seen: Look, drawn: int) -> Undrawn:
    held = seen.held()
    ids = ranking.largest(held.columns, "job", ranking.COST, ALL)
    held_usd = held.totals().cost_usd
    others_usd = held.but("job", ids[:drawn]).totals().cost_usd
    unheld_usd = seen.totals().cost_usd - held_usd
    return Undrawn(min(drawn, len(ids)), len(ids), others_usd, unheld_usd)


def _groups(
    seen: Look, then: Look | None, group_by: str, size: int
) -> tuple[list[Compared], Others]:
    earlier = None if then is None else _lines(then, group_by)
    lines = compared(_lines(seen, group_by), earlier)
    left = lines[size:]
    return lines[:size], Others(len(left), _sum(left))


def _lines(seen: Look, group_by: str) -> Sequence[Group]:
    """All lines, the dearest first; states in the ledger's order, as bars and charts show them."""
    if group_by != "state":
        return seen.ranked(group_by, ALL, sort=ranking.COST).groups
    states = (
        Group(state, LABELS.get(state, state.capitalize()), seen.shown_as(state).totals())
        for state in SHOWN_STATES
    )
    return [line for line in states if line.totals.capacity_ms]


def _sum(lines: Sequence[Compared]) -> Compared:
    before = [line.before for line in lines if line.before is not None]
    return Compared(
        "", "", together(line.totals for line in lines), together(before) if before else None
    )


def table(costs_of: Explored) -> Table:
    """Every line, exact: GPU-hours, and micro-dollars that sum to their total; what no job held
    last.
    """
    ends = [*_ends(costs_of.interval), *_ends(costs_of.before)]
    lines = _unheld_last(costs_of)
    figures = _figures(lines, costs_of.whole.totals.cost_usd)
    rows = [(line.key, line.label, *row, *ends) for line, row in zip(lines, figures, strict=True)]
    name = costs_of.group_by
    return Table(SHEET, (name, f"{name}_name", *FIGURES, *PERIODS), rows)


def _figures(lines: Sequence[Compared], whole_usd: Decimal) -> list[tuple[Cell, ...]]:
    """FIGURES of each line."""
    columns = zip(
        lines,
        pricing.lines([line.totals.cost_usd for line in lines]),
        _before(lines),
        pricing.lines([line.totals.wasted_usd for line in lines]),
        strict=True,
    )
    return [
        (
            cost,
            None if before is None else cost - before,
            before,
            _hours(line),
            _share(cost, whole_usd),
            _rate(line),
            wasted,
        )
        for line, cost, before, wasted in columns
    ]


def _rate(line: Compared) -> Decimal | None:
    usd = line.totals.usd_per_gpu_hour
    return None if usd is None else pricing.usd(usd)


def workbook(costs_of: Explored, *, group: str, of: Sequence[tuple[str, Cell]]) -> bytes:
    """The same as Excel for people: a cover with the facts `of` what is looked at, a chart of the
    dearest, shares, what no job held last, and a total. `group` is what a line is, in words.
    """
    facts = [*of, *_totals(costs_of.whole)]
    title = f"GPU costs by {group[:1].lower()}{group[1:]}"
    sheet = Table(SHEET, ("label", "key", *FIGURES), _sheet_rows(costs_of), {"label": group})
    bars = [(line.label, line.totals.cost_usd) for line in costs_of.lines]
    return to_xlsx([sheet], Cover(title, facts, _meanings(), SHEET, bars))


def _unheld_last(costs_of: Explored) -> list[Compared]:
    """The lines in their order, what no job held last, as on the page."""
    return sorted(costs_of.lines, key=lambda line: not line.key)


def _sheet_rows(costs_of: Explored) -> list[Sequence[Cell]]:
    lines = _unheld_last(costs_of)
    figures = _figures(lines, costs_of.whole.totals.cost_usd)
    return [(line.label, line.key, *row) for line, row in zip(lines, figures, strict=True)]


def _share(cost: Decimal, whole_usd: Decimal) -> Decimal | None:
    return (cost / whole_usd).quantize(SIX_PLACES) if whole_usd else None


def _totals(whole: Compared) -> list[tuple[str, Cell]]:
    """The cover's facts of the whole."""
    totals = whole.totals
    facts: list[tuple[str, Cell]] = [
        ("Currency", "US dollars (USD)"),
        ("Cost", totals.cost_usd),
        ("Of that, wasted", totals.wasted_usd),
        ("GPU-hours", _hours(whole)),
    ]
    if whole.before is not None:
        facts.append(("Cost of the period before", whole.before.cost_usd))
    return facts


def _meanings() -> list[tuple[str, str]]:
    return [(heading(column), meaning) for column, meaning in WORDS if column in FIGURES]


def _before(lines: Sequence[Compared]) -> Sequence[Decimal | None]:
    """What lines cost before; None where there is nothing to compare with."""
    if any(line.before is None for line in lines):
        return [None] * len(lines)
    return pricing.lines([line.before.cost_usd for line in lines if line.before is not None])


def _ends(interval: Interval | None) -> tuple[Cell, Cell]:
    if interval is None:
        return None, None
    return f"{interval.start:%Y-%m-%dT%H:%M:%SZ}", f"{interval.end:%Y-%m-%dT%H:%M:%SZ}"


def _hours(line: Compared) -> Decimal:
    return (Decimal(line.totals.capacity_ms) / HOUR_MS).quantize(SIX_PLACES)
