"""A stored report as tables: the same rows for CSV and Excel. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from fleetwatch.figures import pricing
from fleetwatch.ledger.policy import SHOWN_STATES, TIERS
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.reports import by_contract
from fleetwatch.reports.statement import Shape, amount_or_none

Cell = str | Decimal | float | None
BesideLine = tuple[str, Shape, str, str]  # what it is, the line, its name's and amount's columns
Sheet = tuple[str, Sequence[str], Sequence[Shape]]  # its name, its columns, what it has rows of
FOUR_PLACES = Decimal("0.0001")

# Columns that are called otherwise than a line's entry.
ENTRIES = {
    "gpu_hours": "gpu_ms",
    "priced_gpu_hours": "priced_ms",
    "busy_unverified_gpu_hours": "busy_unverified_ms",
    "waiting_gpu_hours": "waiting_ms",
    "committed_gpu_hours": "committed_ms",
    "used_gpu_hours": "used_ms",
    "unheld_gpu_hours": "unheld_ms",
    "missing_gpu_hours": "missing_ms",
    "there_gpu_hours": "there_ms",
    "corrects_month": "corrects",
    "commitment": "name",
    "class": "node_class",
    "not_delivered_usd": "missing_usd",
    "before_from_utc": "from",
    "before_to_utc": "to",
    "before_cost_usd": "cost_usd",
    "label": "name",
}
# hours by state, as pages have them: each is in one column
OF_STATES = {
    "busy_unverified_gpu_hours" if state == "unverified" else f"{state}_gpu_hours": state
    for state in SHOWN_STATES
}
# what of the ledger's state has a column of its own
APART = {"useful": "busy_unverified_ms", "stalled": "waiting_ms"}
OF_TIERS = {f"waste_{tier}_usd": tier for tier in TIERS}
# hours × rate stand beside what they come to
_FIGURES = (
    "gpu_hours",
    "priced_gpu_hours",
    "usd_per_gpu_hour",
    "cost_usd",
    *OF_TIERS,
    "wasted_usd",
    *OF_STATES,
)
SAVINGS = "Savings"
_TEAM = ("team", "team_name")
_OWNERS = ("project", "cost_centre")
_ADVICE = ("likely_cause", "first_step")
_OF_ADJUSTMENTS = ("team", "state", "corrects_month", "cause", "gpu_hours", "cost_usd")
_OF_BOOKED = (
    "line",
    "invoice_of",
    "reason",
    "cost_usd",
    "hours_usd",
    "unobserved_usd",
    "rate_usd",
    "other_usd",
)
# what the page prints of a line: these columns sum to what it prints of the total
_CENTS = ("cost_to_the_cent_usd", "wasted_to_the_cent_usd")
# what leads from the sum of cost_usd to what is paid, on lines that cost nothing by the ledger
_BESIDE = ("beside", "beside_usd", "beside_to_the_cent_usd")
_NO_TIME: Shape = {"states": {}, "waste_usd": dict.fromkeys(TIERS, "0"), "wasted_usd": "0"}
_OF_DIFFERENCE = (
    "before_from_utc",
    "before_to_utc",
    "before_cost_usd",
    "difference_usd",
    "volume_usd",
    "mix_usd",
    "rate_usd",
)


@dataclass(frozen=True, slots=True)
class Table:
    """One sheet: names with their units, and rows; text is as people typed it, None is not
    known. `heads`: columns that people read otherwise than headings.heading() says; `note`: what to
    know of its rows, below them.
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    heads: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def tables(content: Shape) -> list[Table]:
    """The sheets of a statement or of the fleet's report, of printed_content.with_cents; the first
    one's cost_usd sum to the report's total, and to the cent to what its page prints.
    """
    period = {"month": content["month"], "from_utc": content["from"], "to_utc": content["to"]}
    sheets = _statement(content) if "team" in content else _fleet(content)
    notes = {SAVINGS: _left_out(content)}
    return [
        _table(name, columns, lines, period, notes.get(name, "")) for name, columns, lines in sheets
    ]


def _left_out(content: Shape) -> str:
    """Which jobs the savings leave out, as their page says it; "" where none."""
    agreed = content.get("savings_agreed")
    if not agreed:
        return ""
    jobs = "1 job" if agreed["jobs"] == 1 else f"{agreed['jobs']:,} jobs"
    wasted_usd = pricing.usd(Decimal(agreed["wasted_usd"]), pricing.CENT)
    return f"Left out: {jobs} agreed as not waste, ${wasted_usd:,}"


def _table(
    name: str, columns: Sequence[str], lines: Iterable[Shape], period: Shape, note: str
) -> Table:
    # a month has 100,000 lines: how a column is read is looked up once
    readers = [_reader(column) for column in columns]
    same = period.values()
    rows = [(*same, *[read(line) for read in readers]) for line in lines]
    return Table(name, (*period, *columns), rows, note=note)


