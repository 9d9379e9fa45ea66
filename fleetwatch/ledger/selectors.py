"""Reads of the ledger: runs joined from their parts, a GPU's states over time, what idles now."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.utils import timezone

from fleetwatch.inventory.models import GPU, Node
from fleetwatch.ledger.models import Adjustment, ClosedMonth, IdlePower, Posted, Run
from fleetwatch.ledger.models import Policy as PolicyRow
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.intervals import DAY_MS, HOUR_MS, Interval, to_ms
from fleetwatch.lib.rows import fetched

# A run is followed so far, a day at a time.
LOOK_BACK_MS = 60 * DAY_MS
# Telemetry this late does not end a run: a flush, a retry, a slow network.
LIVE_SLACK_MS = 300_000
# A run is open while no more windows than this are missing after it: those of its bridge, and one
# in the making.
OPEN_WINDOWS = 4

_POSTED_HOURS = """
SELECT hour
FROM generate_series(
    %(start)s::timestamptz, %(end)s::timestamptz - interval '1 ms', interval '1 hour'
) AS hour
WHERE EXISTS (
    SELECT FROM ledger_entry AS entry
    WHERE entry.start >= hour AND entry.start < hour + interval '1 hour' AND entry.gpu_ms > 0
)
"""

_IDLE_STEPS = """
SELECT gpu_id, from_ms, watts FROM ledger_idlepower WHERE gpu_id = ANY(%s) ORDER BY from_ms, id
"""

# GPU, holder (None: nobody) and condition
Lane = tuple[int, int | None, str]


@dataclass(frozen=True, slots=True)
class RunSpan:
    """A run: one GPU and holder (None: nobody) in one condition over [start_ms, end_ms).

    Short gaps in it are `unobserved` in `state_ms`. `memory_used_bytes` is the mean over the time
    in which it was read; None where it never was.
    """

    gpu_id: int
    job_id: int | None
    condition: str
    start_ms: int
    end_ms: int
    state_ms: dict[str, int]
    memory_used_bytes: float | None

    @property
    def duration_ms(self) -> int:
        return self.end_ms - self.start_ms

    @property
    def held_ms(self) -> int:
        """The holder's share of the time."""
        return sum(self.state_ms.values())


def current_policy() -> tuple[int, Policy]:
    """The id and the thresholds of the newest policy; version 1 with the defaults is made where
    there is none.
    """
    row = newest_policy()
    return row.pk, Policy.from_json(row.thresholds)


def newest_policy() -> PolicyRow:
    """The row of the policy in force; version 1 with the defaults is made where there is none."""
    row = PolicyRow.objects.order_by("-version").first()
    if row is None:
        first = {"thresholds": Policy().to_json(), "created_at": timezone.now()}
        row, _ = PolicyRow.objects.get_or_create(version=1, defaults=first)
    return row


def idle_steps(gpu_ids: Iterable[int]) -> dict[int, list[tuple[int, float]]]:
    """GPU id -> (from when on, watts), ascending; GPUs of which nothing was learned or set are not
    in it.
    """
    steps: dict[int, dict[int, float]] = defaultdict(dict)
    for gpu_id, from_ms, watts in fetched(_IDLE_STEPS, [np.array([*gpu_ids], dtype=np.int64)]):
        steps[gpu_id][from_ms] = watts  # of the same moment the newest counts
    return {gpu_id: list(by_time.items()) for gpu_id, by_time in steps.items()}


def idle_power(gpu: GPU) -> IdlePower | None:
    """What was learned or set of the GPU and is in force; None: its model's counts, or nothing is
    known.
    """
    return IdlePower.objects.filter(gpu_id=gpu.pk).order_by("from_ms", "pk").last()


def idle_w_of(gpu: GPU) -> float | None:
    """What the GPU draws at idle, as it is judged by; None where nothing is known."""
    row = idle_power(gpu)
    if row is not None:
        return row.watts
    return gpu.model.idle_w if gpu.model else None


