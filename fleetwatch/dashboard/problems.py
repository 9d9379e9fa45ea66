"""What is wrong with a node or a GPU: incidents that fire and findings, a line each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Q
from django.urls import reverse
from django.utils.text import capfirst

from fleetwatch.alerts.incidents import machine_incidents
from fleetwatch.alerts.incidents.incident_rows import IncidentRow, incident_rows
from fleetwatch.dashboard.machine_pages import PlaceRow, row
from fleetwatch.dashboard.period import Period
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.findings import machine_findings
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.lib.intervals import to_ms

Link = tuple[str, str]  # what it is called, and its address


@dataclass(frozen=True, slots=True)
class Problem:
    """An incident (or several that fired at once), or a finding. `usd` None: dollars are not
    known; `saving` instead of them where they are a range; `until_ms` None while it goes on.
    """

    kind: str
    title: str
    about: str
    address: str
    links: Sequence[Link]  # to the parts of several
    since_ms: int
    until_ms: int | None
    usd: Decimal | None
    usd_per_hour: Decimal | None = None
    saving: Saving | None = None


def of_node(node: Node, period: Period) -> list[Problem]:
    """The node's own, its GPUs' and those of jobs on them; incidents first."""
    lines = machine_findings.findings(period.interval, now=period.now, node=node.name)
    findings = [_of_finding(row(line)) for line in lines]
    return [*of_incidents(machine_incidents.of_node(node.name), period.now), *findings]


def of_gpu(gpu: GPU, period: Period) -> list[Problem]:
    """The GPU's own, and of its node's findings what each took of this GPU."""
    lines = machine_findings.findings(period.interval, now=period.now, node=gpu.node.name)
    findings = [each for line in lines for each in _of_one_gpu(line, gpu, period)]
    return [*of_incidents(machine_incidents.of_gpu(gpu.uuid), period.now), *findings]


def of_incidents(which: Q, now: datetime) -> list[Problem]:
    """Those that fire; what befell GPUs of a node at once is one."""
    return [_of_incident(each) for each in incident_rows(machine_incidents.going_on(which, now))]


def _of_incident(several: IncidentRow) -> Problem:
    addresses = [_address("incident", line.incident.pk) for line in several.lines]
    names = [line.breach.where for line in several.lines]
    return Problem(
        kind=several.first.incident.state,
        title=several.title if several.is_group else capfirst(several.title),
        about=several.what,
        address=addresses[0],
        links=list(zip(names, addresses, strict=True)) if several.is_group else (),
        since_ms=several.since_ms,
        until_ms=None,
        usd=several.cost_usd,
        usd_per_hour=several.usd_per_hour,
    )


def _of_finding(place: PlaceRow) -> Problem:
    finding = place.finding
    gpus = place.line.gpus
    return Problem(
        kind=_kind(place),
        title=place.cause.title,
        about=f"{gpus} GPU{'s'[: gpus - 1]} · {_worth(place)}",
        address=_address("finding", finding.pk),
        links=(),
        since_ms=finding.first_ms,
        until_ms=machine_findings.over_since_ms(finding),
        usd=place.line.caused.held_usd,
        saving=place.line.caused.saving if place.is_range else None,
    )


def _of_one_gpu(line: Line, gpu: GPU, period: Period) -> Iterable[Problem]:
    """What the finding took of the GPU, or of the one that it is an instance of."""
    place = row(line)
    for each in machine_findings.affected(line.finding, period.interval):
        if each.gpu.pk in (gpu.pk, gpu.parent_id):
            yield Problem(
                kind=_kind(place),
                title=place.cause.title,
                about=_worth(place),
                address=_address("finding", line.finding.pk),
                links=(),
                since_ms=to_ms(each.first),
                until_ms=machine_findings.over_on_gpu_ms(line.finding, each.gpu),
                usd=None if place.cause.machine.worth else each.lost_usd,
            )


def _kind(place: PlaceRow) -> str:
    """What it is called: a finding that was decided says how."""
    status = place.line.status
    return "finding" if status == "open" else f"finding, {status}"


def _worth(place: PlaceRow) -> str:
    return place.cause.machine.worth or place.cause.machine.how


def _address(page: str, pk: int) -> str:
    return reverse(page, args=[pk])
