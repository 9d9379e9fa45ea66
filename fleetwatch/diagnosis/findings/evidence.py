"""What a verdict rests on: the newest window of a finding on the GPU that it affects most, sign by
sign. Worked out when asked for.

Of one slow rank it is the GPU that the others wait for: that one wastes least.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from django.db.models import F, Sum

from fleetwatch.diagnosis import lane_rows
from fleetwatch.diagnosis.cause import Facts
from fleetwatch.diagnosis.cause_totals import WASTE
from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.findings import measures
from fleetwatch.diagnosis.findings.stopped import stopped
from fleetwatch.diagnosis.judgement.features import LONG, Features
from fleetwatch.diagnosis.judgement.lanes import Lanes
from fleetwatch.diagnosis.judgement.rules import CONFIDENCES, Detector, Judged, Sign
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.diagnosis.shell import Place
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import GPUProcess, Job
from fleetwatch.jobs.outcomes import ENDED
from fleetwatch.jobs.scheduled import ended_by
from fleetwatch.ledger.judgement import cell_states
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.ledger.judgement.observations import Ints
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms

MAX_PIDS = 8
FRESH_MS = 600_000  # before its node's newest word: an older process may be another one by now
SHARED = (
    "Other jobs hold this GPU too; what each of them does on it was not read. The rule looks at"
    " what holds for all of them."
)


@dataclass(frozen=True, slots=True)
class Read:
    """One sign as it was read: `value` None = not read, then it is neither met nor not."""

    feature: str
    label: str
    value: float | None
    text: str
    bound: str
    is_met: bool
    is_needed: bool  # the rule needs it; others make it surer

    @property
    def is_read(self) -> bool:
        return self.value is not None


@dataclass(frozen=True, slots=True)
class Evidence:
    """The window [start_ms, end_ms) of one GPU and its signs; `facts` are the job's numbers for the
    advice.
    """

    gpu: GPU
    start_ms: int
    end_ms: int
    signs: tuple[Read, ...]
    confidence: str
    facts: Facts
    is_shared: bool = False  # other jobs held the GPU in that window too
    beside: GPU | None = None  # of the job, that the rule compares it with

    @property
    def matched(self) -> int:
        return sum(sign.is_met for sign in self.signs)

    @property
    def unread(self) -> tuple[str, ...]:
        return tuple(sign.label for sign in self.signs if not sign.is_read)

    @property
    def reasons(self) -> str:
        """ "matched 3 of the 4 signs that were read; disk writes of the node not measured"."""
        read = sum(sign.is_read for sign in self.signs)
        words = (
            f"matched {self.matched} of the {read} sign{'s' * (read != 1)} that"
            f" {'was' if read == 1 else 'were'} read"
        )
        return f"{words}; {', '.join(self.unread)} not measured" if self.unread else words

    @property
    def lines(self) -> list[str]:
        """A sentence per sign."""
        told = [
            f"{sign.label}: {sign.text} (rule:"
            f" {sign.bound}{'' if sign.is_needed else ', not needed'})"
            for sign in self.signs
        ]
        return [*told, SHARED] if self.is_shared else told


def evidence_of(finding: Finding) -> Evidence | None:
    """The evidence; None where the cause is judged without a window, or its telemetry is no longer
    kept.
    """
    return evidence(finding.its_job, finding.cause)


def evidence(job: Job, cause: str) -> Evidence | None:
    """As evidence_of(), of a job and any cause."""
    detectors = BY_CODE[cause].detectors
    entry = _newest(job, cause)
    if entry is None or not detectors:
        return None
    hour_ms = to_ms(entry.start) // HOUR_MS * HOUR_MS
    last = entry.cells.bit_length() - 1
    reach = max(length for detector in detectors for length in detector.lengths)
    # a window that looks at the last cell may end after it; windows reach back as long as they are
    low = hour_ms - max(reach * CELL_MS // HOUR_MS, 1) * HOUR_MS
    lanes = _lanes(job, low, hour_ms + HOUR_MS)
    if lanes is None:
        return None
    lane = int(np.flatnonzero((lanes.gpu_id == entry.gpu_id) & (lanes.job_id == job.pk))[0])
    place = _place(detectors, lanes, lane, (hour_ms - low) // CELL_MS + last)
    ranks = np.flatnonzero((lanes.job_id == job.pk) & lanes.held[:, place.cell])
    if pick := BY_CODE[cause].pick:
        place = replace(place, lane=pick(place.features, ranks, place.cell))
    return replace(
        _evidence(job, entry, _gpu(place, place.lane), place),
        beside=_beside_it(cause, place, ranks),
    )


def _newest(job: Job, cause: str) -> CauseEntry | None:
    """The newest entry of the cause, on the GPU of which it wasted most in that hour."""
    own = CauseEntry.objects.filter(job=job, cause=cause)
    latest = own.order_by("-start").values_list("start", flat=True).first()
    if latest is None:
        return None
    wasted = sum((F(f"{name}_ms") for name in WASTE), F("low_ms") * 0)
    worst = (
        own.filter(start__gte=latest)
        .values("gpu_id")
        .annotate(wasted=Sum(wasted), held=Sum("held_ms"))
    )
    gpu_id = worst.order_by("-wasted", "-held", "gpu_id").values_list("gpu_id", flat=True)[0]
    return (
        own.select_related("gpu", "gpu__node", "gpu__model").filter(gpu_id=gpu_id).latest("start")
    )


def _lanes(job: Job, start_ms: int, end_ms: int) -> Lanes | None:
    """The lanes of the job, and of others that hold its GPUs; None where the ledger's pieces of
    these hours are no longer kept.
    """
    node_ids = list(
        CauseEntry.objects.filter(job=job, start__gte=from_ms(start_ms), start__lt=from_ms(end_ms))
        .values_list("node_id", flat=True)
        .distinct()
    )
    held = {
        node_id: lane_rows.Held(node_id, _beside(one.table, job.pk))
        for node_id, one in lane_rows.held(node_ids, start_ms, end_ms).items()
    }
    held = {node_id: one for node_id, one in held.items() if len(one.table["gpu_id"])}
    if not held:
        return None
    stored = lane_rows.stored_hours(list(held), start_ms, end_ms)
    for node_id, one in held.items():
        wanted = {int(hour) for hour in np.unique(one.table["start_ms"] // HOUR_MS * HOUR_MS)}
        for hour in sorted(wanted - {known for node, known in stored if node == node_id}):
            stored |= lane_rows.made_hours([one], hour, hour + HOUR_MS)
    return lane_rows.lanes(held, start_ms, end_ms, stored)


def _beside(table: cell_states.Table, job_id: int) -> cell_states.Table:
    """The rows of the job's GPUs: its own, and those of other jobs that hold them too."""
    own = np.isin(table["gpu_id"], table["gpu_id"][table["job_id"] == job_id])
    return {name: values[own] for name, values in table.items()}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the rule was looked at: a detector's window of `length` cells that ends with `cell` of
    `lane`.
    """

    found: Judged
    features: Features
    lane: int
    cell: int


def _place(detectors: Sequence[Detector], lanes: Lanes, lane: int, last: int) -> _Place:
    """The surest window that looks at the cell and meets the rule; else the one that ends
    with it.
    """
    tried = [
        _Place(found, features, lane, cell)
        for detector in detectors
        for length in detector.lengths
        for features in (Features(lanes, length),)
        for found in (detector.find(features),)
        for cell in range(min(last + length, lanes.held.shape[1]) - 1, last - 1, -1)
        if cell == last or lanes.held[lane, cell]
    ]
    hits = [place for place in tried if place.found.hits[lane, place.cell]]
    # of several as sure the latest shortest one: max keeps the first
    return (
        max(hits, key=lambda place: place.found.confidence[lane, place.cell]) if hits else tried[-1]
    )


def _beside_it(cause: str, place: _Place, ranks: Ints) -> GPU | None:
    """The job's GPU that the rule compares the one that was looked at with."""
    beside = BY_CODE[cause].beside
    if beside is None:
        return None
    others = ranks[ranks != place.lane]
    values = place.features[beside.feature][others, place.cell]
    if np.isnan(values).all():
        return None
    nearest = np.nanargmin(np.abs(values - beside.of_all(values)))
    return _gpu(place, int(others[nearest]))


