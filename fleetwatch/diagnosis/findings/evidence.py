"""What a verdict rests on: the newest window of a finding on the GPU that it affects most, sign by
sign; of an unused GPU the last whole half hour. Worked out when asked for.

Of one slow rank it is the GPU that the others wait for: that one wastes least.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
from django.db.models import F

from fleetwatch.diagnosis import lane_rows
from fleetwatch.diagnosis.cause import EMPTY, HELD, PART, Facts, Pauses
from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.findings import measures
from fleetwatch.diagnosis.findings.idle_pauses import pauses_of
from fleetwatch.diagnosis.findings.stopped import stopped
from fleetwatch.diagnosis.judgement.features import LONG, SHORT, Features
from fleetwatch.diagnosis.judgement.lanes import Lanes
from fleetwatch.diagnosis.judgement.packing import Hour
from fleetwatch.diagnosis.judgement.pauses import LAST_START
from fleetwatch.diagnosis.judgement.rules import CONFIDENCES, Detector, Judged, Sign
from fleetwatch.diagnosis.lane_rows import Held, Key
from fleetwatch.diagnosis.models import WASTED_MS, CauseEntry
from fleetwatch.diagnosis.session_kinds import session_of
from fleetwatch.diagnosis.shell import Place
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import GPUProcess, Job
from fleetwatch.jobs.outcomes import ENDED
from fleetwatch.jobs.scheduled import ended_by
from fleetwatch.ledger.judgement import cell_states
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.ledger.judgement.observations import Ints
from fleetwatch.ledger.selectors import runs
from fleetwatch.lib.intervals import HOUR_MS, floor_hour, from_ms, to_ms
from fleetwatch.lib.spans import Span
from fleetwatch.telemetry import frames

MAX_PIDS = 8
QUIET_RUN = "quiet_s"  # the feature
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
    is_needed: bool = False  # the rule needs it; others make it surer

    @property
    def is_read(self) -> bool:
        return self.value is not None


@dataclass(frozen=True, slots=True)
class Evidence:
    """The window [start_ms, end_ms) of one GPU, as far as it is over, and its signs; `facts` are
    the job's numbers for the advice.
    """

    gpu: GPU
    start_ms: int
    end_ms: int
    signs: tuple[Read, ...]
    confidence: str
    facts: Facts
    is_shared: bool  # other jobs held the GPU in that window too
    beside: GPU | None  # of the job, that the rule compares it with

    @property
    def deciding(self) -> tuple[Read, ...]:
        """The signs that decided: those that are met, and what the rule needs."""
        return tuple(sign for sign in self.signs if sign.is_met or sign.is_needed)

    @property
    def looked_at(self) -> tuple[Read, ...]:
        """The other signs: the rule holds without them."""
        return tuple(sign for sign in self.signs if not (sign.is_met or sign.is_needed))

    @property
    def unread(self) -> tuple[str, ...]:
        """What of the deciding signs was not measured."""
        return tuple(sign.label for sign in self.deciding if not sign.is_read)

    @property
    def _told(self) -> list[str]:
        """The labels of what was read and decided; "time idle" tells of "time idle, lowest of the
        job's GPUs" too.
        """
        labels = [sign.label for sign in self.deciding if sign.is_read]
        return [label for label in labels if not any(label.startswith(f"{it}, ") for it in labels)]

    @property
    def reasons(self) -> str:
        """ "decided by utilisation, mean and time in pauses; disk writes not measured"."""
        *first, last = self._told or [""]
        if not last:
            return f"{', '.join(self.unread)} not measured"
        words = f"decided by {', '.join(first)}{' and ' if first else ''}{last}"
        return f"{words}; {', '.join(self.unread)} not measured" if self.unread else words

    @property
    def lines(self) -> list[str]:
        """A sentence per sign."""
        sentences = [
            f"{sign.label}: {sign.text} (rule:"
            f" {sign.bound}{'' if sign.is_needed else ', not needed'})"
            for sign in self.signs
        ]
        return [*sentences, SHARED] if self.is_shared else sentences


def evidence(job: Job, cause: str) -> Evidence | None:
    """The evidence for a cause of the job; None where it is judged without a window, or its
    telemetry is no longer kept.
    """
    detectors = BY_CODE[cause].detectors
    entry = _newest(job, cause)
    if entry is None or not detectors:
        return None
    pauses = _pauses(job, entry)
    place = _looked_at(job, entry, detectors, pauses)
    if place is None:
        return None
    lanes = place.features.lanes
    ranks = np.flatnonzero((lanes.job_id == job.pk) & lanes.held[:, place.cell])
    if pick := BY_CODE[cause].pick:
        place = replace(place, lane=pick(place.features, ranks, place.cell))
    return _evidence(job, entry, place, _beside_it(cause, place, ranks), pauses)


def _in_turn(entry: CauseEntry) -> list[int]:
    """Which of the entry's hour are looked at: the newest first; of a GPU that its job does not use
    the middle one, which is like the others, where no whole half hour shows it.
    """
    cells = [cell for cell in range(entry.cells.bit_length()) if entry.cells >> cell & 1]
    return [cells[len(cells) // 2]] if BY_CODE[entry.cause].idle == PART else cells[::-1]


def _looked_at(
    job: Job, entry: CauseEntry, detectors: Sequence[Detector], pauses: Pauses | None
) -> "_Place | None":
    """The newest place of the entry's hour that is all of the job's time, else the newest; where
    pauses decide, with all of its pause. None where its telemetry is no longer kept.
    """
    hour_ms = _hour_ms(entry)
    reach = max(length for detector in detectors for length in detector.lengths)
    # a window that looks at the last cell may end after it; windows reach back as long as they are
    low = hour_ms - max(reach * CELL_MS // HOUR_MS, 1) * HOUR_MS
    lanes = _lanes(job, low, hour_ms + HOUR_MS)
    if lanes is None:
        return None
    lane = _lane_of(entry, lanes)
    whole = _whole_cells(job, entry, lanes, lane)
    last = _last(entry, (hour_ms - low) // CELL_MS, whole)
    place = _place(detectors, lanes, lane, last=last, whole=whole)
    if BY_CODE[entry.cause].idle == PART:
        return _last_half_hour(place, detectors[0], entry)
    return place if pauses is None else _in_pause(place, detectors, pauses)


def _hour_ms(entry: CauseEntry) -> int:
    return to_ms(floor_hour(entry.start))


def _lane_of(entry: CauseEntry, lanes: Lanes) -> int:
    is_it = (lanes.gpu_id == entry.gpu_id) & (lanes.job_id == entry.job_id)
    return int(np.flatnonzero(is_it)[0])


def _last(entry: CauseEntry, before: int, whole: int) -> int:
    """The cell that is looked at, where so many come before the entry's hour."""
    cells = [before + cell for cell in _in_turn(entry)]
    return next((cell for cell in cells if cell < whole), cells[0])