def still_held(job_ids: Collection[int], *, since_ms: int) -> dict[int, set[int]]:
    """By job the GPUs that it held since, and that nobody saw with another holder, or without one,
    afterwards.

    A GPU of a node that fell silent is its job's: what it does is not known.
    """
    recent = Run.objects.filter(Run.ended_after(since_ms)).order_by()
    runs = recent.filter(job_id__in=list(job_ids))
    ends = list(runs.values_list("job_id", "gpu_id").annotate(Max("end_ms")))
    began = _seen_last(recent, {gpu_id for _, gpu_id, _ in ends})
    held: dict[int, set[int]] = defaultdict(set)
    for job_id, gpu_id, end_ms in ends:
        if began.get(gpu_id, end_ms - 1) < end_ms:
            held[job_id].add(gpu_id)
    return held


def _seen_last(parts: QuerySet[Run], gpu_ids: Collection[int]) -> dict[int, int]:
    """GPU -> where the last part begins in which somebody saw it."""
    seen = parts.filter(gpu_id__in=gpu_ids).exclude(condition__in=("unobserved", "unavailable"))
    newest = seen.order_by("gpu_id", "-start_ms").distinct("gpu_id")
    return dict(newest.values_list("gpu_id", "start_ms"))


def longest_reach_ms() -> int:
    """How far in time a window can change the judgement of another, by any policy that judged
    something, in ms.
    """
    current_policy()
    return max(
        Policy.from_json(thresholds).reach_ms
        for thresholds in PolicyRow.objects.values_list("thresholds", flat=True)
    )


def closed_until() -> datetime | None:
    """The end of the last closed month: entries and rates before it stay as they are; None when
    none is closed.
    """
    newest: datetime | None = ClosedMonth.objects.aggregate(end=Max("end"))["end"]
    return newest


def closed_months() -> list[ClosedMonth]:
    """What was closed, when and by whom, the newest month first."""
    return list(ClosedMonth.objects.select_related("policy").order_by("-end"))


def adjustments(booked: Interval) -> QuerySet[Adjustment]:
    """The corrections of closed months that were booked in the interval, in the order of what they
    correct.
    """
    rows = Adjustment.objects.filter(booked_at__gte=booked.start, booked_at__lt=booked.end)
    return rows.select_related("node", "gpu", "job").order_by("start", "node_id", "gpu_id", "pk")


def runs(
    gpu_ids: Iterable[int], *, start_ms: int, end_ms: int, conditions: Sequence[str] = ()
) -> list[RunSpan]:
    """The runs of these GPUs that overlap [start_ms, end_ms), each whole, by GPU, holder and start;
    of these conditions, or of all.
    """
    rows = Run.objects.filter(gpu_id__in=list(gpu_ids))
    if conditions:
        rows = rows.filter(condition__in=conditions)
    parts = {part.pk: part for part in rows.filter(Run.overlapping(start_ms, end_ms))}
    _extend(parts, rows, start_ms, end_ms)
    return [
        run for run in _joined(parts.values()) if run.start_ms < end_ms and run.end_ms > start_ms
    ]


def open_idle_runs(now: datetime) -> list[RunSpan]:
    """The runs of GPUs that are quiet and idle now under a job, by job and GPU.

    Now is where the node's telemetry ended when it was posted last: a node silent for longer than
    LIVE_SLACK_MS says nothing of now, so nothing of it is here.
    """
    ends = _open_quiet_ends(to_ms(now))
    if not ends:
        return []
    quiet = runs(
        {gpu_id for gpu_id, _ in ends},
        start_ms=min(ends.values()) - 1,
        end_ms=to_ms(now) + LIVE_SLACK_MS,
        conditions=("quiet",),
    )
    idle = [
        run
        for run in quiet
        if ends.get((run.gpu_id, run.job_id)) == run.end_ms and run.state_ms.get("idle")
    ]
    return sorted(idle, key=lambda run: (run.job_id or 0, run.gpu_id))


def _open_quiet_ends(now_ms: int) -> dict[tuple[int, int | None], int]:
    """GPU and job -> where the quiet run ends that nothing follows but a gap that a run continues
    across, of nodes that report.
    """
    live = {node.pk: node for node in Node.objects.filter(last_ms__gte=now_ms - LIVE_SLACK_MS)}
    parts = _last_quiet_parts(now_ms - 2 * LIVE_SLACK_MS).filter(node_id__in=live)
    every = list(parts.order_by("start_ms"))
    posted_ms = posted_until_ms({part.gpu_id for part in every})
    return {
        (part.gpu_id, part.job_id): part.end_ms
        for part in every
        if part.end_ms >= posted_ms[part.gpu_id] - OPEN_WINDOWS * 1000 * live[part.node_id].window_s
    }