def _statement(content: Shape) -> list[Sheet]:
    team = _team(content["team"])
    # of the team's whole month, the same on every line: a file of lines alone has to say it too
    budget = {f"team_{name}": amount for name, amount in _spent(content).items()}
    always = team | budget
    lines = [always | line for line in content["lines"]]
    users = [team | user for user in content["users"]]
    job = ("job", "name", "user", "gpu_model", *_OWNERS)
    return [
        ("Lines", (*_TEAM, *job, *_FIGURES, *_CENTS, *budget), lines),
        ("Users", (*_TEAM, "user", "jobs", *_FIGURES), users),
        *_of_both(content),
    ]


def _fleet(content: Shape) -> list[Sheet]:
    teams = [{"line": "team"} | _team(team) | team for team in content["teams"]]
    own = [{"line": "own line"} | line for line in content["own_lines"]]
    savings = [line | _advice(line.get("cause")) for line in content["savings"]]
    columns = ("team", "job", "name", "user", *_ADVICE, *_FIGURES)
    of_lines = ("line", *_TEAM, "state", "gpu_model", *_FIGURES, *_CENTS, *_BESIDE)
    return [
        ("Teams", of_lines, [*teams, *own, *beside_lines(content)]),
        ("GPU models", ("gpu_model", *_FIGURES), content["gpu_models"]),
        *_of_both(content, (SAVINGS, columns, savings)),
    ]


def beside_lines(content: Shape) -> list[Shape]:
    """The chain from the fleet's cost at the rates to what is paid, as its page has it:
    adjustments, what of commitments was not there, commitments at their contract price, what was
    booked of invoices, and off again the contract's price of what these bill.
    """
    booked = content.get("invoice_lines", [])
    chain = [
        *(("adjustment", each, "corrects", "cost_usd") for each in content["adjustments"]),
        *_not_delivered(content),
        *_at_contract_prices(content),
        *(("invoice booked", each, "label", "cost_usd") for each in booked),
        *(
            ("contract price is in the invoice's line", each, "name", "taken_back_usd")
            for each in by_contract.taken_back(content)
        ),
    ]
    return [
        {"line": line, "gpu_model": each.get("gpu_model") or None}
        | {"beside": each[name], "beside_usd": each[amount]}
        | {"beside_to_the_cent_usd": each["cents"][amount]}
        | _NO_TIME
        for line, each, name, amount in chain
    ]


def _not_delivered(content: Shape) -> list[BesideLine]:
    return [
        ("commitment not delivered", each, "name", "missing_usd")
        for each in content.get("commitments", [])
        if each["missing_ms"]
    ]


def _at_contract_prices(content: Shape) -> list[BesideLine]:
    return [
        ("commitment by contract less rates", each, "name", "rate_book_differs_usd")
        for each in content.get("commitments", [])
        if by_contract.is_there(each)
    ]


def _advice(cause: Shape | None) -> Shape:
    """Why a job wasted, and what to do first; None = not known, or an older version."""
    if cause is None:
        return dict.fromkeys(_ADVICE)
    return {"likely_cause": cause["title"], "first_step": cause["first_step"] or None}


def _of_both(content: Shape, *savings: Sheet) -> list[Sheet]:
    """What statements and the fleet's report have, where there is any of it."""
    adjustments = [_without_empty(line, "team", "state") for line in content["adjustments"]]
    booked = [line | {"line": line["label"]} for line in content.get("invoice_lines", [])]
    compared = [content["compared_with"] | content["comparison"]] if content["comparison"] else []
    sheets = [
        *_budget(content),
        # the same time by project and cost centre, where rules name any
        ("Projects", ("project", "label", *_FIGURES), _keyed(content["projects"], "project")),
        (
            "Cost centres",
            ("cost_centre", "label", *_FIGURES),
            _keyed(content["cost_centres"], "cost_centre"),
        ),
        *_free(content),
        *savings,
        # beside the report's total, not in it
        ("Adjustments", _OF_ADJUSTMENTS, adjustments),
        _commitments(content),
        ("Invoice", _OF_BOOKED, booked),
        ("Difference", _OF_DIFFERENCE, compared),
    ]
    return [sheet for sheet in sheets if sheet in savings or sheet[-1]]


def _keyed(lines: Sequence[Shape], owner: str) -> list[Shape]:
    return [line | {owner: line["key"]} for line in lines]


def _team(team: Shape) -> Shape:
    return {"team": team["slug"], "team_name": team["name"]}


