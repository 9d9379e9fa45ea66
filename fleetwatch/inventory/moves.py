"""GPUs that change nodes: the stays that a batch's windows belong to, and when a move is believed.

A move is believed when the former node was silent about the GPU for ten minutes by the hub's clock,
whether it reports others meanwhile (it let go of this one) or nothing, or an admin says so; never
by windows ahead of now, never over time that another node observed. Windows that are not believed
are kept with a disputed stay: they count as soon as the move is believed.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import gt, lt

import structlog

from fleetwatch.inventory import stays
from fleetwatch.inventory.extents import changed as changed_time
from fleetwatch.inventory.models import GPU, Stay
from fleetwatch.inventory.stays import Reported
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import execute

# One row per stay that became longer or shorter. Again: safe, it says where they end.
SET_ENDS = """
UPDATE inventory_stay AS stay
SET last_ms = given.last_ms
FROM unnest(%(ids)s::bigint[], %(lasts)s::bigint[]) AS given (id, last_ms)
WHERE stay.id = given.id
"""

# (row id, is_believed, first_ms)
StayKey = tuple[int, bool, int]

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Life:
    """Where one GPU was when, for the node of its row `gpu`: the GPU's row with each node, and what
    each says of it, by row id.

    It changes as windows are taken; `stored` and `capacity_before` are as they were read.
    """

    gpu: GPU
    rows: dict[int, GPU]
    believed: dict[int, list[Span]] = field(default_factory=dict)
    disputed: dict[int, list[Span]] = field(default_factory=dict)
    stored: dict[StayKey, Stay] = field(default_factory=dict)
    capacity_before: dict[int, list[Span]] = field(default_factory=dict)

    def reported_by(self, row_id: int) -> Reported:
        """What the row's node says beside what all others say."""
        others = [
            span
            for other_id, spans in self.believed.items()
            if other_id != row_id
            for span in spans
        ]
        return Reported(
            self.believed.get(row_id, []), self.disputed.get(row_id, []), sorted(others)
        )

    def take(self, windows: Iterable[Span], *, may_move: bool) -> list[Span]:
        """When the node is believed to have the GPU with these windows more; kept here."""
        reported = self.reported_by(self.gpu.pk).take(windows, may_move=may_move)
        self.believed[self.gpu.pk] = reported.own
        self.disputed[self.gpu.pk] = reported.disputed
        return reported.own

    def holder(self) -> GPU | None:
        """Its row with the node that reported it last; None before its first window."""
        ends = {row_id: spans[-1][1] for row_id, spans in self.believed.items() if spans}
        return self.rows[max(ends, key=lambda row_id: ends[row_id])] if ends else None

    def capacities(self) -> dict[int, list[Span]]:
        """When it was capacity of each node, by row id."""
        spans = {}
        for row_id, row in self.rows.items():
            reported = self.reported_by(row_id)
            spans[row_id] = stays.capacity(reported.own, reported.others, row.capacity_end_ms)
        return spans

    def changes(self) -> Iterator[tuple[int, list[Span]]]:
        """(node id, the time in which the GPU was capacity there and is not, or the other way)."""
        for row_id, spans in self.capacities().items():
            yield self.rows[row_id].node_id, changed_time(self.capacity_before[row_id], spans)

    def ends(self) -> Iterator[tuple[StayKey, int]]:
        """Each stay and its end."""
        for is_believed, by_row in ((True, self.believed), (False, self.disputed)):
            for row_id, spans in by_row.items():
                for first_ms, last_ms in spans:
                    yield (row_id, is_believed, first_ms), last_ms

    def stay(self, row_id: int, is_believed: bool, first_ms: int, last_ms: int) -> Stay:
        """A stay that is not stored yet."""
        return Stay(
            gpu=self.rows[row_id],
            uuid=self.gpu.uuid,
            first_ms=first_ms,
            last_ms=last_ms,
            is_believed=is_believed,
        )


def lives(gpus: Iterable[GPU]) -> dict[int, Life]:
    """The lives of the rows' GPUs, by the rows' ids; these very objects are in them."""
    by_uuid = {gpu.uuid: Life(gpu, {gpu.pk: gpu}) for gpu in gpus}
    stored = Stay.objects.filter(uuid__in=list(by_uuid)).select_related("gpu__node")
    for stay in stored.order_by("first_ms"):
        life = by_uuid[stay.uuid]
        life.rows.setdefault(stay.gpu_id, stay.gpu)
        spans = life.believed if stay.is_believed else life.disputed
        spans.setdefault(stay.gpu_id, []).append((stay.first_ms, stay.last_ms))
        life.stored[stay.gpu_id, stay.is_believed, stay.first_ms] = stay
    for life in by_uuid.values():
        life.capacity_before = life.capacities()
    return {life.gpu.pk: life for life in by_uuid.values()}


