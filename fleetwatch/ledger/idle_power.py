"""What a GPU draws while it does nothing, where no catalogue says so: learned once from its own
quiet time, or set by an admin.

A row is never changed: what was judged by it can be judged again. Hours of closed months keep what
they were judged by.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

import numpy as np
from django.db import transaction
from django.db.models import F, Sum

from fleetwatch.accounts.audit import record
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.judgement import activity, gpu_segments
from fleetwatch.ledger.judgement.observations import (
    COLUMNS,
    Columns,
    Floats,
    Mask,
)
from fleetwatch.ledger.models import IdlePower, Run
from fleetwatch.ledger.months import policy_plan
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.selectors import current_policy
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.lib.spans import Span
from fleetwatch.telemetry import frames
from fleetwatch.telemetry.services import touch_hours

# conditions of the runs that it is learned from: nobody's first, a holder's context draws more
LEARNED_FROM = ("free", "quiet")
PERCENTILE = 5
LEAST_MS = 900_000  # of such time with its power read
LOOKS_BACK_MS = 24 * HOUR_MS  # from the node's newest window
MOST_OF_LIMIT = 0.3  # bare boards draw 8 to 18 % of their limit: more is no idle power
LEAST_W = 1.0  # what an admin may say
MOST_W = 2000.0


class IdlePowerError(ValueError):
    """Why an idle power is not taken."""


def learn(now: datetime, limit: int) -> dict[str, int]:
    """How many GPUs' idle power was learned, of those that no catalogue, admin or earlier run
    knows; at most `limit` are looked at.
    """
    did = {"looked": 0, "learned": 0}
    _, policy = current_policy()
    until_ms = policy_plan.frontier().until_ms
    for node, gpus in groupby(_candidates(limit), key=lambda gpu: gpu.node):
        last_ms = node.last_ms or 0
        windows = frames.read_windows(node.pk, last_ms - LOOKS_BACK_MS, last_ms, COLUMNS)
        for gpu in gpus:
            did["looked"] += 1
            row = _learned(gpu, windows.where(windows.gpu_id == gpu.pk), policy)
            if row is not None:
                row.created_at = now
                _put_in_force(row, until_ms=until_ms)
                did["learned"] += 1
    return did


def read_watts(text: str) -> float:
    """The watts that somebody typed. Raises IdlePowerError for what is no number."""
    try:
        return float(text)
    except ValueError as error:
        raise IdlePowerError(
            f"an idle power is a number of watts, like 62.5, not {text[:20]!r}"
        ) from error


def set_by_hand(uuid: str, watts: float, *, by: str, now: datetime) -> None:
    """From now on the GPU is judged by these watts, with all of its open hours.

    Raises IdlePowerError.
    """
    if not LEAST_W <= watts <= MOST_W:
        raise IdlePowerError(f"an idle power is {LEAST_W:g} to {MOST_W:g} W")
    gpus = _whole_gpus(uuid)
    _, policy = current_policy()
    for gpu in gpus:
        if gpu.limit_w and watts > policy.work_limit_ratio * gpu.limit_w:
            raise IdlePowerError(
                f"an idle power is at most {policy.work_limit_ratio:g} of the board's limit of"
                f" {gpu.limit_w:g} W"
            )
    until_ms = policy_plan.frontier().until_ms
    with transaction.atomic():
        record("policy.idle_power", uuid, watts=watts)
        for gpu in gpus:
            row = IdlePower(gpu=gpu, watts=watts, set_by=by, created_at=now)
            _put_in_force(row, until_ms=until_ms)


def _whole_gpus(uuid: str) -> list[GPU]:
    """The rows of an observed GPU, with each node that it was with. Raises IdlePowerError for one
    that is not whole, or was never observed.
    """
    rows = GPU.objects.filter(uuid=uuid, first_ms__isnull=False)
    gpus = list(rows.select_related("node", "model"))
    if not gpus:
        raise IdlePowerError(f"no GPU {uuid} was ever observed")
    if gpus[0].parent_id is not None:
        raise IdlePowerError(
            "power is measured of whole GPUs: set it for the one that this instance is a part of"
        )
    return gpus


@transaction.atomic
def _put_in_force(row: IdlePower, *, until_ms: int) -> None:
    """Keeps the row, for all hours of the GPU that are open, and has them judged again."""
    gpu = row.gpu
    node = row.gpu.node
    row.from_ms = max(gpu.first_ms or 0, until_ms)
    row.save()
    if node.last_ms is not None and row.from_ms < node.last_ms:
        touch_hours(node.pk, [(row.from_ms, node.last_ms)])


def _candidates(limit: int) -> list[GPU]:
    """GPUs of unknown idle power with enough time of one of the conditions, of nobody's the most
    first.
    """
    unknown = GPU.objects.filter(
        parent=None, retired_ms=None, first_ms__isnull=False, model__idle_w=None
    )
    unknown = unknown.exclude(pk__in=IdlePower.objects.values("gpu_id"))
    runs = Run.objects.filter(
        gpu__in=unknown,
        condition__in=LEARNED_FROM,
        start_ms__gte=F("node__last_ms") - LOOKS_BACK_MS,
    )
    enough = (
        runs.values("gpu_id")
        .annotate(quiet_ms=Sum(F("end_ms") - F("start_ms")))
        .filter(quiet_ms__gte=LEAST_MS)
    )
    gpu_ids = enough.order_by("-quiet_ms", "gpu_id").values_list("gpu_id", flat=True)[:limit]
    return list(
        GPU.objects.filter(pk__in=list(gpu_ids))
        .select_related("node", "model")
        .order_by("node_id", "pk")
    )


def _learned(gpu: GPU, windows: frames.Frame, policy: Policy) -> IdlePower | None:
    """None: too little of such time had its power read, or what it drew is too much for idle."""
    since_ms = (gpu.node.last_ms or 0) - LOOKS_BACK_MS
    runs = Run.objects.filter(gpu=gpu, condition__in=LEARNED_FROM, start_ms__gte=since_ms).order_by(
        "start_ms"
    )
    spans: dict[str, list[Span]] = defaultdict(list)
    for condition, start_ms, end_ms in runs.values_list("condition", "start_ms", "end_ms"):
        spans[condition].append((start_ms, end_ms))
    for condition in LEARNED_FROM:
        row = _of_windows(windows, spans[condition], policy)
        limit_w = gpu.limit_w
        if row is not None and (limit_w is None or row.watts <= MOST_OF_LIMIT * limit_w):
            row.gpu = gpu
            row.condition = condition
            return row
    return None


def _of_windows(windows: frames.Frame, spans: Sequence[Span], policy: Policy) -> IdlePower | None:
    """What one GPU's windows that lie in the spans, and show nothing, say; None where they are too
    few.
    """
    is_at_rest = _shows_nothing(windows, policy) & _within(windows, spans)
    power_w = Columns(windows)["power_w"][is_at_rest]
    starts = windows.start_ms[is_at_rest]
    ends = windows.end_ms[is_at_rest]
    if (ends - starts).sum() < LEAST_MS:
        return None
    return IdlePower(
        watts=round(float(np.percentile(power_w, PERCENTILE)), 1),
        readings=len(power_w),
        first_ms=int(starts.min()),
        last_ms=int(ends.max()),
    )


def _shows_nothing(windows: frames.Frame, policy: Policy) -> Mask:
    """Which windows had their power read, and nothing else: also in time that nobody holds a
    counter may be stuck, or somebody may work.
    """
    unread: Floats = np.full(len(windows.gpu_id), np.nan)
    acts = activity.read(windows, idle_w=unread, limit_w=unread, policy=policy)
    is_quiet = acts.evidence.peak <= policy.quiet_max
    has_power = Columns(windows)["power_w"] > 0
    return np.asarray((acts.unseen == 0) & is_quiet & ~acts.evidence.works & has_power)


def _within(windows: frames.Frame, spans: Sequence[Span]) -> Mask:
    """Which windows lie whole in one of the spans (disjoint, ascending)."""
    edges = gpu_segments.edges_of(spans)
    at = np.searchsorted(edges, windows.start_ms, side="right")
    return np.asarray((at % 2 == 1) & (at == np.searchsorted(edges, windows.end_ms)))
