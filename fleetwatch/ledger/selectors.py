"""Reads of the ledger: runs joined from their parts, a GPU's states over time, what idles now."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.utils import timezone

from fleetwatch.inventory.models import GPU, Node
from fleetwatch.ledger.models import Adjustment, ClosedMonth, IdlePower, Run
from fleetwatch.ledger.models import Policy as PolicyRow
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms

# An open run is looked for so far back, a day at a time.
LOOK_BACK_DAYS = 60
# Telemetry this late does not end a run: a flush, a retry, a slow network.
LIVE_SLACK_MS = 300_000
# A run is open while no more windows than this are missing after it: those of its bridge, and one
# in the making.
OPEN_WINDOWS = 4


@dataclass(frozen=True, slots=True)
class RunSpan:
    """A run: one GPU and holder (None: nobody) in one condition over [start_ms, end_ms).

    Short gaps in it are `unobserved` in `state_ms`. Means are over the time in which
    the value was read; None where it never was.
    """

    gpu_id: int
    job_id: int | None
    condition: str
    start_ms: int
    end_ms: int
    state_ms: dict[str, int]
    util_mean: float | None
    power_w: float | None
    memory_used_bytes: float | None
    spin_unresolved_ms: int  # in windows too long to tell busy-waiting from work

    @property
    def duration_ms(self) -> int:
        return self.end_ms - self.start_ms


@dataclass(frozen=True, slots=True)
class IdleGPU:
    """A GPU that idles now, and since when."""

    gpu_id: int
    node_id: int
    job_id: int
    since_ms: int
    until_ms: int
    held_ms: int  # the holder's share of the time


def current_policy() -> tuple[int, Policy]:
    """The id and the thresholds of the newest policy; version 1 with the defaults is made where
    there is none.
    """
    row = PolicyRow.objects.order_by("-version").first()
    if row is None:
        first = {"thresholds": Policy().to_json(), "created_at": timezone.now()}
        row, _ = PolicyRow.objects.get_or_create(version=1, defaults=first)
    return row.pk, Policy.from_json(row.thresholds)


def idle_steps(gpu_ids: Iterable[int]) -> dict[int, list[tuple[int, float]]]:
    """GPU id -> (from when on, watts), ascending; GPUs of which nothing was learned or set are not
    in it.
    """
    found: dict[int, dict[int, float]] = defaultdict(dict)
    rows = IdlePower.objects.filter(gpu_id__in=list(gpu_ids)).order_by("from_ms", "pk")
    for gpu_id, from_ms, watts in rows.values_list("gpu_id", "from_ms", "watts"):
        found[gpu_id][from_ms] = watts  # of the same moment the newest counts
    return {gpu_id: list(by_time.items()) for gpu_id, by_time in found.items()}


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
    runs = Run.objects.filter(job_id__in=list(job_ids), end_ms__gt=since_ms).order_by()
    last = {
        (job_id, gpu_id): end_ms
        for job_id, gpu_id, end_ms in runs.values_list("job_id", "gpu_id").annotate(Max("end_ms"))
    }
    seen = Run.objects.filter(
        gpu_id__in={gpu_id for _, gpu_id in last}, end_ms__gt=since_ms
    ).exclude(condition__in=("unobserved", "unavailable"))
    newest = (
        seen.order_by("gpu_id", "-start_ms").distinct("gpu_id").values_list("gpu_id", "start_ms")
    )
    began = dict(newest)
    found: dict[int, set[int]] = defaultdict(set)
    for (job_id, gpu_id), end_ms in last.items():
        if began.get(gpu_id, end_ms - 1) < end_ms:
            found[job_id].add(gpu_id)
    return found


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
    gpu_ids: Iterable[int] | None = None,
    *,
    job_id: int | None = None,
    start_ms: int,
    end_ms: int,
    conditions: Sequence[str] = (),
) -> list[RunSpan]:
    """The runs that overlap [start_ms, end_ms), each whole, by GPU, holder and start.

    Of these GPUs, or of this job (or both); of these conditions, or of all.
    """
    rows = _rows(gpu_ids, job_id, conditions)
    parts = list(_ordered(rows.filter(start_ms__lt=end_ms, end_ms__gt=start_ms)))
    parts = _extended(rows, parts, start_ms=start_ms, end_ms=end_ms)
    return [run for run in _joined(parts) if run.start_ms < end_ms and run.end_ms > start_ms]


def open_idle_runs(now: datetime, *, job_ids: Iterable[int] | None = None) -> list[IdleGPU]:
    """The GPUs that are quiet and idle now under a job, and since when, by job and GPU.

    Now is where the node's telemetry ends: a node silent for longer than LIVE_SLACK_MS
    says nothing of now, so nothing of it is here.
    """
    live = {node.pk: node for node in Node.objects.filter(last_ms__gte=to_ms(now) - LIVE_SLACK_MS)}
    parts = Run.objects.filter(
        node_id__in=live,
        condition="quiet",
        job__isnull=False,
        end_ms__gt=to_ms(now) - 2 * LIVE_SLACK_MS,
    )
    if job_ids is not None:
        parts = parts.filter(job_id__in=list(job_ids))
    parts = parts.exclude(Exists(_followers()))
    open_parts = {
        (part.gpu_id, part.job_id): part
        for part in _ordered(parts)
        if _is_open(part, live[part.node_id])
    }
    if not open_parts:
        return []
    first_ms = min(part.end_ms for part in open_parts.values()) - 1
    gpu_ids = {gpu_id for gpu_id, _ in open_parts}
    found = []
    for run in runs(
        gpu_ids, start_ms=first_ms, end_ms=to_ms(now) + LIVE_SLACK_MS, conditions=("quiet",)
    ):
        part = open_parts.get((run.gpu_id, run.job_id or 0))
        if part is not None and run.end_ms == part.end_ms and run.state_ms.get("idle"):
            found.append(
                IdleGPU(
                    run.gpu_id,
                    part.node_id,
                    part.job_id or 0,
                    run.start_ms,
                    run.end_ms,
                    sum(run.state_ms.values()),
                )
            )
    return sorted(found, key=lambda idle: (idle.job_id, idle.gpu_id))


def _followers() -> QuerySet[Run]:
    """What shows that a run has ended: something else of its holder or of nobody follows on the
    GPU.
    """
    holder = Q(job=OuterRef("job")) | Q(job=None)
    return Run.objects.filter(
        holder, gpu=OuterRef("gpu"), start_ms__gte=OuterRef("end_ms")
    ).exclude(condition="unobserved")


def _is_open(part: Run, node: Node) -> bool:
    """Whether nothing but a gap that a run continues across follows the part."""
    return (
        node.last_ms is not None
        and part.end_ms >= node.last_ms - OPEN_WINDOWS * 1000 * node.window_s
    )


def _rows(
    gpu_ids: Iterable[int] | None, job_id: int | None, conditions: Sequence[str]
) -> QuerySet[Run]:
    rows = Run.objects.all()
    if gpu_ids is not None:
        rows = rows.filter(gpu_id__in=list(gpu_ids))
    if job_id is not None:
        rows = rows.filter(job_id=job_id)
    return rows.filter(condition__in=conditions) if conditions else rows


def _ordered(rows: QuerySet[Run]) -> QuerySet[Run]:
    return rows.order_by("gpu_id", "job_id", "condition", "start_ms")


def _lane(part: Run) -> tuple[int, int | None, str]:
    return part.gpu_id, part.job_id, part.condition


def _extended(rows: QuerySet[Run], parts: list[Run], *, start_ms: int, end_ms: int) -> list[Run]:
    """The parts and all that their runs reach on both sides."""
    found = {part.pk: part for part in parts}
    low, high = start_ms, end_ms
    for _ in range(LOOK_BACK_DAYS):
        heads = _ends(found.values(), first=True)
        open_heads = {lane for lane, part in heads.items() if part.continues}
        if not open_heads:
            break
        earlier = rows.filter(
            start_ms__lt=low,
            start_ms__gte=low - 24 * HOUR_MS,
            gpu_id__in={lane[0] for lane in open_heads},
        )
        news = [part for part in _ordered(earlier) if _lane(part) in open_heads]
        low -= 24 * HOUR_MS
        if not news:
            break
        found |= {part.pk: part for part in news}
    lanes = set(_ends(found.values(), first=False))
    for _ in range(LOOK_BACK_DAYS):
        later = rows.filter(
            start_ms__gte=high,
            start_ms__lt=high + 24 * HOUR_MS,
            gpu_id__in={lane[0] for lane in lanes},
        )
        news = [part for part in _ordered(later) if _lane(part) in lanes]
        going_on = {lane for lane, part in _ends(news, first=True).items() if part.continues}
        if not going_on:
            break
        found |= {part.pk: part for part in news if _lane(part) in going_on}
        lanes = going_on - {_lane(part) for part in news if not part.continues}
        high += 24 * HOUR_MS
    return sorted(
        found.values(),
        key=lambda part: (part.gpu_id, part.job_id or 0, part.condition, part.start_ms),
    )


def _ends(parts: Iterable[Run], *, first: bool) -> dict[tuple[int, int | None, str], Run]:
    found: dict[tuple[int, int | None, str], Run] = {}
    for part in parts:
        known = found.get(_lane(part))
        if known is None or (part.start_ms < known.start_ms) == first:
            found[_lane(part)] = part
    return found


def _joined(parts: Sequence[Run]) -> list[RunSpan]:
    groups: list[list[Run]] = []
    for part in parts:
        if groups and part.continues and _lane(groups[-1][-1]) == _lane(part):
            groups[-1].append(part)
        else:
            groups.append([part])
    return [_run(group) for group in groups]


def _run(parts: list[Run]) -> RunSpan:
    state_ms: dict[str, int] = defaultdict(int)
    sums: dict[str, float] = defaultdict(float)
    for part in parts:
        for state, ms in part.state_ms.items():
            state_ms[state] += ms
        for name, value in part.figures.items():
            sums[name] += value
    return RunSpan(
        gpu_id=parts[0].gpu_id,
        job_id=parts[0].job_id,
        condition=parts[0].condition,
        start_ms=parts[0].start_ms,
        end_ms=parts[-1].end_ms,
        state_ms=dict(state_ms),
        util_mean=_mean(sums, "active"),
        power_w=_mean(sums, "power_w"),
        memory_used_bytes=_mean(sums, "memory_used_bytes"),
        spin_unresolved_ms=int(sums.get("spin_unresolved_ms", 0)),
    )


def _mean(sums: dict[str, float], name: str) -> float | None:
    read_ms = sums.get(f"{name}_ms", 0.0)
    return sums.get(f"{name}_sum", 0.0) / read_ms if read_ms else None
