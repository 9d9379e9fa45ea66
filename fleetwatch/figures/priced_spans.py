"""GPU time beside what was known of its GPUs and jobs then (prices, models, holders): its groups,
and what of it is looked at.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fleetwatch.figures.eras import Eras
from fleetwatch.figures.job_holders import Holder, holders_of
from fleetwatch.figures.packed_spans import NO_JOB, Bools, Ints, Spans, numbered
from fleetwatch.figures.price_rows import every_price
from fleetwatch.figures.priced_columns import NO_KEY, Columns, Keys, Price
from fleetwatch.figures.scopes import OWNED, Limits, Seen
from fleetwatch.figures.totals import OWNERS, Line
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_MACHINES = read_statement("figures/sql/machines.sql")
Row = tuple[Any, ...]


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


def priced(spans: Spans[Any], eras: Eras, asked: set[str]) -> PricedSpans:
    """Spans beside what is known of them and `asked` for."""
    gpus, gpu = numbered(spans.gpu)
    jobs, job = numbered(spans.job)
    prices = every_price().rows
    holders, holder = holders_of(jobs, eras, asked)
    return PricedSpans(
        spans,
        gpus,
        gpu,
        *_machines(gpus, asked),
        [Price(None, None), *(Price(*row[:2]) for row in prices)],
        _at(_prices(prices, gpus, eras), spans.era, gpu),
        holders,
        _at(holder, spans.era, job),
    )


def _at(places: Ints, era: Ints, at: Ints) -> Ints:
    """Of each span the place that holds in its era for what is at that position."""
    return places[0][at] if len(places) == 1 else places[era, at]


def _prices(prices: Sequence[Row], gpus: Ints, eras: Eras) -> Ints:
    """By era and GPU the place (from 1 on) of the price that holds; 0 = none does. Prices may be
    of other GPUs, too.
    """
    places = eras.zeros(len(gpus))
    for place, (row, of_row) in enumerate(zip(prices, _ids_in(prices, gpus), strict=True), 1):
        places[eras.during(*row[-3:-1]), of_row] = place
    return places


def _ids_in(rows: Sequence[Row], every: Ints) -> list[Ints]:
    """Of each row the positions of its ids, packed at its end, in `every`; behind the last one for
    those that are not there.
    """
    if not rows:
        return []
    counts = [len(row[-1]) // 8 for row in rows]
    ids = np.frombuffer(b"".join(row[-1] for row in rows), dtype=">i8").astype(np.int64)
    of_id = np.searchsorted(every, ids)
    of_id[np.append(every, -1)[of_id] != ids] = len(every)
    return np.split(of_id, np.cumsum(counts[:-1]))


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
