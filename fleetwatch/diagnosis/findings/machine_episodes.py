"""How often what a machine's finding is about began: many short times are not one long one. And of
what happens to it each time anew each of these times, with what it took.
"""

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Min, QuerySet

from fleetwatch.diagnosis.cause_totals import Caused
from fleetwatch.diagnosis.causes import BY_CODE, CONDITIONS, SLOWED
from fleetwatch.diagnosis.findings.machine_findings import (
    HOUR,
    Hurt,
    beginnings,
    kept_entries,
    line_of,
    over_since_ms,
)
from fleetwatch.diagnosis.models import Finding
from fleetwatch.diagnosis.slowed_cells import spread
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.judgement.observations import FOREVER_MS
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import HOUR_MS, Interval, floor_hour, from_ms, to_ms

MAX_OUTAGES = 8  # the newest; each is a read of figures


@dataclass(frozen=True, slots=True)
class Episodes:
    """How often it began, and when last: to the minute where that is known."""

    count: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which GPUs of a node could not work, were not seen or were held by no job, None of
    its end while it goes on; and what it took of a period.
    """

    start_ms: int
    end_ms: int | None
    gpus: Sequence[GPU]
    caused: Caused

    def covers(self, at_ms: int) -> bool:
        """Whether it was so in the hour of that moment."""
        is_begun = floor_hour(from_ms(self.start_ms)) <= from_ms(at_ms)
        return is_begun and (self.end_ms is None or at_ms < self.end_ms)


@dataclass(frozen=True, slots=True)
class Outages:
    """Of a finding in a period the newest, the last one first, and how many were before them."""

    shown: Sequence[Outage] = ()
    earlier: int = 0

    @property
    def count(self) -> int:
        return len(self.shown) + self.earlier


def episodes(finding: Finding, gpu: GPU | None = None) -> Episodes | None:
    """Of a node's finding, or of it on one GPU: times that an hour without it is between. None of a
    queue's, and where no hour of it is kept.
    """
    if finding.node_id is None:
        return None
    entries = kept_entries(finding).filter(start__gte=floor_hour(from_ms(finding.first_ms)))
    if gpu is not None:
        entries = entries.filter(gpu=gpu)
    begun = beginnings(entries.values_list("start", flat=True).order_by("start").distinct())
    return Episodes(len(begun), _first_ms(finding, entries, begun[-1])) if begun else None


def outages(finding: Finding, interval: Interval, *, now: datetime) -> Outages:
    """Each outage of GPUs of a node in the period: times that an hour without one is between. What
    they take sums to what the finding takes. None of what is how a machine is.
    """
    if not BY_CODE[finding.cause].machine.episode or finding.node_id is None:
        return Outages()
    by_hour = _hours(finding, interval.start)
    parted = _parted(list(by_hour))
    within = [each for each in parted if each.start < interval.end and each.end > interval.start]
    shown = within[-MAX_OUTAGES:]
    edges = _edges(finding, shown)
    rows = [
        Outage(*edges[hours], _gpus(by_hour, hours), _took(finding, hours, interval, now))
        for hours in reversed(shown)
    ]
    return Outages(rows, len(within) - len(shown))


def newest_ms(finding: Finding) -> tuple[int, int | None] | None:
    """When the newest outage of all began and ended, None of its end while it goes on; None where
    no hour of it is kept.
    """
    newest = _parted(list(_hours(finding, from_ms(finding.first_ms))))[-1:]
    return next(iter(_edges(finding, newest).values()), None)


def _gpus(by_hour: Mapping[datetime, Sequence[GPU]], hours: Interval) -> list[GPU]:
    """Those of these hours, each once."""
    during = [gpus for start, gpus in by_hour.items() if hours.start <= start < hours.end]
    return list(dict.fromkeys(itertools.chain(*during)))


def _took(finding: Finding, hours: Interval, interval: Interval, now: datetime) -> Caused:
    """What it took of the period in these hours."""
    part = Interval(max(hours.start, interval.start), min(hours.end, interval.end))
    return line_of(finding, part, now=now).caused


def _hours(finding: Finding, from_: datetime) -> dict[datetime, list[GPU]]:
    """By the hour, in order, the GPUs that were affected: from its first one, or `from_` if that
    is before it, to its last, as an outage may go on after a period.
    """
    first = min(floor_hour(from_ms(finding.first_ms)), from_)
    entries = kept_entries(finding).filter(start__gte=first)
    rows = list(entries.order_by("start", "gpu__index").values_list("start", "gpu"))
    gpus = GPU.objects.in_bulk({gpu_id for _, gpu_id in rows})
    by_hour: dict[datetime, list[GPU]] = defaultdict(list)
    for start, gpu_id in rows:
        by_hour[start].append(gpus[gpu_id])
    return by_hour


def _parted(hours: Sequence[datetime]) -> list[Interval]:
    """From the first hour of each time to the end of its last."""
    begun = beginnings(hours)
    lasts = [before for before, start in itertools.pairwise(hours) if start - before > HOUR]
    return [
        Interval(first, last + HOUR)
        for first, last in zip(begun, [*lasts, *hours[-1:]], strict=True)
    ]


def _edges(
    finding: Finding, parted: Sequence[Interval]
) -> Mapping[Interval, tuple[int, int | None]]:
    """Of these hours the moments that it began and ended at: to the minute where the ledger has its
    runs still. No end of the last where it goes on.
    """
    cuts = [ms for each in parted for ms in (each.start_ms, each.end_ms - HOUR_MS)]
    runs = Run.objects.filter(
        node=finding.node_id, cut_ms__in=cuts, condition=CONDITIONS[finding.cause]
    )
    spans = list(runs.values_list("start_ms", "end_ms"))
    last_ms = finding.last_ms if over_since_ms(finding) is None else FOREVER_MS
    return {each: _edges_of(each, spans, last_ms) for each in parted}


def _edges_of(
    hours: Interval, spans: Sequence[tuple[int, int]], last_ms: int
) -> tuple[int, int | None]:
    """Of these spans those of the hours; what lasts to `last_ms` goes on."""
    inside = [span for span in spans if hours.start_ms <= span[0] < hours.end_ms]
    start_ms = min((start_ms for start_ms, _ in inside), default=hours.start_ms)
    end_ms = max((end_ms for _, end_ms in inside), default=hours.end_ms)
    return start_ms, None if hours.end_ms >= last_ms else end_ms


def hit_by(hurt: Hurt, every: Outages) -> list[Outage]:
    """Of these outages those that the job lost time to, or that ended it; the earliest first."""
    return [
        each for each in reversed(every.shown) if any(each.covers(at_ms) for at_ms in hurt.at_ms)
    ]


def _first_ms(finding: Finding, entries: QuerySet[Any], start: datetime) -> int:
    """When it began in that hour."""
    of_hour = entries.filter(start=start)
    if finding.cause == SLOWED:
        cells = of_hour.values_list("cells", flat=True)
        return min(spread(to_ms(start), each, 0)[0][0] for each in cells if each)
    runs = Run.objects.filter(
        Run.overlapping(to_ms(start), to_ms(start) + HOUR_MS),
        condition=CONDITIONS.get(finding.cause, ""),
        gpu__in=of_hour.values("gpu"),
    )
    first_ms: int | None = runs.aggregate(first=Min("start_ms"))["first"]
    return max(first_ms or 0, to_ms(start))