def _gpu(place: _Place, lane: int) -> GPU:
    return GPU.objects.select_related("node", "model").get(
        pk=int(place.features.lanes.gpu_id[lane])
    )


def _evidence(job: Job, entry: CauseEntry, gpu: GPU, place: _Place) -> Evidence:
    lanes, length = place.features.lanes, place.features.length
    end_ms = lanes.start_ms + (place.cell + 1) * CELL_MS
    start_ms = max(end_ms - length * CELL_MS, lanes.start_ms)
    at = (place.lane, place.cell)
    # where a rule holds without one of its signs, another branch of it holds
    is_met = bool(place.found.hits[at])
    signs = [(sign, not is_met or bool(sign.met[at])) for sign in place.found.signs] + [
        (sign, False) for sign in place.found.strengthens
    ]
    read = tuple(_read(sign, place, is_needed=is_needed) for sign, is_needed in signs)
    return Evidence(
        gpu,
        start_ms,
        end_ms,
        read,
        CONFIDENCES[entry.confidence],
        _facts(job, entry, gpu, place, read),
        is_shared=bool(place.features.is_shared[at]),
    )


def _read(sign: Sign, place: _Place, *, is_needed: bool) -> Read:
    at = (place.lane, place.cell)
    raw = float(sign.values[at])
    value = None if np.isnan(raw) else raw
    label = measures.measure(sign.feature).label
    bound = measures.bound(sign.feature, sign.bound, is_lower_bound=sign.is_lower_bound)
    return Read(
        sign.feature,
        label,
        value,
        measures.shown(sign.feature, value),
        bound,
        bool(sign.met[at]),
        is_needed,
    )


