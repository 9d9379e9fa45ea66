"""GPU time beside what was known of its GPUs and jobs then (prices, models, holders): its groups,
and what of it is looked at.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fleetwatch.figures.packed_spans import NO_JOB, Bools, Ints, Spans, numbered
from fleetwatch.figures.price_rows import every_price, prices_of
from fleetwatch.figures.priced_columns import NO_KEY, Columns, Keys, Price
from fleetwatch.figures.scopes import HELD, OWNED, Limits, Seen
from fleetwatch.figures.totals import NOBODY, OWNERS, Line, without
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_MOMENTS, _HOLDERS, _MACHINES = (
    read_statement(f"figures/sql/{name}.sql") for name in ("moments", "holders", "machines")
)
Row = tuple[Any, ...]


class Holder(NamedTuple):
    """Whose a job is; None = not asked, or nobody's."""

    user_name: str | None = None
    team_id: int | None = None
    project: str | None = None
    cost_centre: str | None = None
    is_named: bool | None = None
    team_slug: str | None = None
    team_name: str | None = None

    @property
    def has_team(self) -> bool:
        return self.team_id is not None

    def line(self, kind: str) -> Line:
        """Key and label of its user, team, project or cost centre."""
        if kind == "team" and self.team_slug is not None:
            return self.team_slug, self.team_name or self.team_slug
        name = getattr(self, {"user": "user_name", "team": "team_slug"}.get(kind, kind))
        if name:
            return name, name
        is_named = bool(self.is_named)
        return (NOBODY, "no user") if kind == "user" else without(kind, is_named=is_named)


@dataclass(frozen=True, slots=True)
class Eras:
    """Time cut where prices (or whose a job's time is) may change: cuts of the ledger from
    `whole.start` to `whole.end`.
    """

    whole: Interval
    moments: list[datetime]
    moved: list[int | None]  # the node whose price may change at the moment; None = any
    starts: list[datetime]  # where each begins: the period does, and at each moment another

    def is_one(self, day: Interval) -> bool:
        """Whether nobody's price may change within the day."""
        at = bisect_right(self.starts, day.start)
        return at == len(self.starts) or self.starts[at] >= day.end

    def during(self, valid_from: datetime | None, valid_to: datetime | None) -> slice:
        """Those in which what is valid over that span holds."""
        first = 0 if valid_from is None else bisect_left(self.starts, valid_from)
        return slice(
            first, len(self.starts) if valid_to is None else bisect_left(self.starts, valid_to)
        )


def eras(whole: Interval, asked: set[str]) -> Eras:
    """The eras of cuts of the ledger; whose a job's time is matters where owners are asked for."""
    by_owner = bool(asked & {*OWNERS, *OWNED})
    rows = fetched(_MOMENTS, {"start": whole.start, "end": whole.end, "by_owner": by_owner})
    moments = [moment for moment, _ in rows]
    starts = [whole.start, *sorted(set(moments))]
    return Eras(whole, moments, [node_id for _, node_id in rows], starts)


@dataclass(frozen=True, slots=True)
class PricedSpans:
    """Of spans of GPU time in one era each: what is known of their GPUs and holders."""

    spans: Spans[Any]
    gpus: Ints  # every GPU's id, ascending
    gpu: Ints  # of each span, place in gpus
    physical: Ints  # of gpus, in their order: the physical one that each is (part of)
    model: Ints  # and its model's id; 0 = not known
    prices: list[Price]
    price: Ints  # of each span, place in prices
    holders: list[Holder]
    holder: Ints  # of each span, place in holders; 0 = no job, or one that was deleted

    def keys(self, name: str) -> Keys:
        """Groups of that kind; of users and owners, which have no ids here, numbers in
        their order.
        """
        if name in ("user", *OWNERS):
            return self._of_holders([holder.line(name) for holder in self.holders[1:]])
        if name in ("gpu", "gpu_model"):
            ids_of, place = numbered(self.physical if name == "gpu" else self.model)
            return Keys(ids_of, place[self.gpu])
        if name == "job":
            return Keys(*numbered(np.where(self.holder > 0, self.spans.job, NO_JOB)))
        return Keys(*numbered(self.spans.node if name == "node" else self.spans.step))

    def _of_holders(self, lines: Sequence[Line]) -> Keys:
        numbers = {line: number for number, line in enumerate(sorted(set(lines)), 1)}
        of_holder = np.array([NO_KEY, *(numbers[line] for line in lines)], dtype=np.int64)
        return Keys(np.arange(len(numbers) + 1), of_holder[self.holder], list(numbers))

    def columns(self, by: Collection[str], tests: Sequence[Bools]) -> Columns[Any]:
        """The spans that pass all of the tests, with their prices and these groups."""
        spans = self.spans
        keys = {name: self.keys(name) for name in by}
        columns = Columns(
            spans.labels,
            spans.label,
            self.prices,
            self.price,
            spans.gpu,
            spans.job,
            keys,
            spans.figures,
        )
        return columns.where(np.logical_and.reduce(tests)) if tests else columns

    def chosen(self, limits: Limits) -> list[Bools]:
        """Tests of each span: it is looked at where it passes all."""
        return [
            test(self, limits[name]) for name, test in _TESTS.items() if limits[name] is not None
        ]


