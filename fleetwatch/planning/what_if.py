"""The last weeks again with other GPUs: what jobs held, replayed, and what that would save."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Q

from fleetwatch.figures import pricing
from fleetwatch.figures import selectors as figures
from fleetwatch.figures.totals import NOBODY
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.state_days import SETTLED
from fleetwatch.lib.intervals import HOUR_MS, Interval, floor_hour, from_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement
from fleetwatch.planning.replayed_runs import (
    GANG_MS,
    Counts,
    Hold,
    Outcome,
    alone,
    replay,
    runs,
    together,
)

MOST_GPUS = 100_000  # asked for
LOOKED_BACK = (timedelta(days=30), timedelta(days=7), timedelta(days=1))
MONTH_HOURS = 730  # a twelfth of a year
MONTH_MS = MONTH_HOURS * HOUR_MS
MOST_HOLDS = 60_000  # of GPUs: replayed within a second or two

_GPU = tuple[int, str]  # its id, and its model
_Presence = tuple[int, int | None]  # from when to when, in ms; None: it still is
_HOLDS = read_statement("planning/sql/holds.sql")


class TooManyHoldsError(Exception):
    """Even a day has more than can be replayed while somebody waits."""


@dataclass(frozen=True, slots=True)
class Asked:
    """So many GPUs fewer of a model (negative: more), by model; and whether jobs may take another
    model's where their own has too few.
    """

    fewer: Mapping[str, int]
    elsewhere: bool


@dataclass(frozen=True, slots=True)
class ModelReplay:
    """What became of the jobs of a model, and the GPU time and dollars that it would have had less
    (negative: more); None dollars: no rate held.
    """

    gpu_model: str
    gpus: int  # at the end, as it was
    fewer: int
    outcome: Outcome
    saved_ms: int
    saved_usd: Decimal | None

    @property
    def usd_per_gpu_hour(self) -> Decimal | None:
        """The average rate of what would not have been there, or would; None without one."""
        if self.saved_usd is None:
            return None
        return self.saved_usd * HOUR_MS / self.saved_ms

    @property
    def instead(self) -> int:
        """How many GPUs there would have been at the end."""
        return max(0, self.gpus - self.fewer)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The replay of an interval, by GPU model."""

    interval: Interval
    models: list[ModelReplay]
    began: datetime  # in it: when the first GPU or job of it was there

    @property
    def days(self) -> int:
        return whole_days(self.interval.end - self.began)

    @property
    def outcome(self) -> Outcome:
        return together([each.outcome for each in self.models])

    @property
    def only_changed(self) -> ModelReplay | None:
        """The model of which alone there are fewer or more GPUs; None where several change, or
        none does.
        """
        changed = [each for each in self.models if each.fewer]
        return changed[0] if len(changed) == 1 else None

    def of(self, gpu_model: str) -> ModelReplay:
        """What became of that model. Raises StopIteration of one that it had none of."""
        return next(each for each in self.models if each.gpu_model == gpu_model)

    @property
    def gpus(self) -> int:
        """How many there were at the end."""
        return sum(each.gpus for each in self.models)

    @property
    def instead(self) -> int:
        """How many there would have been."""
        return sum(each.instead for each in self.models)

    @property
    def fewer(self) -> int:
        """GPUs less; negative: more."""
        return self.gpus - self.instead

    @property
    def removed(self) -> int:
        """GPUs that go, of models that have fewer then."""
        return sum(gpus for _, gpus in self.goes)

    @property
    def added(self) -> int:
        """GPUs that come, of models that have more then."""
        return sum(gpus for _, gpus in self.comes)

    @property
    def goes(self) -> list[tuple[str, int]]:
        """Which GPUs go, and how many."""
        changes = ((each.gpu_model, each.gpus - each.instead) for each in self.models)
        return [(name, gpus) for name, gpus in changes if gpus > 0]

    @property
    def comes(self) -> list[tuple[str, int]]:
        """Which GPUs come, and how many."""
        changes = ((each.gpu_model, each.instead - each.gpus) for each in self.models)
        return [(name, gpus) for name, gpus in changes if gpus > 0]

    @property
    def moved_from(self) -> list[str]:
        """Models of which runs start on another one."""
        return [each.gpu_model for each in self.models if each.outcome.moved]

    @property
    def moved_to(self) -> list[str]:
        """Models that runs of others start on."""
        return [each.gpu_model for each in self.models if each.outcome.hosted]

    @property
    def saved_ms(self) -> int:
        return sum(each.saved_ms for each in self.models)

    @property
    def saved_usd(self) -> Decimal | None:
        """None where GPUs that would not have been there, or would have, have no rate."""
        return pricing.sum_if_all_known(each.saved_usd for each in self.models if each.saved_ms)


@dataclass(frozen=True, slots=True)
class Past:
    """What is replayed: what jobs held in the interval, the GPUs that were on the bill, and what an
    hour of each model cost.
    """

    interval: Interval
    holds: list[Hold]
    billed: Mapping[_GPU, _Presence]
    prices: Mapping[str, Decimal | None]

    @property
    def is_small(self) -> bool:
        """Whether it can be replayed several times while somebody waits."""
        return len(self.holds) <= MOST_HOLDS // 8


def past(now: datetime) -> Past:
    """The last 30 days, or as many of them as can be replayed while somebody waits.

    Raises TooManyHoldsError.
    """
    interval, holds = _holds(known_until(now))
    groups = figures.totals_by(interval, "gpu_model")
    prices = {group.label: group.totals.usd_per_gpu_hour for group in groups}
    return Past(interval, holds, _billed(interval), prices)


def known_until(now: datetime) -> datetime:
    """Up to where a replay reaches: the last hour that is settled."""
    return floor_hour(now - SETTLED)


