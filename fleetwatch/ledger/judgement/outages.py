"""When a GPU cannot work, by what the driver and the platform said, and by its own activity
afterwards. Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from fleetwatch.ledger.judgement import activity, gpu_segments
from fleetwatch.ledger.judgement.observations import FOREVER_MS, Capacity, Ints, Outage, Windows
from fleetwatch.ledger.policy import Policy

# XIDs after which only a reset or a reboot helps (docs.nvidia.com/deploy/xid-errors), and 79:
# fallen off the bus.
RESET_XIDS = frozenset(
    (48, 62, 64, 74, 79, 95, 109, 119, 120, 136, 140, 143, *range(144, 151), 156, 158)
)
DEVICE = "device"
DRIVER = "driver"
DRAIN = "drain"
BEGINNINGS = {
    "gpu_lost": DEVICE,
    "xid": DEVICE,
    "recovery_action": DEVICE,
    "driver_missing": DRIVER,
    "driver_mismatch": DRIVER,
    "drained": DRAIN,
}
ENDS = {"gpu_ok": DEVICE, "driver_ok": DRIVER, "resumed": DRAIN}
# Kinds that always say whether a GPU works; of XIDs only RESET_XIDS do.
OF_WORK = frozenset(
    kind for kind, of in (BEGINNINGS | ENDS).items() if of == DEVICE and kind != "xid"
)
ACTIVITY_COLUMNS = (
    "util_mean", "util_max", "util_zero_fraction", "gr_engine_active", "sm_active", "sm_active_max",
    "process_sm_ratio", "spin_fraction", "tensor_active", "dram_active", "fp64_active", "power_w",
    "memory_used_bytes", "process_count", "encoder_ratio", "decoder_ratio", "jpeg_ratio",
    "ofa_ratio",
)  # fmt: skip


class Event(Protocol):
    """Something said about a GPU (gpu_id None: about the node). telemetry.models.HealthEvent is
    one.
    """

    @property
    def gpu_id(self) -> int | None: ...
    @property
    def at_ms(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def code(self) -> int | None: ...


def by_events(gpu_id: int, events: Iterable[Event], boots: Sequence[int]) -> list[Outage]:
    """The GPU's outages as events and reboots tell them, by start; FOREVER_MS where no end was
    told.
    """
    open_since: dict[str, tuple[int, str]] = {}
    outages: list[Outage] = []
    for at_ms, is_down, family, reason in _meanings(gpu_id, events, boots):
        if is_down:
            open_since.setdefault(family, (at_ms, reason))
        elif family in open_since:
            start, why = open_since.pop(family)
            outages.append(Outage(start, at_ms, why))
    outages += [Outage(start, FOREVER_MS, reason) for start, reason in open_since.values()]
    return sorted(
        (outage for outage in outages if outage.start_ms < outage.end_ms),
        key=lambda outage: (outage.start_ms, outage.reason),
    )


def _meanings(
    gpu_id: int, events: Iterable[Event], boots: Sequence[int]
) -> list[tuple[int, bool, str, str]]:
    """(when, whether it is down then, what is, why) in order of time.

    Of things said at one instant an end comes first: what is down then went down after it.
    """
    of_events = [
        (event.at_ms, bool(meaning[1]), *meaning)
        for event in events
        if event.gpu_id in (None, gpu_id) and (meaning := _meaning(event))
    ]
    of_boots = [(boot, False, family, "") for boot in boots for family in (DEVICE, DRIVER, DRAIN)]
    return sorted(of_events + of_boots)


def _meaning(event: Event) -> tuple[str, str] | None:
    """(what it is about, why that is down; empty = that works again); None when the event says
    nothing of it.
    """
    if event.kind == "gpu_lost" and event.gpu_id is None:
        # lost before its agent began: which one is nobody's word, and none of the others
        return None
    if event.kind in ENDS:
        return ENDS[event.kind], ""
    if event.kind == "recovery_action" and event.code == 0:
        return DEVICE, ""  # field 230 says 0: nothing to recover from
    if event.kind == "xid":
        # an XID of no GPU accuses none
        is_reset = event.code in RESET_XIDS and event.gpu_id is not None
        return (DEVICE, f"xid_{event.code}") if is_reset else None
    return (BEGINNINGS[event.kind], event.kind) if event.kind in BEGINNINGS else None


def says_it_works(event: Event) -> bool:
    """Whether the event says that its GPU works again."""
    return _meaning(event) == (DEVICE, "")


def ended_by_activity(outage: Outage, *, gpu: Capacity, windows: Windows, policy: Policy) -> Outage:
    """The outage, cut where unbroken activity of `revival_s` begins: it evidently works.

    A drain is not ended so.
    """
    rows = _rows_beside(windows, gpu.gpu_id, outage)
    if outage.is_drain or len(rows) == 0:
        return outage
    idle_w, limit_w = activity.boards(windows, [gpu])
    acts = activity.read(windows, idle_w=idle_w, limit_w=limit_w, policy=policy)
    is_seen = acts.unseen == 0
    pieces = gpu_segments.resolve(windows, rows=rows, is_seen=is_seen)
    row = pieces.row
    start = _first_long_stretch(
        np.maximum(pieces.start_ms, outage.start_ms),
        np.minimum(pieces.end_ms, outage.end_ms),
        is_active=acts.working[row] > policy.blip_max,
        is_seen=is_seen[row],
        bridge_ms=policy.bridge_windows * (windows.end_ms - windows.start_ms)[row],
        needed_ms=round(1000 * policy.revival_s),
    )
    return outage if start is None else replace(outage, end_ms=start, is_revived=True)


def _rows_beside(windows: Windows, gpu_id: int, outage: Outage) -> Ints:
    is_during = (windows.end_ms > outage.start_ms) & (windows.start_ms < outage.end_ms)
    return np.flatnonzero((windows.gpu_id == gpu_id) & is_during)


def _first_long_stretch(
    start: Ints,
    end: Ints,
    *,
    is_active: np.ndarray,
    is_seen: np.ndarray,
    bridge_ms: np.ndarray,
    needed_ms: int,
) -> int | None:
    """Where the first stretch of activity of that length begins, gaps within `bridge_ms` allowed;
    None without one.
    """
    begun: int | None = None
    ended = 0
    allowed = 0.0
    for at in np.flatnonzero(is_seen).tolist():
        if not is_active[at]:
            begun = None
            continue
        if begun is None or start[at] - ended > allowed:
            begun = int(start[at])
        ended = int(end[at])
        allowed = float(bridge_ms[at])
        if ended - begun >= needed_ms:
            return begun
    return None