def _facts(job: Job, entry: CauseEntry, gpu: GPU, place: _Place, read: Sequence[Read]) -> Facts:
    lanes, at = place.features.lanes, (place.lane, place.cell)
    long = Features(lanes, min(LONG, lanes.held.shape[1]))
    cores, peak = (
        _known(features[name], at)
        for features, name in ((place.features, "cores"), (long, "mem_max"))
    )
    # in the same hour: GPUs that rest in turns are all used
    affected = (
        CauseEntry.objects.filter(job=job, cause=entry.cause, start=entry.start)
        .values("gpu_id")
        .distinct()
        .count()
    )
    gpu_ids = np.unique(lanes.gpu_id[lanes.job_id == job.pk])
    return replace(
        facts_of(
            job,
            gpu,
            gpus=len(gpu_ids),
            affected_gpus=affected,
            may_work=(job.pk, entry.cause) not in stopped([job.pk]),
        ),
        gpus_on_node=GPU.objects.filter(pk__in=gpu_ids.tolist(), node=gpu.node_id).count(),
        cores=cores,
        memory_total_bytes=gpu.memory_total_bytes,
        memory_peak_ratio=peak,
        gpu_model=gpu.model.name if gpu.model else "",
        mig_profile=gpu.mig_profile,
        indexes=() if gpu.index is None else (gpu.index,),
        met=frozenset(sign.feature for sign in read if sign.is_met),
    )


def place_of(job: Job, *, may_work: bool) -> Place:
    """Who holds or held GPUs, as far as the job's row says; `may_work`: not all of its GPUs are
    known to do nothing.
    """
    is_over = job.end_ms is not None or job.state == ENDED
    is_service = job.kind == "service"
    return Place(
        job.scheduler,
        ended_by(job.external_id, job.labels),
        job.name,
        is_over=is_over,
        is_service=is_service,
        may_work=may_work,
    )


def facts_of(job: Job, gpu: GPU | None, *, gpus: int, affected_gpus: int, may_work: bool) -> Facts:
    """What is known of a job, and of one of its GPUs, without telemetry."""
    place = place_of(job, may_work=may_work)
    if gpu is None:
        return Facts(place, gpus=gpus, affected_gpus=affected_gpus, kind=job.kind)
    here = GPUProcess.objects.filter(
        job=job, gpu__node=gpu.node_id, seen_ms__gte=F("gpu__node__last_ms") - FRESH_MS
    )
    pids = here.order_by("pid").values_list("pid", flat=True).distinct()[:MAX_PIDS]
    place = replace(place, node=gpu.node.name, pids=tuple(pids))
    return Facts(place, gpus=gpus, affected_gpus=affected_gpus, kind=job.kind)


def _known(values: np.ndarray, at: tuple[int, int]) -> float | None:
    value = float(values[at])
    return None if np.isnan(value) else value
