"""The ledger's time of a period as columns, priced and laid into groups: what every figure of costs is summed from.

Sums of days are read where they are as new as their entries, entries elsewhere; one reading is of one moment.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs import cuts
from fleetwatch.costs.cells import Cell
from fleetwatch.costs.columns import NO_KEY, Columns, Keys, Owner
from fleetwatch.costs.scopes import HELD, OWNED, Limits, limits_of, with_instances
from fleetwatch.costs.spans import KINDS, NO_JOB, Bools, Ints, Spans, ids, numbered, spans
from fleetwatch.costs.totals import EVERYTHING, Scope
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import one_view, read_statement

OWNERS = ("team", "project", "cost_centre")  # whose a job's time is at a moment: attribution.py

_SQL = Path(__file__).parent / "sql"
_MOMENTS, _NODES, _SPANS, _HOLDERS, _PRICES = (
    read_statement(_SQL / f"{name}.sql") for name in ("moments", "nodes_of", "spans", "holders", "prices")
)
Fact = TypeVar("Fact")


class Price(NamedTuple):
    """Dollars of a GPU-hour, and whether they are a shipped list price; None = no rate held."""

    usd_per_gpu_hour: Decimal | None
    is_example: bool | None


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
class _Period:
    """What is read: cuts of the ledger, their days, and where prices (or whose a job's time is) may change within."""

    whole: Interval
    days: list[Interval]
    steps: list[datetime]
    moments: list[datetime]
    moved: list[int | None]  # the node whose price may change at the moment; None = any
    eras: list[datetime]  # where each begins: the period does, and at each moment another

    def during(self, valid_from: datetime | None, valid_to: datetime | None) -> slice:
        """The eras in which what is valid over that span holds."""
        first = 0 if valid_from is None else bisect_left(self.eras, valid_from)
        return slice(first, len(self.eras) if valid_to is None else bisect_left(self.eras, valid_to))


@dataclass(frozen=True, slots=True)
class _Dated(Generic[Fact]):
    """What holds for ids in each era: `number` (eras x ids) is the place of a fact; the first says that nothing does."""

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
class _Laid:
    """Spans beside what is known of their GPUs and holders."""

    told: Spans
    gpus: Ints  # every GPU's id, ascending
    gpu: Ints  # of each span, place in gpus
    machines: _Machines  # in the order of gpus
    holders: _Dated[Holder]
    holder: Ints  # of each span, place in the facts of holders; 0 = no job, or one that was deleted


def read(
    interval: Interval,
    *,
    by: Collection[str] = (),
    scope: Scope = EVERYTHING,
    step: str | None = None,
    gpu_ids: Sequence[int] | None = None,
    with_sums: bool = True,
) -> Columns:
    """GPU time of cuts.outward(interval), by team, project, cost_centre, user, job, node, gpu, gpu_model and, where one is named, by step.

    Steps (hour, day) are numbered from 0 on. `gpu_ids`: of these GPUs alone, with their instances. Without sums entries alone are read.
    """
    limits = limits_of(scope) | ({} if gpu_ids is None else {"gpu_ids": with_instances(gpu_ids)})
    asked = {name for name, limit in limits.items() if limit is not None} | set(by)
    with one_view():
        period = _period(interval, step, by_owner=bool(asked & {*OWNERS, *OWNED}))
        told = _spans(period, limits, with_sums=with_sums and step != "hour")
        (gpus, gpu), (jobs, job) = numbered(told.gpu), numbered(told.job)
        prices, machines, holders = _prices(gpus, period), _machines(gpus, asked), _holders(jobs, period, asked)
    laid = _Laid(told, gpus, gpu, machines, holders, holders.of(told.era, job))
    common, row = _common(told, prices, prices.of(told.era, gpu))
    keys = {name: _keys(name, laid) for name in by} | ({"step": Keys(np.arange(len(period.steps)), told.step)} if step else {})
    columns = Columns(common, row, keys, told.gpu_ms, told.energy_j, told.energy_ms)
    chosen = [*_chosen_spans(laid, limits), *_chosen_machines(laid, limits), *_chosen_holders(laid, limits)]
    return columns.where(reduce(and_, chosen)) if chosen else columns


def _period(interval: Interval, step: str | None, *, by_owner: bool) -> _Period:
    organisation_zone = zone()
    whole = cuts.outward(interval, organisation_zone)
    found = fetched(_MOMENTS, {"start": whole.start, "end": whole.end, "by_owner": by_owner})
    moments = [moment for moment, _ in found]
    return _Period(
        whole=whole,
        days=cuts.days(whole, organisation_zone),
        steps=cuts.steps(whole, step, organisation_zone) if step else [],
        moments=moments,
        moved=[node_id for _, node_id in found],
        eras=[whole.start, *sorted(set(moments))],
    )


def _spans(period: _Period, limits: Limits, *, with_sums: bool) -> Spans:
    wanted = {
        "start": period.whole.start,
        "end": period.whole.end,
        "day_starts": [day.start for day in period.days],
        "day_ends": [day.end for day in period.days],
        "use_sums": with_sums,
        "moments": period.moments,
        "moved": period.moved,
        "eras": period.eras[1:],
        "steps": period.steps,
        "job_id": limits["job_id"],
        "gpu_ids": limits["gpu_ids"],
    }
    return spans(fetched(_SPANS, wanted | {"node_ids": _node_ids(wanted, limits["node_id"])}))


def _node_ids(wanted: dict[str, Any], node_id: int | None) -> list[int] | None:
    """On which nodes what is looked at may lie; None = any."""
    if wanted["job_id"] is None and wanted["gpu_ids"] is None:
        return None if node_id is None else [node_id]
    found = [one for (one,) in fetched(_NODES, wanted)]
    return found if node_id is None else [one for one in found if one == node_id]


def _prices(gpus: Ints, period: _Period) -> _Dated[Price]:
    rows = fetched(_PRICES, {"gpu_ids": gpus, "start": period.whole.start, "end": period.whole.end})
    return _dated([(Price(usd, is_example), *rest) for usd, is_example, *rest in rows], gpus, period, Price(None, None))


def _holders(jobs: Ints, period: _Period, asked: set[str]) -> _Dated[Holder]:
    nobody = Holder(None, None, None, None, None)
    if not asked & {"job", "user", *OWNERS, *HELD}:
        return _dated([], jobs, period, nobody)
    wanted = {
        "job_ids": jobs[jobs != NO_JOB],
        "by_user": bool(asked & {"user", "user_name"}),
        "by_team": bool(asked & {"team", "team_id", "has_team"}),
        "by_project": "project" in asked,
        "by_cost_centre": "cost_centre" in asked,
        "by_owner": bool(asked & {*OWNERS, *OWNED}),
    }
    return _dated([(Holder(*row[:5]), *row[5:]) for row in fetched(_HOLDERS, wanted)], jobs, period, nobody)


def _dated(
    rows: Sequence[tuple[Fact, datetime | None, datetime | None, bytes]], known: Ints, period: _Period, nothing: Fact
) -> _Dated[Fact]:
    """Of each fact (valid from, valid to, packed ids) where it holds; `known` are all ids, ascending."""
    facts, number = [nothing], np.zeros((len(period.eras), len(known)), dtype=np.int64)
    for fact, valid_from, valid_to, packed in rows:
        number[period.during(valid_from, valid_to), np.searchsorted(known, ids(packed))] = len(facts)
        facts.append(fact)
    return _Dated(facts, number)


def _machines(gpus: Ints, asked: set[str]) -> _Machines:
    if not asked & {"gpu", "gpu_model", "gpu_model_id", "has_gpu_model"}:
        return _Machines(gpus, np.zeros(len(gpus), dtype=np.int64))
    rows = GPU.objects.filter(pk__in=gpus.tolist()).values_list("pk", "parent_id", "model_id", "parent__model_id")
    found = {pk: (parent or pk, (parent_model if parent else None) or model or NO_KEY) for pk, parent, model, parent_model in rows}
    pairs = np.array([found[pk] for pk in gpus.tolist()], dtype=np.int64).reshape(-1, 2)
    return _Machines(pairs[:, 0], pairs[:, 1])


def _common(told: Spans, prices: _Dated[Price], price: Ints) -> tuple[list[Cell], Ints]:
    """Cells without figures, and which of them each span is."""
    codes, row = numbered(price * len(KINDS) + told.kind)
    return [_without_figures(prices.facts[code // len(KINDS)], code % len(KINDS)) for code in codes.tolist()], row


def _without_figures(price: Price, kind: int) -> Cell:
    state, tier, is_busy_only = KINDS[kind]
    return Cell(state, tier, is_busy_only, price.usd_per_gpu_hour, price.is_example, 0, None, 0)


def _keys(name: str, laid: _Laid) -> Keys:
    """Groups of that kind; of users and owners, which have no ids here, numbers in their order."""
    if name == "job":
        return Keys(*numbered(np.where(laid.holder > 0, laid.told.job, NO_JOB)))
    if name == "node":
        return Keys(*numbered(laid.told.node))
    if name in ("gpu", "gpu_model"):
        found, place = numbered(laid.machines.physical if name == "gpu" else laid.machines.model)
        return Keys(found, place[laid.gpu])
    said = [fact.user or "" if name == "user" else fact.owner(name) for fact in laid.holders.facts[1:]]
    names = sorted(set(said), key=str)
    numbers = np.array([NO_KEY, *(1 + names.index(one) for one in said)], dtype=np.int64)
    return Keys(np.arange(len(names) + 1), numbers[laid.holder], names)


def _chosen_spans(laid: _Laid, limits: Limits) -> list[Bools]:
    chosen = []
    if limits["gpu_ids"] is not None:
        chosen.append(np.isin(laid.gpus, limits["gpu_ids"])[laid.gpu])
    if limits["job_id"] is not None:
        chosen.append(laid.told.job == limits["job_id"])
    if limits["states"] is not None:
        chosen.append(np.array([state in limits["states"] for state, _, _ in KINDS])[laid.told.kind])
    return chosen


def _chosen_machines(laid: _Laid, limits: Limits) -> list[Bools]:
    chosen = []
    if limits["gpu_model_id"] is not None:
        chosen.append((laid.machines.model == limits["gpu_model_id"])[laid.gpu])
    if limits["has_gpu_model"] is not None:
        chosen.append(((laid.machines.model != NO_KEY) == limits["has_gpu_model"])[laid.gpu])
    return chosen


def _chosen_holders(laid: _Laid, limits: Limits) -> list[Bools]:
    """What is nobody's has no user and no owner, not even none."""
    facts = laid.holders.facts[1:]
    wanted = {"user": limits["user_name"], **{name: limits[name] for name in ("team_id", "project", "cost_centre", "is_named")}}
    tests = [[getattr(fact, name) == value for fact in facts] for name, value in wanted.items() if value is not None]
    if limits["has_team"] is not None:
        tests.append([(fact.team_id is not None) == limits["has_team"] for fact in facts])
    chosen = [] if limits["is_allocated"] is None else [(laid.holder > 0) == limits["is_allocated"]]
    return [*chosen, *(np.array([False, *test])[laid.holder] for test in tests)]
