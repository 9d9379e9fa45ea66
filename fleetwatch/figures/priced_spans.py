"""GPU time beside what was known of its GPUs and jobs then (prices, models, holders): its groups,
and what of it is looked at.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from fleetwatch.figures.packed_spans import NO_JOB, Bools, Ints, Spans, ids, numbered
from fleetwatch.figures.priced_columns import NO_KEY, Columns, Keys, Owner, Price
from fleetwatch.figures.scopes import HELD, OWNED, Limits
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

OWNERS = ("team", "project", "cost_centre")  # whose a job's time is at a moment: attribution.py

_MOMENTS, _HOLDERS, _PRICES, _MACHINES = (
    read_statement(f"figures/sql/{name}.sql")
    for name in ("moments", "holders", "prices", "machines")
)
Fact = TypeVar("Fact")


class Holder(NamedTuple):
    """Whose a job is; None = not asked, or nobody's."""

    user_name: str | None
    team_id: int | None
    project: str | None
    cost_centre: str | None
    is_named: bool | None

    @property
    def has_team(self) -> bool:
        return self.team_id is not None

    def owner(self, kind: str) -> Owner:
        """Its team, project or cost centre."""
        text = "" if kind == "team" else getattr(self, kind) or ""
        team_id = self.team_id if kind == "team" else None
        return Owner(team_id, text, bool(self.is_named) and team_id is None and not text)


@dataclass(frozen=True, slots=True)
class Eras:
    """Time cut where prices (or whose a job's time is) may change: cuts of the ledger from
    `whole.start` to `whole.end`.
    """

    whole: Interval
    moments: list[datetime]
    moved: list[int | None]  # the node whose price may change at the moment; None = any
    starts: list[datetime]  # where each begins: the period does, and at each moment another

    def during(self, valid_from: datetime | None, valid_to: datetime | None) -> slice:
        """Those in which what is valid over that span holds."""
        first = 0 if valid_from is None else bisect_left(self.starts, valid_from)
        return slice(
            first, len(self.starts) if valid_to is None else bisect_left(self.starts, valid_to)
        )

    @property
    def wanted(self) -> dict[str, Any]:
        """As statements ask for them."""
        return {
            "start": self.whole.start,
            "end": self.whole.end,
            "moments": self.moments,
            "moved": self.moved,
            "eras": self.starts[1:],
        }


def eras(whole: Interval, asked: set[str]) -> Eras:
    """The eras of cuts of the ledger; whose a job's time is matters where owners are asked for."""
    by_owner = bool(asked & {*OWNERS, *OWNED})
    rows = fetched(_MOMENTS, {"start": whole.start, "end": whole.end, "by_owner": by_owner})
    moments = [moment for moment, _ in rows]
    starts = [whole.start, *sorted(set(moments))]
    return Eras(whole, moments, [node_id for _, node_id in rows], starts)