def _last_quiet_parts(since_ms: int) -> QuerySet[Run]:
    """Quiet parts of jobs that end later, and that nothing follows but a gap."""
    # something else of its holder or of nobody ends a run
    followers = Run.objects.filter(
        Q(job=OuterRef("job")) | Q(job=None),
        node=OuterRef("node"),
        gpu=OuterRef("gpu"),
        cut_ms__gte=OuterRef("cut_ms"),
        start_ms__gte=OuterRef("end_ms"),
    ).exclude(condition="unobserved")
    quiet = Run.objects.filter(Run.ended_after(since_ms), condition="quiet", job__isnull=False)
    return quiet.filter(~Exists(followers))


def posted_until_ms(gpu_ids: Collection[int]) -> dict[int, int]:
    """Where each GPU's capacity ended when it was posted last, 0 where it never was: telemetry goes
    on while its hour waits to be posted again.
    """
    rows = Posted.objects.filter(gpu__in=gpu_ids)
    ends = {row.gpu_id: row.spans[-1][1] for row in rows if row.spans}
    return {gpu_id: ends.get(gpu_id, 0) for gpu_id in gpu_ids}


def _lane(part: Run) -> Lane:
    return part.gpu_id, part.job_id, part.condition


def _extend(parts: dict[int, Run], rows: QuerySet[Run], start_ms: int, end_ms: int) -> None:
    """Adds to the parts of [start_ms, end_ms) all that their runs reach on both sides."""
    for low_ms in range(start_ms - DAY_MS, start_ms - LOOK_BACK_MS - 1, -DAY_MS):
        earlier = _begun(rows, low_ms, _continued(parts.values()))
        if not earlier:
            break
        parts |= earlier
    lanes = set(map(_lane, parts.values()))
    for low_ms in range(end_ms, end_ms + LOOK_BACK_MS, DAY_MS):
        later = _begun(rows, low_ms, lanes)
        going_on = _continued(later.values())
        if not going_on:
            break
        parts |= {pk: part for pk, part in later.items() if _lane(part) in going_on}
        lanes = going_on - {_lane(part) for part in later.values() if not part.continues}


def _begun(rows: QuerySet[Run], low_ms: int, lanes: Collection[Lane]) -> dict[int, Run]:
    """By id the parts of these lanes that begin on the day from then on."""
    gpu_ids = {gpu_id for gpu_id, *_ in lanes}
    day = rows.filter(
        cut_ms__gt=low_ms - HOUR_MS,
        cut_ms__lt=low_ms + DAY_MS,
        start_ms__gte=low_ms,
        start_ms__lt=low_ms + DAY_MS,
        gpu_id__in=gpu_ids,
    )
    return {part.pk: part for part in day if _lane(part) in lanes}


def _continued(parts: Iterable[Run]) -> set[Lane]:
    """The lanes whose first part goes on from one before it."""
    first = {_lane(part): part for part in sorted(parts, key=lambda part: -part.start_ms)}
    return {lane for lane, part in first.items() if part.continues}


def _joined(parts: Iterable[Run]) -> list[RunSpan]:
    groups: list[list[Run]] = []
    for part in sorted(
        parts, key=lambda part: (part.gpu_id, part.job_id or 0, part.condition, part.start_ms)
    ):
        if groups and part.continues and _lane(groups[-1][-1]) == _lane(part):
            groups[-1].append(part)
        else:
            groups.append([part])
    return [_run(group) for group in groups]


def _run(parts: list[Run]) -> RunSpan:
    state_ms: Counter[str] = Counter()
    for part in parts:
        state_ms.update(part.state_ms)
    read_ms, memory = (
        sum(part.figures.get(f"memory_used_bytes_{figure}", 0.0) for part in parts)
        for figure in ("ms", "sum")
    )
    return RunSpan(
        *_lane(parts[0]),
        start_ms=parts[0].start_ms,
        end_ms=parts[-1].end_ms,
        state_ms=state_ms,
        memory_used_bytes=memory / read_ms if read_ms else None,
    )


def posted_hours(interval: Interval) -> list[datetime]:
    """Of its clock hours (from a full one on) those of which the ledger says anything."""
    return [
        hour for (hour,) in fetched(_POSTED_HOURS, {"start": interval.start, "end": interval.end})
    ]
