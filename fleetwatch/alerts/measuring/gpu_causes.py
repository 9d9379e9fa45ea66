"""When GPUs had a cause of diagnosis, five minutes by five minutes, whoever held them: what
conditions of working GPUs measure.
"""

from collections.abc import Collection

from django.db.models import QuerySet

from fleetwatch.alerts.breach import Watch
from fleetwatch.alerts.episodes import End, Measured
from fleetwatch.alerts.measuring.job_causes import cells_by, spans_of
from fleetwatch.alerts.measuring.job_lanes import RETIRED
from fleetwatch.diagnosis.judgement.rules import MEDIUM
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import floor_hour_ms, from_ms


def measured(causes: Collection[str], watch: Watch, *, cleared: str) -> Measured:
    """The spans of each GPU with one of these causes, or that fires already: in breach where it
    surely has it, clear where it has another one; while nobody holds it nothing is known.
    """
    entries = CauseEntry.objects.filter(
        start__gte=from_ms(floor_hour_ms(watch.start_ms)), start__lt=from_ms(watch.end_ms)
    )
    gpus = _gpus(entries.filter(cause__in=causes, confidence__gte=MEDIUM), watch)
    rows = entries.filter(
        gpu__in=[gpu.pk for gpu in gpus], node__in={gpu.node_id for gpu in gpus}
    ).values_list("gpu__uuid", "start", "cause", "confidence", "cells")
    cells = cells_by(rows.iterator(), causes, watch)
    gone = set(watch.firing) - {gpu.uuid for gpu in gpus}
    return Measured(
        spans={uuid: spans_of(own) for uuid, own in cells.items()},
        ends={uuid: End(watch.end_ms, RETIRED) for uuid in gone},
        cleared=cleared,
    )


def _gpus(suspects: QuerySet[CauseEntry], watch: Watch) -> list[GPU]:
    """The GPUs of these entries, and those that fire, as far as they are there."""
    uuids = set(suspects.order_by().values_list("gpu__uuid", flat=True).distinct())
    there = GPU.objects.filter(uuid__in=uuids | set(watch.firing), retired_ms=None)
    return list(there.only("uuid", "node_id"))