def _whole_cells(job: Job, entry: CauseEntry, lanes: Lanes, lane: int) -> int:
    """How many of the lane's cells tell of the job alone. That in which it ended tells also of who
    held the GPU next, and counts a pause that began when it ended.
    """
    count: int = lanes.held.shape[1]
    if job.end_ms is None:
        return count
    last = (job.end_ms - lanes.start_ms) // CELL_MS
    is_mixed = last < count and (BY_CODE[entry.cause].has_rhythm or lanes.shared[lane, last])
    return last if is_mixed else count


def _newest(job: Job, cause: str) -> CauseEntry | None:
    """The newest entry of the cause, on the GPU of which it wasted most in that hour."""
    own = CauseEntry.objects.filter(job=job, cause=cause).annotate(wasted=WASTED_MS)
    newest = own.order_by("-start", "-wasted", "-held_ms", "gpu_id")
    return newest.select_related("gpu__node", "gpu__model").first()


def _lanes(job: Job, start_ms: int, end_ms: int) -> Lanes | None:
    """The lanes of the job, and of others that hold its GPUs; None where the ledger's pieces of
    these hours are no longer kept.
    """
    entries = CauseEntry.objects.filter(
        job=job, start__gte=from_ms(start_ms), start__lt=from_ms(end_ms)
    )
    node_ids = list(entries.values_list("node_id", flat=True).distinct())
    nodes = lane_rows.held(node_ids, start_ms, end_ms)
    held = {node_id: Held(_beside(node.table, job.pk)) for node_id, node in nodes.items()}
    if not any(node.hours() for node in held.values()):
        return None
    return lane_rows.lanes(held, start_ms, end_ms, _cells(held, start_ms, end_ms))


