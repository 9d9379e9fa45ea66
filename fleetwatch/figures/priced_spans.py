"""GPU time beside what was known of its GPUs and jobs then (prices, models, holders): its groups,
and what of it is looked at.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from fleetwatch.figures.packed_spans import NO_JOB, Bools, Ints, Spans, ids, numbered
from fleetwatch.figures.priced_columns import NO_KEY, Keys, Owner, Price
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

    user: str | None
    team_id: int | None
    project: str | None
    cost_centre: str | None
    is_named: bool | None

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
    found = fetched(
        _MOMENTS,
        {"start": whole.start, "end": whole.end, "by_owner": bool(asked & {*OWNERS, *OWNED})},
    )
    moments = [moment for moment, _ in found]
    return Eras(
        whole, moments, [node_id for _, node_id in found], [whole.start, *sorted(set(moments))]
    )


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
class _Machines:
    """Of each GPU the physical one that it is (part of), and its model's id; 0 = not known."""

    physical: Ints
    model: Ints


@dataclass(frozen=True, slots=True)
class PricedSpans:
    """Of spans of GPU time in one era each: what is known of their GPUs and holders."""

    gpus: Ints  # every GPU's id, ascending
    gpu: Ints  # of each span, place in gpus
    job: Ints  # of each span, the id; NO_JOB where no job held it
    machines: _Machines  # in the order of gpus
    prices: list[Price]
    price: Ints  # of each span, place in prices
    holders: list[Holder]
    holder: Ints  # of each span, place in holders; 0 = no job, or one that was deleted

    def keys(self, name: str) -> Keys:
        """Groups of that kind; of users and owners, which have no ids here, numbers in
        their order.
        """
        if name == "job":
            return Keys(*numbered(np.where(self.holder > 0, self.job, NO_JOB)))
        if name in ("gpu", "gpu_model"):
            found, place = numbered(
                self.machines.physical if name == "gpu" else self.machines.model
            )
            return Keys(found, place[self.gpu])
        said = [
            fact.user or "" if name == "user" else fact.owner(name) for fact in self.holders[1:]
        ]
        names = sorted(set(said), key=str)
        numbers = np.array([NO_KEY, *(1 + names.index(one) for one in said)], dtype=np.int64)
        return Keys(np.arange(len(names) + 1), numbers[self.holder], names)

    def chosen(self, limits: Limits) -> list[Bools]:
        """Tests of each span: it is looked at where it passes all."""
        chosen = [*self._of_machines(limits), *self._of_holders(limits)]
        if limits["gpu_ids"] is not None:
            chosen.append(np.isin(self.gpus, limits["gpu_ids"])[self.gpu])
        if limits["job_id"] is not None:
            chosen.append(self.job == limits["job_id"])
        return chosen

    def _of_machines(self, limits: Limits) -> list[Bools]:
        chosen = []
        if limits["gpu_model_id"] is not None:
            chosen.append((self.machines.model == limits["gpu_model_id"])[self.gpu])
        if limits["has_gpu_model"] is not None:
            chosen.append(((self.machines.model != NO_KEY) == limits["has_gpu_model"])[self.gpu])
        return chosen

    def _of_holders(self, limits: Limits) -> list[Bools]:
        """What is nobody's has no user and no owner, not even none."""
        facts = self.holders[1:]
        wanted = {
            "user": limits["user_name"],
            **{name: limits[name] for name in ("team_id", "project", "cost_centre", "is_named")},
        }
        tests = [
            [getattr(fact, name) == value for fact in facts]
            for name, value in wanted.items()
            if value is not None
        ]
        if limits["has_team"] is not None:
            tests.append([(fact.team_id is not None) == limits["has_team"] for fact in facts])
        chosen = (
            [] if limits["is_allocated"] is None else [(self.holder > 0) == limits["is_allocated"]]
        )
        return [*chosen, *(np.array([False, *test])[self.holder] for test in tests)]


def priced(spans: Spans[Any], *, eras: Eras, asked: set[str]) -> PricedSpans:
    """Spans beside what is known of them and `asked` for."""
    (gpus, gpu), (jobs, job) = numbered(spans.gpu), numbered(spans.job)
    prices, holders = _prices(gpus, eras), _holders(jobs, eras, asked)
    return PricedSpans(
        gpus,
        gpu,
        spans.job,
        _machines(gpus, asked),
        prices.facts,
        prices.of(spans.era, gpu),
        holders.facts,
        holders.of(spans.era, job),
    )


def _prices(gpus: Ints, eras: Eras) -> _Dated[Price]:
    rows = fetched(_PRICES, {"gpu_ids": gpus, "start": eras.whole.start, "end": eras.whole.end})
    return _dated(
        [(Price(usd, is_example), *rest) for usd, is_example, *rest in rows],
        gpus,
        eras,
        Price(None, None),
    )


def _holders(jobs: Ints, eras: Eras, asked: set[str]) -> _Dated[Holder]:
    nobody = Holder(None, None, None, None, None)
    if not asked & {"job", "user", *OWNERS, *HELD}:
        return _dated([], jobs, eras, nobody)
    wanted = {
        "job_ids": jobs[jobs != NO_JOB],
        "by_user": bool(asked & {"user", "user_name"}),
        "by_team": bool(asked & {"team", "team_id", "has_team"}),
        "by_project": "project" in asked,
        "by_cost_centre": "cost_centre" in asked,
        "by_owner": bool(asked & {*OWNERS, *OWNED}),
    }
    return _dated(
        [(Holder(*row[:5]), *row[5:]) for row in fetched(_HOLDERS, wanted)], jobs, eras, nobody
    )


def _dated(
    rows: Sequence[tuple[Fact, datetime | None, datetime | None, bytes]],
    known: Ints,
    eras: Eras,
    nothing: Fact,
) -> _Dated[Fact]:
    """Of each fact (valid from, valid to, packed ids) where it holds; `known` are all ids,
    ascending.
    """
    facts, number = [nothing], np.zeros((len(eras.starts), len(known)), dtype=np.int64)
    for fact, valid_from, valid_to, packed in rows:
        number[eras.during(valid_from, valid_to), np.searchsorted(known, ids(packed))] = len(facts)
        facts.append(fact)
    return _Dated(facts, number)


def _machines(gpus: Ints, asked: set[str]) -> _Machines:
    if not asked & {"gpu", "gpu_model", "gpu_model_id", "has_gpu_model"}:
        return _Machines(gpus, np.zeros(len(gpus), dtype=np.int64))
    # ids by the thousand as one parameter: as many of Django's take longer than all that is read of
    # them
    found = {
        pk: (physical, model or NO_KEY)
        for pk, physical, model in fetched(_MACHINES, {"gpu_ids": gpus})
    }
    pairs = np.array([found[pk] for pk in gpus.tolist()], dtype=np.int64).reshape(-1, 2)
    return _Machines(pairs[:, 0], pairs[:, 1])