def whole_days(span: timedelta) -> int:
    """Its length in days, rounded: 14 of 15 Nov 18:58 to 29 Nov 19:00; at least 1."""
    return max(1, round(span / timedelta(days=1)))


def what_if(asked: Asked, of: Past) -> WhatIf:
    """The past again, with the GPUs that are asked for."""
    interval = of.interval
    paid_counts = _counts(interval, of.billed)
    counts = _counts(interval, _there(of.billed, of.holds))
    outcomes = replay(
        runs(alone(of.holds)),
        counts,
        interval.end_ms,
        fewer=asked.fewer,
        elsewhere=asked.elsewhere,
    )
    no_gpu = ((interval.start_ms, 0),)
    models = [
        _of_model(
            name,
            paid_counts.get(name, no_gpu),
            outcomes.get(name, Outcome()),
            interval,
            asked,
            of.prices.get(name),
        )
        for name in sorted(counts)
    ]
    return WhatIf(interval, models, _began(interval, paid_counts))


STEPS = (1, 2, 4, 6, 8, 12, 16)  # GPUs fewer, that are told beside what was asked


def steps_fewer(gpu_model: str, of: Past, *, asked: int = 0) -> list[WhatIf]:
    """The past with each of STEPS fewer of the model, and with so many as are asked for, as far as
    it has as many; empty where the past is too large to be replayed so often.
    """
    if not of.is_small:
        return []
    steps = sorted({*STEPS, asked} - {0})
    answers = (what_if(Asked({gpu_model: fewer}, elsewhere=False), of) for fewer in steps)
    return [each for fewer, each in zip(steps, answers, strict=True) if each.fewer == fewer]


def _began(interval: Interval, counts: Mapping[str, Counts]) -> datetime:
    """When the first GPU was there; the interval's start where all of it has some, or none has."""
    firsts = [pool[0][0] for pool in counts.values() if pool]
    return from_ms(max(interval.start_ms, min(firsts, default=interval.start_ms)))


def _of_model(
    name: str,
    pool: Counts,
    outcome: Outcome,
    interval: Interval,
    asked: Asked,
    usd_per_gpu_hour: Decimal | None,
) -> ModelReplay:
    fewer = asked.fewer.get(name, 0)
    saved_ms = removed_ms(pool, fewer, interval.end_ms, start_ms=interval.start_ms)
    is_priced = usd_per_gpu_hour is not None
    saved_usd = pricing.price([(saved_ms, usd_per_gpu_hour)]) if is_priced else None
    return ModelReplay(name, pool[-1][1], fewer, outcome, saved_ms, saved_usd)


def removed_ms(pool: Counts, fewer: int, end_ms: int, *, start_ms: int) -> int:
    """GPU-milliseconds that a pool has less with so many fewer, from `start_ms` to `end_ms`; no
    more than it had.
    """
    ends = [at_ms for at_ms, _ in pool[1:]] + [end_ms]
    return sum(
        min(fewer, count) * (min(last_ms, end_ms) - max(at_ms, start_ms))
        for (at_ms, count), last_ms in zip(pool, ends, strict=True)
        if min(last_ms, end_ms) > max(at_ms, start_ms)
    )


def _holds(end: datetime) -> tuple[Interval, list[Hold]]:
    """What jobs held in the longest time before the end that has not too much of it."""
    for length in LOOKED_BACK:
        interval = Interval(end - length, end)
        wanted = {"start_ms": interval.start_ms, "end_ms": interval.end_ms}
        rows = fetched(_HOLDS, wanted | {"count": MOST_HOLDS + 1})
        if len(rows) <= MOST_HOLDS:
            return interval, [Hold(*row) for row in rows]
    raise TooManyHoldsError


def _counts(interval: Interval, there: Mapping[_GPU, _Presence]) -> dict[str, Counts]:
    """By model how many GPUs there were from when on."""
    changes: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for (_, model), (start_ms, end_ms) in there.items():
        changes[model][max(start_ms, interval.start_ms)] += 1
        if end_ms is not None:
            changes[model][end_ms] -= 1
    return {model: _added_up(of_model) for model, of_model in changes.items()}


def _billed(interval: Interval) -> dict[_GPU, _Presence]:
    """From when to when each GPU is on the bill: since it was first reported until it went."""
    rows = GPU.objects.filter(
        Q(retired_ms=None) | Q(retired_ms__gt=interval.start_ms),
        parent=None,
        first_ms__lt=interval.end_ms,
    ).values_list("pk", "model__name", "first_ms", "retired_ms")
    return {
        (pk, model or NOBODY): (first_ms or 0, retired_ms)
        for pk, model, first_ms, retired_ms in rows
    }


def _there(billed: Mapping[_GPU, _Presence], holds: Iterable[Hold]) -> dict[_GPU, _Presence]:
    """From when to when each GPU could be held: while it is on the bill, and while a job held it,
    which may have begun before its agent did.
    """
    # as a run begins with its first GPU, so does the time of its last one
    there = {gpu: (start_ms - GANG_MS, end_ms) for gpu, (start_ms, end_ms) in billed.items()}
    for hold in holds:
        gpu = hold.gpu_id, hold.gpu_model
        start_ms, end_ms = there.get(gpu, (hold.start_ms, hold.end_ms))
        end_ms = None if end_ms is None else max(end_ms, hold.end_ms)
        there[gpu] = min(start_ms, hold.start_ms - GANG_MS), end_ms
    return there


def _added_up(changes: Mapping[int, int]) -> Counts:
    count = 0
    counts = []
    for at_ms, more in sorted(changes.items()):
        count += more
        counts.append((at_ms, count))
    return counts