def _cells(held: Mapping[int, Held], start_ms: int, end_ms: int) -> Mapping[Key, Hour]:
    """The stored ones; those that nobody stored are made."""
    cells = lane_rows.stored_hours(list(held), start_ms, end_ms)
    for node_id, node in held.items():
        for hour in node.hours():
            if (node_id, hour) not in cells:
                cells |= lane_rows.made_hours({node_id: node}, hour, hour + HOUR_MS)
    return cells


def _beside(table: cell_states.Table, job_id: int) -> cell_states.Table:
    """The rows of the job's GPUs: its own, and those of other jobs that hold them too."""
    own = np.isin(table["gpu_id"], table["gpu_id"][table["job_id"] == job_id])
    return {name: values[own] for name, values in table.items()}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the rule was looked at: a detector's window of `length` cells that ends with `cell` of
    `lane`.
    """

    rule: Judged
    features: Features
    lane: int
    cell: int

    def at(self, values: np.ndarray) -> float | None:
        """What an array of all lanes and cells has there; None = not read."""
        value = float(values[self.lane, self.cell])
        return None if np.isnan(value) else value

    @property
    def confidence(self) -> float:
        return self.at(self.rule.confidence) or 0.0


def _place(
    detectors: Sequence[Detector], lanes: Lanes, lane: int, *, last: int, whole: int
) -> _Place:
    """The surest window that looks at the cell, ends before `whole` and meets the rule, or where
    none does so ends after it; else the one that ends with the cell.
    """
    tried = [
        _Place(rule, features, lane, cell)
        for detector in detectors
        for length in detector.lengths
        for features in (Features(lanes, length),)
        for rule in (detector.find(features),)
        for cell in range(min(last + length, lanes.held.shape[1]) - 1, last - 1, -1)
        if cell == last or lanes.held[lane, cell]
    ]
    hits = [place for place in tried if place.at(place.rule.hits)]
    alone = [place for place in hits if place.cell < max(whole, last + 1)]
    # of several as sure the latest shortest one: max keeps the first
    sure = attrgetter("confidence")
    return max(alone or hits, key=sure, default=tried[-1])


def _last_half_hour(place: _Place, rule: Detector, entry: CauseEntry) -> _Place:
    """The surest and then last half hour up to the entry's last cell that the job held whole and
    that meets the rule; the same place where none does: the scrap at a job's end is like no other.
    """
    features = Features(place.features.lanes, SHORT)
    judged = rule.find(features)
    is_whole = features["held_ms"][place.lane] >= SHORT * CELL_MS
    cells = np.flatnonzero(judged.hits[place.lane] & is_whole)
    hour = (_hour_ms(entry) - features.lanes.start_ms) // CELL_MS
    cells = cells[cells < hour + entry.cells.bit_length()]
    if not len(cells):
        return place
    sure = judged.confidence[place.lane, cells]
    return replace(place, rule=judged, features=features, cell=int(cells[sure == sure.max()][-1]))


def _in_pause(place: _Place, detectors: Sequence[Detector], pauses: Pauses) -> _Place:
    """The same cell, of a rule that asks single ones with those before it in the job's pause: a
    pause decides, of which the last cell may be a minute.
    """
    detector = next((each for each in detectors if each.lengths == (1,)), None)
    if detector is None or place.features.length > 1:
        return place
    lanes = place.features.lanes
    first = _first_of_pause(lanes.start_ms, place.cell, pauses)
    features = Features(lanes, place.cell - first + 1)
    return replace(place, rule=detector.find(features), features=features)


def _first_of_pause(start_ms: int, cell: int, pauses: Pauses) -> int:
    """The first whole cell of the pause that reaches into this cell, as far as cells were read;
    the cell itself where none does.
    """
    cell_ms = start_ms + cell * CELL_MS
    began_ms = [low for low, high in pauses.spans if low < cell_ms < high]
    return max(-((start_ms - began_ms[-1]) // CELL_MS), 0) if began_ms else cell


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
    gpus = GPU.objects.select_related("node", "model")
    return gpus.get(pk=int(place.features.lanes.gpu_id[lane]))


def _evidence(
    job: Job, entry: CauseEntry, place: _Place, beside: GPU | None, pauses: Pauses | None
) -> Evidence:
    gpu = _gpu(place, place.lane)
    start_ms, end_ms = _window(gpu, place, job)
    read = _signs(place, _quiet_s(place, job, gpu, (start_ms, end_ms)))
    facts = replace(_facts(job, entry, gpu, place, read), pauses=pauses)
    return Evidence(
        gpu,
        start_ms=start_ms,
        end_ms=end_ms,
        signs=tuple(each_once(read, gpus=facts.gpus)),
        confidence=CONFIDENCES[entry.confidence],
        facts=facts,
        is_shared=bool(place.at(place.features.is_shared)),
        beside=beside,
    )


def _signs(place: _Place, quiet_s: float | None) -> tuple[Read, ...]:
    """As they were read: those of the rule, then those that make it surer."""
    # where a rule holds without one of its signs, another branch of it holds
    is_met = bool(place.at(place.rule.hits))
    needed = [_read(sign, place, quiet_s) for sign in place.rule.signs]
    return (
        *(replace(sign, is_needed=sign.is_met or not is_met) for sign in needed),
        *(_read(sign, place) for sign in place.rule.strengthens),
    )


def each_once(read: Sequence[Read], *, gpus: int) -> Iterator[Read]:
    """The signs, what is said of one thing once: of two bounds that are both met the one that says
    more, which comes later, and of a job's only GPU nothing as of the lowest of its GPUs.
    """
    labels = {sign.label for sign in read}
    last = {_topic(sign): sign for sign in read if sign.is_met}
    needed = {_topic(sign) for sign in read if sign.is_needed}
    for sign in read:
        is_last = sign is last.get(_topic(sign), sign)
        is_of_all = sign.feature.startswith("job_") and sign.label.rpartition(", ")[0] in labels
        if is_last and not (is_of_all and gpus == 1):
            yield replace(sign, is_needed=_topic(sign) in needed)


def _topic(sign: Read) -> tuple[str, str]:
    """What it bounds, from which side."""
    return sign.feature, sign.bound.partition(" ")[0]


def _window(gpu: GPU, place: _Place, job: Job) -> Span:
    """When the rule looked, as far as its newest cell knows and the job held the GPU."""
    lanes = place.features.lanes
    end_ms = lanes.start_ms + (place.cell + 1) * CELL_MS
    start_ms = max(end_ms - place.features.length * CELL_MS, lanes.start_ms)
    if job.start_ms and job.start_ms < end_ms:
        start_ms = max(start_ms, job.start_ms)
    ends = [at_ms for at_ms in (_read_until(gpu, place), job.end_ms) if at_ms and at_ms > start_ms]
    return start_ms, min(end_ms, *ends)


def _read_until(gpu: GPU, place: _Place) -> int | None:
    """The end of the last window in the cell as it was made: one that goes on is made again some
    minutes later. None where it has none.
    """
    lanes = place.features.lanes
    last_s = place.at(lanes.figures[LAST_START])
    if last_s is None:
        return gpu.newest_ms
    last_ms = lanes.start_ms + place.cell * CELL_MS + round(last_s * 1000)
    windows = frames.read_gpu(gpu.pk, gpu.node_id, last_ms, last_ms + 1, ())
    return int(windows.end_ms.max()) if len(windows.end_ms) else gpu.newest_ms


def _quiet_s(place: _Place, job: Job, gpu: GPU, window: Span) -> float | None:
    """The job's longest quiet run on the GPU that reaches into the window, as the ledger has it:
    cells know a quarter of an hour of what went on before them. None where no sign asks.
    """
    if all(sign.feature != QUIET_RUN for sign in place.rule.signs):
        return None
    start_ms, end_ms = window
    quiet = runs([gpu.pk], start_ms=start_ms, end_ms=end_ms, conditions=("quiet",))
    own = [min(run.end_ms, end_ms) - run.start_ms for run in quiet if run.job_id == job.pk]
    return max(own, default=0) / 1000


def _read(sign: Sign, place: _Place, quiet_s: float | None = None) -> Read:
    """`quiet_s` stands for what the cells know of a quiet run, where both say that it is met."""
    value = place.at(sign.values)
    if sign.feature == QUIET_RUN and quiet_s is not None and place.at(sign.met):
        value = quiet_s if quiet_s >= sign.bound else value
    return Read(
        sign.feature,
        measures.measure(sign.feature).label,
        value,
        measures.shown(sign.feature, value),
        measures.bound(sign.feature, sign.bound, is_lower_bound=sign.is_lower_bound),
        is_met=bool(place.at(sign.met)),
    )


def _facts(job: Job, entry: CauseEntry, gpu: GPU, place: _Place, read: Sequence[Read]) -> Facts:
    lanes = place.features.lanes
    long = Features(lanes, min(LONG, lanes.held.shape[1]))
    gpu_ids = np.unique(lanes.gpu_id[lanes.job_id == job.pk])
    used, there = _on_node(gpu.node_id, gpu_ids)
    facts = replace(
        facts_of(
            job,
            gpu,
            gpus=len(gpu_ids),
            affected_gpus=_affected(entry),
            may_work=(job.pk, entry.cause) not in stopped([job.pk]),
        ),
        gpus_on_node=used,
        node_gpus=there,
        memory_total_bytes=gpu.memory_total_bytes,
        memory_peak_ratio=place.at(long["mem_max"]),
        gpu_model=gpu.model.name if gpu.model else "",
        mig_profile=gpu.mig_profile,
        indexes=() if gpu.index is None else (gpu.index,),
        met=frozenset(sign.feature for sign in read if sign.is_met),
    )
    return _with_cores(facts, place)


def _with_cores(facts: Facts, place: _Place) -> Facts:
    """With the job's cores on the node, and what of them and of the GPU is in use."""
    cores, ratio, util = (place.at(place.features[name]) for name in ("cores", "cpu", "util"))
    return replace(facts, cores=cores, cpu_ratio=ratio, util=util)


