"""The fault of a GPU at which a job ended, what that lost, and how the job goes on."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.urls import reverse

from fleetwatch.accounts.visibility import sight
from fleetwatch.alerts.conditions import gpu_cannot_work
from fleetwatch.alerts.conditions.job_idle import LOST, LOST_OF_ANY
from fleetwatch.alerts.measuring.gpu_words import fault_in_words, place_of
from fleetwatch.alerts.measuring.last_holders import JUST_BEFORE_MS
from fleetwatch.alerts.selectors import visible_incidents
from fleetwatch.dashboard.fault_ends import SILENT_MS, most_lost_usd
from fleetwatch.diagnosis.causes import FAILURES
from fleetwatch.diagnosis.models import WASTED_MS, CauseEntry, Finding
from fleetwatch.diagnosis.slowed_cells import begun_ms
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.judgement.observations import FOREVER_MS, Outage
from fleetwatch.ledger.models import Posted
from fleetwatch.ledger.posted_gpus import outages_of
from fleetwatch.lib.intervals import to_ms

GOES_ON = {
    "batch": "Restart it from its last checkpoint",
    "interactive": "Start it again, and open what was saved last",
}
GOES_ON_OF_ANY = "Start it again, where its scheduler has not"

Failed = tuple[GPU, Outage]


@dataclass(frozen=True, slots=True)
class EndingFault:
    """`gpu` at `place` failed at `at_ms`, which is `wrong` with it, as did so many `others` of the
    job.

    `leads_to` is what its `address` shows ("": the reader may see neither incident nor finding).
    `most_lost_usd`: what all of the run cost, which is lost without a checkpoint; None where that
    is not known, and of what writes none. `errors_ms`: GPU time of the run in which it had new
    memory errors before, `errors_wasted_ms` what of that was wasted, `errors_from_ms` when it had
    the first.
    """

    gpu: GPU
    place: str
    wrong: str
    at_ms: int
    others: int
    is_open: bool
    leads_to: str
    address: str
    lost: str
    goes_on: str
    most_lost_usd: Decimal | None
    errors_ms: int
    errors_wasted_ms: int
    errors_from_ms: int | None


def ending_fault(job: Job, gpus: Sequence[GPU]) -> EndingFault | None:
    """By the outages that posting knows of these GPUs, which the job held; None where it goes on,
    or none of them failed as it ended.
    """
    if job.end_ms is None or not gpus:
        return None
    failed = _failed(job, gpus, job.end_ms)
    if not failed:
        return None
    gpu, outage = failed[0]
    leads_to, address = _leads_to(gpu, outage)
    errors_ms, errors_wasted_ms, errors_from_ms = _with_errors(job, gpu)
    return EndingFault(
        gpu=gpu,
        place=place_of(gpu),
        wrong=fault_in_words(outage.reason),
        at_ms=outage.start_ms,
        others=len(failed) - 1,
        is_open=outage.end_ms >= FOREVER_MS,
        leads_to=leads_to,
        address=address,
        lost=LOST.get(job.kind, LOST_OF_ANY),
        goes_on=GOES_ON.get(job.kind, GOES_ON_OF_ANY),
        most_lost_usd=most_lost_usd([job]).get(job.pk),
        errors_ms=errors_ms,
        errors_wasted_ms=errors_wasted_ms,
        errors_from_ms=errors_from_ms,
    )


def _with_errors(job: Job, gpu: GPU) -> tuple[int, int, int | None]:
    """How long the job worked on the GPU while that had new memory errors, what of it was wasted,
    and when it began; None = never.
    """
    entries = CauseEntry.objects.filter(job=job, gpu=gpu, cause__in=FAILURES)
    rows = list(entries.annotate(of_it=WASTED_MS).values_list("start", "cells", "held_ms", "of_it"))
    begun = (begun_ms(to_ms(start), cells) for start, cells, _, _ in rows)
    held_ms = sum(held_ms for _, _, held_ms, _ in rows)
    wasted_ms = sum(wasted_ms for *_, wasted_ms in rows)
    return held_ms, wasted_ms, min(begun, default=None)


def _failed(job: Job, gpus: Sequence[GPU], end_ms: int) -> list[Failed]:
    """Those that failed as the job ended, the first first; a MIG instance is its GPU."""
    of_gpu = {gpu.parent_id or gpu.pk: gpu for gpu in gpus}
    posted = Posted.objects.filter(gpu__in=of_gpu).exclude(outages=[])
    near = [
        (of_gpu[row.gpu_id], outage)
        for row in posted
        for outage in outages_of(row.outages)[::-1]
        if not outage.is_drain and abs(outage.start_ms - end_ms) <= JUST_BEFORE_MS
    ]
    until_ms = _held_until_ms(job) if near else {}
    last = {
        gpu.pk: (gpu, outage)
        for gpu, outage in near
        if until_ms.get(gpu.pk, 0) >= outage.start_ms - SILENT_MS
    }
    return sorted(last.values(), key=lambda each: (each[1].start_ms, each[0].pk))


def _held_until_ms(job: Job) -> dict[int, int]:
    """By GPU until when the job held it; what its node's batches repeat it holds to now."""
    until_ms: dict[int, int] = {}
    for row in job.allocations.all():
        ends_ms = [end_ms for _, end_ms in row.held]
        end_ms = max(ends_ms, default=0) if row.repeated_from_ms is None else FOREVER_MS
        until_ms[row.gpu_id] = max(until_ms.get(row.gpu_id, 0), end_ms)
    return until_ms


def _leads_to(gpu: GPU, outage: Outage) -> tuple[str, str]:
    """The fault's incident, else its node's finding; of a MIG instance its GPU's."""
    uuid = gpu.parent.uuid if gpu.parent else gpu.uuid
    near = (outage.start_ms - JUST_BEFORE_MS, outage.start_ms + JUST_BEFORE_MS)
    incidents = visible_incidents().filter(
        rule__condition=gpu_cannot_work.CONDITION.name, subject=uuid, since_ms__range=near
    )
    incident = incidents.exclude(fired_ms=None).order_by("-pk").first()
    if incident is not None:
        return "incident", reverse("incident", args=[incident.pk])
    if sight() is not None:
        return "", ""
    findings = Finding.objects.filter(node=gpu.node_id, cause__in=FAILURES)
    finding = findings.filter(last_ms__gt=outage.start_ms).order_by("-last_ms").first()
    return ("finding", reverse("finding", args=[finding.pk])) if finding else ("", "")