def _is_holders(name: str, spans: PricedSpans, wanted: Any) -> Bools:
    """What is nobody's has no user and no owner, not even none."""
    passes = [False, *(getattr(holder, name) == wanted for holder in spans.holders[1:])]
    return np.array(passes)[spans.holder]


def _is_seen(spans: PricedSpans, seen: Seen) -> Bools:
    """What is nobody's is nobody's to see."""
    of_teams = [False, *(holder.team_id in seen.team_ids for holder in spans.holders[1:])]
    is_own = np.isin(spans.spans.job, seen.job_ids) & (spans.holder > 0)
    return np.array(of_teams)[spans.holder] | is_own


# by name of a limit
_TESTS: dict[str, Callable[[PricedSpans, Any], Bools]] = {
    "seen": _is_seen,
    "gpu_ids": lambda spans, wanted: np.isin(spans.gpus, wanted)[spans.gpu],
    "gpu_model_id": lambda spans, wanted: (spans.model == wanted)[spans.gpu],
    "has_gpu_model": lambda spans, wanted: ((spans.model != NO_KEY) == wanted)[spans.gpu],
    "job_id": lambda spans, wanted: spans.spans.job == wanted,
    "job_ids": lambda spans, wanted: np.isin(spans.spans.job, wanted),
    "is_allocated": lambda spans, wanted: (spans.holder > 0) == wanted,
    **{name: partial(_is_holders, name) for name in ("user_name", *OWNED)},
}


def priced(spans: Spans[Any], eras: Eras, asked: set[str], *, is_of_fleet: bool) -> PricedSpans:
    """Spans beside what is known of them and `asked` for. Of the fleet's everybody's prices are
    read, as of all that one page reads of it.
    """
    gpus, gpu = numbered(spans.gpu)
    jobs, job = numbered(spans.job)
    prices = every_price().rows if is_of_fleet else prices_of(gpus)
    holders = _holders(jobs, asked)
    return PricedSpans(
        spans,
        gpus,
        gpu,
        *_machines(gpus, asked),
        [Price(None, None), *(Price(*row[:2]) for row in prices)],
        _places(prices, gpus, eras, spans.era, gpu),
        [Holder(), *(Holder(*row[:-3]) for row in holders)],
        _places(holders, jobs, eras, spans.era, job),
    )


def _places(rows: Sequence[Row], every: Ints, eras: Eras, era: Ints, at: Ints) -> Ints:
    """Of each span the place (from 1 on) of the row that holds for its id, one of `every`, in its
    era; 0 = none does. A row ends with valid from, valid to and its ids, packed; others may be
    among them.
    """
    places = np.zeros((len(eras.starts), len(every) + 1), dtype=np.int64)
    for place, (row, of_row) in enumerate(zip(rows, _ids_in(rows, every), strict=True), 1):
        places[eras.during(*row[-3:-1]), of_row] = place
    return places[0][at] if len(places) == 1 else places[era, at]


def _ids_in(rows: Sequence[Row], every: Ints) -> list[Ints]:
    """Of each row the positions of its ids in `every`; behind the last one for those that are not
    there.
    """
    if not rows:
        return []
    counts = [len(row[-1]) // 8 for row in rows]
    ids = np.frombuffer(b"".join(row[-1] for row in rows), dtype=">i8").astype(np.int64)
    of_id = np.searchsorted(every, ids)
    of_id[np.append(every, -1)[of_id] != ids] = len(every)
    return np.split(of_id, np.cumsum(counts[:-1]))


def _holders(jobs: Ints, asked: set[str]) -> Sequence[Row]:
    if not asked & {"job", "user", *OWNERS, *HELD}:
        return []
    ids = jobs[jobs != NO_JOB]
    if not len(ids):
        return []
    wanted = {
        **_which(ids),
        "by_user": bool(asked & {"user", "user_name"}),
        "by_team": bool(asked & {"team", "team_id", "has_team"}),
        "by_project": "project" in asked,
        "by_cost_centre": "cost_centre" in asked,
        "by_owner": bool(asked & {*OWNERS, *OWNED}),
    }
    return fetched(_HOLDERS, wanted)


def _which(ids: Ints) -> dict[str, Any]:
    """The jobs with these ids, ascending: where few others lie between them, all that do.

    To send and to compare ids by the ten thousand takes longer than to read some in vain.
    """
    first = int(ids[0])
    last = int(ids[-1])
    are_dense = 2 * len(ids) > last - first
    return {"first_id": first, "last_id": last, "job_ids": None if are_dense else ids}


def _machines(gpus: Ints, asked: set[str]) -> tuple[Ints, Ints]:
    """Of each GPU the physical one and its model's id."""
    if not asked & {"gpu", "gpu_model", "gpu_model_id", "has_gpu_model"}:
        return gpus, np.zeros(len(gpus), dtype=np.int64)
    # ids by the thousand as one parameter: as many of Django's take longer than all that is read of
    # them
    rows = fetched(_MACHINES, {"gpu_ids": gpus})
    machines = {pk: (physical, model or NO_KEY) for pk, physical, model in rows}
    pairs = [machines[pk] for pk in gpus.tolist()]
    physical, model = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return physical, model
