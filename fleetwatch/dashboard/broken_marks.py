"""GPUs with a fault that is open now: they can't work, or have memory errors. What /fleet marks."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse

from fleetwatch.accounts.visibility import sight
from fleetwatch.alerts.conditions import gpu_cannot_work, gpu_memory_errors
from fleetwatch.alerts.measuring.gpu_words import fault_in_words
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.selectors import visible_incidents
from fleetwatch.diagnosis.causes import FAILURES
from fleetwatch.diagnosis.models import Finding
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.broken_gpus import BrokenGPU, broken_gpus, is_broken
from fleetwatch.lib.rows import Asked, fetched
from fleetwatch.lib.sql import read_statement
from fleetwatch.lib.written_once import written_once

CANNOT_WORK = gpu_cannot_work.CONDITION.name
MEMORY_ERRORS = gpu_memory_errors.CONDITION.name
WITH_ERRORS = "memory errors"
FIRES = (Incident.State.FIRING, Incident.State.ACKNOWLEDGED)

# what broken_uuids() asks
FAULTS = Asked(
    read_statement("dashboard/sql/faults_now.sql"),
    {"memory_errors": MEMORY_ERRORS, "firing": list(FIRES)},
)

Incidents = Mapping[tuple[str, str], tuple[int, int]]  # condition, UUID: its number, since when


@dataclass(frozen=True, slots=True)
class BrokenMark:
    """A GPU, what is wrong with it, since when, and what leads on: its incident, else its node's
    finding, else its own page.
    """

    gpu: GPU
    wrong: str
    since_ms: int
    leads_to: str
    address: str

    @property
    def works(self) -> bool:
        """Whether jobs can use it, in spite of what is wrong."""
        return self.wrong == WITH_ERRORS


def broken_marks() -> list[BrokenMark]:
    """By node and index: those that can't work, and those that work with memory errors. What a GPU
    can't do is said, not the errors before that.
    """
    incidents = _incidents()
    broken = broken_gpus()
    findings = _findings(broken, incidents)
    marks = [_cannot_work(each, incidents, findings) for each in broken]
    return sorted([*marks, *_with_errors(broken, incidents)], key=_place_of)


def broken_uuids() -> set[str]:
    """Those of the GPUs that broken_marks() tells of, for who sees the whole fleet."""
    faulty = fetched(*FAULTS, is_fixed=True)
    return {
        uuid for uuid, heard_ms, faults in faulty if faults is None or is_broken(heard_ms, faults)
    }


def beside(gpu: GPU) -> list[BrokenMark]:
    """Of the other GPUs of its node."""
    of_node = by_node(broken_marks()).get(gpu.node.name, [])
    return [mark for mark in of_node if mark.gpu.pk not in (gpu.pk, gpu.parent_id)]


def that_cannot_work() -> list[BrokenMark]:
    """By node and index: those that can't work."""
    broken = broken_gpus()
    if not broken:
        return []
    incidents = _incidents()
    findings = _findings(broken, incidents)
    return [_cannot_work(each, incidents, findings) for each in broken]


def by_node(marks: Collection[BrokenMark]) -> dict[str, list[BrokenMark]]:
    """By the name of the node."""
    of_node: dict[str, list[BrokenMark]] = {}
    for mark in marks:
        of_node.setdefault(mark.gpu.node.name, []).append(mark)
    return of_node


def _incidents() -> Incidents:
    """Those of GPUs' faults that fire and the reader sees."""
    named = _of_everybody() if sight() is None else _named(visible_incidents())
    return {(condition, uuid): (pk, since_ms) for condition, uuid, pk, since_ms in named}


def _named(incidents: QuerySet[Incident]) -> QuerySet[Incident, Any]:
    """Condition, UUID, number, since when: the newest first."""
    firing = incidents.filter(rule__condition__in=(CANNOT_WORK, MEMORY_ERRORS), state__in=FIRES)
    return firing.order_by("-since_ms").values_list("rule__condition", "subject", "pk", "since_ms")


@written_once
def _of_everybody() -> QuerySet[Incident, Any]:
    return _named(Incident.objects.all())


def _findings(broken: Collection[BrokenGPU], incidents: Incidents) -> dict[int, int]:
    """Of nodes with a broken GPU that has no incident the number of their finding."""
    nodes = {each.gpu.node_id for each in broken if (CANNOT_WORK, each.gpu.uuid) not in incidents}
    if not nodes or sight() is not None:
        return {}
    rows = Finding.objects.filter(node__in=nodes, cause__in=FAILURES)
    return dict(rows.order_by("last_ms").values_list("node_id", "pk"))


def _cannot_work(
    broken: BrokenGPU, incidents: Incidents, findings: Mapping[int, int]
) -> BrokenMark:
    gpu = broken.gpu
    mark = BrokenMark(gpu, fault_in_words(broken.reason), broken.since_ms, "GPU", _page(gpu))
    if incident := incidents.get((CANNOT_WORK, gpu.uuid)):
        return replace(mark, leads_to="incident", address=_number("incident", incident[0]))
    if finding := findings.get(gpu.node_id):
        return replace(mark, leads_to="finding", address=_number("finding", finding))
    return mark


def _with_errors(broken: Collection[BrokenGPU], incidents: Incidents) -> list[BrokenMark]:
    """Of the GPUs that work."""
    cannot_work = {each.gpu.uuid for each in broken}
    of_errors = {
        uuid: incident
        for (condition, uuid), incident in incidents.items()
        if condition == MEMORY_ERRORS and uuid not in cannot_work
    }
    gpus = inventory.newest_rows(of_errors) if of_errors else {}
    return [
        BrokenMark(gpus[uuid], WITH_ERRORS, since_ms, "incident", _number("incident", pk))
        for uuid, (pk, since_ms) in of_errors.items()
        if uuid in gpus
    ]


def _page(gpu: GPU) -> str:
    return reverse("gpu", args=[gpu.uuid])


def _number(page: str, pk: int) -> str:
    return reverse(page, args=[pk])


def _place_of(mark: BrokenMark) -> tuple[str, int, str]:
    gpu = mark.gpu
    return gpu.node.name, -1 if gpu.index is None else gpu.index, gpu.uuid