@dataclass(frozen=True, slots=True)
class _Dated(Generic[Fact]):
    """What holds for ids in each era: `number` (eras x ids) is the place of a fact; the first says
    that nothing does.
    """

    facts: list[Fact]
    number: Ints

    def of(self, era: Ints, place: Ints) -> Ints:
        return self.number[0][place] if len(self.number) == 1 else self.number[era, place]


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
        if name == "node":
            return Keys(*numbered(self.spans.node))
        if name == "job":
            return Keys(*numbered(np.where(self.holder > 0, self.spans.job, NO_JOB)))
        if name in ("gpu", "gpu_model"):
            ids_of, place = numbered(self.physical if name == "gpu" else self.model)
            return Keys(ids_of, place[self.gpu])
        groups = [
            holder.user_name or "" if name == "user" else holder.owner(name)
            for holder in self.holders[1:]
        ]
        names = sorted(set(groups), key=str)
        numbers = np.array([NO_KEY, *(1 + names.index(group) for group in groups)], dtype=np.int64)
        return Keys(np.arange(len(names) + 1), numbers[self.holder], names)

    def columns(self, by: Mapping[str, Keys]) -> Columns[Any]:
        """The spans with their prices and these groups."""
        spans = self.spans
        return Columns(
            spans.labels,
            spans.label,
            self.prices,
            self.price,
            spans.gpu,
            spans.job,
            by,
            spans.figures,
        )

    def chosen(self, limits: Limits) -> list[Bools]:
        """Tests of each span: it is looked at where it passes all."""
        chosen = []
        if limits["gpu_ids"] is not None:
            chosen.append(np.isin(self.gpus, limits["gpu_ids"])[self.gpu])
        if limits["gpu_model_id"] is not None:
            chosen.append((self.model == limits["gpu_model_id"])[self.gpu])
        if limits["has_gpu_model"] is not None:
            chosen.append(((self.model != NO_KEY) == limits["has_gpu_model"])[self.gpu])
        if limits["job_id"] is not None:
            chosen.append(self.spans.job == limits["job_id"])
        if limits["is_allocated"] is not None:
            chosen.append((self.holder > 0) == limits["is_allocated"])
        return [*chosen, *self._of_holders(limits)]

    def _of_holders(self, limits: Limits) -> list[Bools]:
        """What is nobody's has no user and no owner, not even none."""
        names = [name for name in (*Holder._fields, "has_team") if limits[name] is not None]
        tests = (
            [False, *(getattr(holder, name) == limits[name] for holder in self.holders[1:])]
            for name in names
        )
        return [np.array(test)[self.holder] for test in tests]


def priced(spans: Spans[Any], *, eras: Eras, asked: set[str]) -> PricedSpans:
    """Spans beside what is known of them and `asked` for."""
    gpus, gpu = numbered(spans.gpu)
    jobs, job = numbered(spans.job)
    prices = _prices(gpus, eras)
    holders = _holders(jobs, eras, asked)
    return PricedSpans(
        spans,
        gpus,
        gpu,
        *_machines(gpus, asked),
        prices.facts,
        prices.of(spans.era, gpu),
        holders.facts,
        holders.of(spans.era, job),
    )


def _prices(gpus: Ints, eras: Eras) -> _Dated[Price]:
    rows = fetched(_PRICES, {"gpu_ids": gpus, "start": eras.whole.start, "end": eras.whole.end})
    prices = [(Price(*row[:2]), *row[2:]) for row in rows]
    return _dated(prices, gpus, eras, Price(None, None))


def _holders(jobs: Ints, eras: Eras, asked: set[str]) -> _Dated[Holder]:
    wanted = {
        "job_ids": jobs[jobs != NO_JOB],
        "by_user": bool(asked & {"user", "user_name"}),
        "by_team": bool(asked & {"team", "team_id", "has_team"}),
        "by_project": "project" in asked,
        "by_cost_centre": "cost_centre" in asked,
        "by_owner": bool(asked & {*OWNERS, *OWNED}),
    }
    rows = fetched(_HOLDERS, wanted) if asked & {"job", "user", *OWNERS, *HELD} else []
    holders = [(Holder(*row[:5]), *row[5:]) for row in rows]
    return _dated(holders, jobs, eras, Holder(None, None, None, None, None))


def _dated(
    rows: Sequence[tuple[Fact, datetime | None, datetime | None, bytes]],
    every: Ints,
    eras: Eras,
    nothing: Fact,
) -> _Dated[Fact]:
    """Of each fact (valid from, valid to, packed ids) where it holds; `every` are all ids,
    ascending.
    """
    facts = [nothing, *(row[0] for row in rows)]
    number = np.zeros((len(eras.starts), len(every)), dtype=np.int64)
    for place, (_, valid_from, valid_to, packed) in enumerate(rows, 1):
        number[eras.during(valid_from, valid_to), np.searchsorted(every, ids(packed))] = place
    return _Dated(facts, number)


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