def _on_node(node_id: int, gpu_ids: Ints) -> tuple[int, int]:
    """How many of these GPUs are on the node, and how many GPUs it has."""
    here = GPU.objects.filter(node=node_id)
    return here.filter(pk__in=gpu_ids.tolist()).count(), here.filter(parent=None).count()


def _pauses(job: Job, entry: CauseEntry) -> Pauses | None:
    """Of a cause that is seen by them: all of its job's GPUs are idle."""
    if BY_CODE[entry.cause].idle not in (HELD, EMPTY):
        return None
    return pauses_of(job, seen_ms=to_ms(entry.start))


def _affected(entry: CauseEntry) -> int:
    """How many of the job's GPUs, in the same hour: GPUs that rest in turns are all used."""
    alike = CauseEntry.objects.filter(job=entry.job_id, cause=entry.cause, start=entry.start)
    return alike.values("gpu_id").distinct().count()


def place_of(job: Job, *, may_work: bool) -> Place:
    """Who holds or held GPUs, as far as the job's row says; `may_work`: not all of its GPUs are
    known to do nothing.
    """
    return Place(
        job.scheduler,
        ended_by(job.external_id, job.labels),
        job.name,
        is_over=job.end_ms is not None or job.state == ENDED,
        is_service=job.kind == "service",
        may_work=may_work,
    )


def facts_of(job: Job, gpu: GPU | None, *, gpus: int, affected_gpus: int, may_work: bool) -> Facts:
    """What is known of a job, and of one of its GPUs, without telemetry."""
    place = place_of(job, may_work=may_work)
    names = [job.name]
    if gpu is not None:
        here = GPUProcess.objects.filter(
            job=job, gpu__node=gpu.node_id, seen_ms__gte=F("gpu__node__last_ms") - FRESH_MS
        )
        seen = dict(here.order_by("pid").values_list("pid", "name"))
        place = replace(place, node=gpu.node.name, pids=tuple(seen)[:MAX_PIDS])
        names += seen.values()
    session = session_of(names) if job.kind == "interactive" else ""
    return Facts(place, gpus=gpus, affected_gpus=affected_gpus, kind=job.kind, session=session)