def _spent(content: Shape) -> Shape:
    """Budget, spent, used ÷ budget (four places) and expected at the month's end; None = not known
    or no budget.
    """
    line = content["budget"] or {}
    budget = amount_or_none(line.get("budget_usd"))
    spent = amount_or_none(line.get("spent_usd"))
    return {
        "budget_usd": budget,
        "spent_usd": spent,
        "used_ratio": (spent / budget).quantize(FOUR_PLACES)
        if budget and spent is not None
        else None,
        "expected_usd": line.get("expected_usd"),
    }


def _budget(content: Shape) -> list[Sheet]:
    budget = content["budget"]
    if not budget:
        return []
    line = _spent(content) | {
        "expected_low_usd": budget["low_usd"],
        "expected_high_usd": budget["high_usd"],
        "note": _note(content) or None,
    }
    return [("Budget", tuple(line), [line])]


def _note(content: Shape) -> str:
    """What to know of the budget's figures: which days are missing, and what its version noted."""
    since = content.get("recorded_since")
    missing = ""
    if since is not None:
        day = datetime.fromisoformat(since).astimezone(ZoneInfo(content["zone"]))
        missing = f"Days missing: nothing before {day:%-d %b %Y} is recorded."
    return " ".join(filter(None, [missing, content["budget"]["note"]]))


def _free(content: Shape) -> list[Sheet]:
    """The teams' parts of the free capacity, where it was spread: beside the total, not in it."""
    free = content.get("free")
    if free is None:
        return []
    teams = free["teams"] if "teams" in free else [content["team"] | free]
    lines = [team | _team(team) | {"way": free["way"]} for team in teams]
    return [("Free capacity", (*_TEAM, "way", "cost_usd", "free_usd", "with_free_usd"), lines)]


def _commitments(content: Shape) -> Sheet:
    """What was committed to; not_delivered_usd is paid beside the report's total."""
    names = ("name", "gpu_model", "pool", "node_class", "region")
    columns = (
        "commitment",
        "gpu_model",
        "pool",
        "class",
        "region",
        "gpus",
        "committed_gpu_hours",
        "used_gpu_hours",
        "unheld_gpu_hours",
        "missing_gpu_hours",
        "committed_usd",
        "used_usd",
        "unheld_usd",
        "not_delivered_usd",
        # what was there, by its contract beside the rates
        "there_gpu_hours",
        "contract_usd_per_gpu_hour",
        "by_contract_usd",
        "rates_usd_per_gpu_hour",
        "rate_book_usd",
        "by_contract_less_rates_usd",
    )
    lines = [
        _without_empty(line, *names) | _both_prices(line) for line in content.get("commitments", [])
    ]
    return ("Commitments", columns, lines)


def _both_prices(line: Shape) -> Shape:
    """Of a commitment's GPUs that were there the hours, their dollars and prices by contract and
    at the rates.
    """
    there_ms = line["used_ms"] + line["unheld_ms"]
    contract_usd = Decimal(line["used_usd"]) + Decimal(line["unheld_usd"])
    rates_usd = Decimal(line["rate_book_usd"])
    return {
        "there_ms": there_ms,
        "by_contract_usd": contract_usd,
        "contract_usd_per_gpu_hour": _per_hour(contract_usd, there_ms),
        "rates_usd_per_gpu_hour": _per_hour(rates_usd, there_ms),
        "by_contract_less_rates_usd": contract_usd - rates_usd,
    }


def _per_hour(usd: Decimal, gpu_ms: int) -> Decimal | None:
    return pricing.usd(usd * HOUR_MS / gpu_ms) if gpu_ms else None


def _without_empty(line: Shape, *names: str) -> Shape:
    return line | {name: line[name] or None for name in names}


def _reader(column: str) -> Callable[[Shape], Cell]:
    """How a line's cell of that column is read: the entry of that name, hours of its milliseconds;
    None = not known.
    """
    entry = ENTRIES.get(column, column)
    if column in OF_STATES and column not in ENTRIES:
        state = OF_STATES[column]
        part = APART.get(state, "")
        return lambda line: hours(line["states"].get(state, 0) - line.get(part, 0))
    if column in OF_TIERS:
        tier = OF_TIERS[column]
        return lambda line: Decimal(line["waste_usd"][tier])
    if column.endswith("gpu_hours"):
        return lambda line: hours(line.get(entry, 0))
    if column.endswith(("_usd", "usd_per_gpu_hour")):
        return lambda line: amount_or_none(line.get(entry))
    return lambda line: line.get(entry)


def hours(gpu_ms: int, places: Decimal = pricing.MICRO_USD) -> Decimal:
    """GPU-hours to so many places."""
    return (Decimal(gpu_ms) / HOUR_MS).quantize(places)
