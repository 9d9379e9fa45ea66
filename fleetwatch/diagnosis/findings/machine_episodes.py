"""How often what a machine's finding is about began: many short times are not one long one."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Min, QuerySet

from fleetwatch.diagnosis.causes import CONDITIONS, SLOWED
from fleetwatch.diagnosis.findings.machine_findings import kept_entries
from fleetwatch.diagnosis.models import Finding
from fleetwatch.diagnosis.slowed_cells import spread
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import HOUR_MS, floor_hour, from_ms, to_ms

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Episodes:
    """How often it began, and when last: to the minute where that is known."""

    count: int
    last_ms: int


def episodes(finding: Finding, gpu: GPU | None = None) -> Episodes | None:
    """Of a node's finding, or of it on one GPU: times that an hour without it is between. None of a
    queue's, and where no hour of it is kept.
    """
    if finding.node_id is None:
        return None
    entries = kept_entries(finding).filter(start__gte=floor_hour(from_ms(finding.first_ms)))
    if finding.cause == SLOWED:
        entries = entries.filter(high_ms__gt=0)
    if gpu is not None:
        entries = entries.filter(gpu=gpu)
    begun = beginnings(entries.values_list("start", flat=True).order_by("start").distinct())
    return Episodes(len(begun), _first_ms(finding, entries, begun[-1])) if begun else None


def beginnings(hours: Iterable[datetime]) -> list[datetime]:
    """Of hours (cuts of the ledger) in order those that do not follow on the one before."""
    begun: list[datetime] = []
    before: datetime | None = None
    for start in hours:
        if before is None or start - before > HOUR:
            begun.append(start)
        before = start
    return begun


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