def may_leave(gpu: GPU, received_ms: int) -> bool:
    """Whether the GPU may be elsewhere than with the row's node: that is silent about it."""
    newest_ms = gpu.newest_ms
    return newest_ms is None or stays.is_silent(newest_ms, received_ms)


def place(life: Life, windows: list[Span], *, received_ms: int) -> list[Span]:
    """When the node is believed to have the GPU with these windows; `life` is brought up to date.

    Where a move is believed the former node must be locked and its rows settled (steady.py).
    """
    gpu = life.gpu
    holder = life.holder()
    may_move = holder is None or (
        not stays.is_ahead(windows, received_ms) and may_leave(holder, received_ms)
    )
    own = life.take(windows, may_move=may_move)
    if holder is not None and holder is not gpu and life.holder() is gpu:
        log.info("gpu moved", gpu=gpu.uuid, was=holder.node.name, now=gpu.node.name)
    return own


def why_refused(life: Life) -> str:
    """Why windows of the GPU do not count (yet), for whoever sent them."""
    holder = life.holder()
    if holder is None or holder is life.gpu:
        return "another node observed this GPU at that time"
    return (
        f"node {holder.node.name} reports this GPU too; its windows are kept, and count once that"
        f" node is silent about it for {stays.GAP_MS // 60_000} minutes, or an admin says that it"
        " moved"
    )


def give(life: Life) -> bool:
    """Whether the GPU is with the node now, since its first disputed window: an admin says so.
    `life` is brought up to date.

    What other nodes observed from then on is disputed, and the GPU is this node's until it falls
    silent.
    """
    disputed = life.disputed.get(life.gpu.pk)
    if not disputed:
        return False
    since_ms = disputed[0][0]
    for row_id in life.rows.keys() - {life.gpu.pk}:
        spans = life.believed.get(row_id, [])
        later = [(max(start, since_ms), end) for start, end in spans if end > since_ms]
        life.believed[row_id] = [
            (start, min(end, since_ms)) for start, end in spans if start < since_ms
        ]
        life.disputed[row_id] = stays.joined([*life.disputed.get(row_id, []), *later])
    return take_over(life)


def take_over(life: Life) -> bool:
    """Whether the node's disputed windows of the GPU count now: `life` is brought up to date."""
    before = life.believed.get(life.gpu.pk, [])
    return life.take([], may_move=True) != before


def settle_rows(life: Life) -> list[GPU]:
    """The rows whose first and last window, or retirement, changed with the stays; not
    saved yet.
    """
    return [gpu for row_id, gpu in life.rows.items() if _settle_row(gpu, life.reported_by(row_id))]


def _settle_row(gpu: GPU, reported: Reported) -> bool:
    was = (gpu.first_ms, gpu.last_ms, gpu.retired_ms)
    if not reported.own:
        gpu.first_ms = gpu.last_ms = None
        return was[0] is not None
    gpu.first_ms = reported.own[0][0]
    gpu.last_ms = reported.own[-1][1]
    if reported.is_elsewhere:
        gpu.retired_ms = gpu.last_ms
    elif gpu.retired_ms is not None and gpu.last_ms > gpu.retired_ms:
        gpu.retired_ms = None
    return was != (gpu.first_ms, gpu.last_ms, gpu.retired_ms)


def write_stays(lives: Iterable[Life]) -> None:
    """Stores what became of the stays."""
    gone: list[int] = []
    new: list[Stay] = []
    kept: list[tuple[Stay, int]] = []
    for life in lives:
        ends = dict(life.ends())
        gone += [stay.pk for key, stay in life.stored.items() if key not in ends]
        new += [life.stay(*key, ends[key]) for key in ends.keys() - life.stored.keys()]
        kept += [(stay, ends[key]) for key, stay in life.stored.items() if key in ends]
    # in this order: a stay that was cut makes room before another takes it
    Stay.objects.filter(pk__in=gone).delete()
    _set_ends(kept, lt)
    _set_ends(kept, gt)
    Stay.objects.bulk_create(new)


def _set_ends(ends: Iterable[tuple[Stay, int]], is_due: Callable[[int, int], bool]) -> None:
    """Writes those new ends that compare so with the stored ones."""
    if due := [(stay.pk, end) for stay, end in ends if is_due(end, stay.last_ms)]:
        ids, lasts = zip(*due, strict=True)
        execute(SET_ENDS, {"ids": list(ids), "lasts": list(lasts)})
