"""GPUs that change nodes: the stays that a batch's windows belong to, and when a move is believed.

A move is believed when the former node was silent about the GPU for ten minutes by the hub's clock,
whether it reports others meanwhile (it let go of this one) or nothing, or an admin says so; never
by windows ahead of now, never over time that another node observed. Windows that are not believed
are kept with a disputed stay: they count as soon as the move is believed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import structlog
from django.db.models import Q

from fleetwatch.inventory import stays
from fleetwatch.inventory.models import GPU, Stay
from fleetwatch.inventory.stays import Reported
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import execute

# One row per stay that became longer or shorter. Again: safe, it says where they end.
SET_ENDS = """
UPDATE inventory_stay AS stay
SET last_ms = given.last_ms
FROM unnest(%(gpus)s::bigint[], %(firsts)s::bigint[], %(lasts)s::bigint[], %(believed)s::boolean[])
    AS given (gpu_id, first_ms, last_ms, is_believed)
WHERE stay.gpu_id = given.gpu_id AND stay.first_ms = given.first_ms
AND stay.is_believed = given.is_believed
"""

# (row id, is_believed, first_ms)
StayKey = tuple[int, bool, int]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Life:
    """Where the GPU with one UUID was when: its row with each node, and what each says of it, by
    row id.
    """

    rows: dict[int, GPU]
    believed: dict[int, list[Span]]
    disputed: dict[int, list[Span]]

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

    def take(self, gpu: GPU, windows: Iterable[Span], *, may_move: bool) -> Reported:
        """What the row's node says with these windows more; kept here."""
        reported = self.reported_by(gpu.pk).take(windows, may_move=may_move)
        self.believed[gpu.pk] = reported.own
        self.disputed[gpu.pk] = reported.disputed
        return reported

    def reported(self) -> dict[int, Reported]:
        """What each row's node says, by row id."""
        return {row_id: self.reported_by(row_id) for row_id in self.rows}

    def holder(self) -> GPU | None:
        """Its row with the node that reported it last; None before its first window."""
        ends = {row_id: spans[-1][1] for row_id, spans in self.believed.items() if spans}
        return self.rows[max(ends, key=lambda row_id: ends[row_id])] if ends else None

    def capacities(self) -> dict[int, list[Span]]:
        """When it was capacity of each node, by row id."""
        return {
            row_id: stays.capacity(reported.own, reported.others, self.rows[row_id].capacity_end_ms)
            for row_id, reported in self.reported().items()
        }


def lives(uuids: Iterable[str], own: Iterable[GPU] = ()) -> dict[str, Life]:
    """The lives of the GPUs with these UUIDs. Of rows in `own` these very objects are in them."""
    by_uuid = {uuid: Life({}, {}, {}) for uuid in uuids}
    for gpu in own:
        by_uuid[gpu.uuid].rows[gpu.pk] = gpu
    for stay in (
        Stay.objects.filter(uuid__in=list(by_uuid)).select_related("gpu__node").order_by("first_ms")
    ):
        life = by_uuid[stay.uuid]
        life.rows.setdefault(stay.gpu_id, stay.gpu)
        spans = life.believed if stay.is_believed else life.disputed
        spans.setdefault(stay.gpu_id, []).append((stay.first_ms, stay.last_ms))
    return by_uuid


def may_leave(gpu: GPU, received_ms: int) -> bool:
    """Whether the GPU may be elsewhere than with the row's node: that is silent about it."""
    newest_ms = gpu.newest_ms
    return newest_ms is None or stays.is_silent(newest_ms, received_ms)


def place(life: Life, gpu: GPU, windows: list[Span], *, received_ms: int) -> Reported:
    """What the GPU's node says of it with these windows; `life` is brought up to date.

    Where a move is believed the former node must be locked and its rows settled (steady.py).
    """
    holder = life.holder()
    may_move = holder is None or (
        not stays.is_ahead(windows, received_ms) and may_leave(holder, received_ms)
    )
    reported = life.take(gpu, windows, may_move=may_move)
    if holder is not None and holder is not gpu and life.holder() is gpu:
        log.info("gpu moved", gpu=gpu.uuid, was=holder.node.name, now=gpu.node.name)
    return reported


def why_refused(life: Life, gpu: GPU) -> str:
    """Why windows of the GPU do not count (yet), for whoever sent them."""
    holder = life.holder()
    if holder is None or holder is gpu:
        return "another node observed this GPU at that time"
    return (
        f"node {holder.node.name} reports this GPU too; its windows are kept, and count once that"
        f" node is silent about it for {stays.GAP_MS // 60_000} minutes, or an admin says that it"
        " moved"
    )


def give(life: Life, gpu: GPU) -> bool:
    """Whether the GPU is with the row's node now, since its first disputed window: an admin says
    so. `life` is brought up to date.

    What other nodes observed from then on is disputed, and the GPU is this node's until it falls
    silent.
    """
    disputed = life.disputed.get(gpu.pk)
    if not disputed:
        return False
    since_ms = disputed[0][0]
    for row_id in life.rows.keys() - {gpu.pk}:
        spans = life.believed.get(row_id, [])
        later = [(max(start, since_ms), end) for start, end in spans if end > since_ms]
        life.believed[row_id] = [
            (start, min(end, since_ms)) for start, end in spans if start < since_ms
        ]
        life.disputed[row_id] = stays.joined([*life.disputed.get(row_id, []), *later])
    return take_over(life, gpu)


def take_over(life: Life, gpu: GPU) -> bool:
    """Whether a node's disputed windows of the GPU count now: `life` is brought up to date."""
    before = life.reported_by(gpu.pk).own
    return life.take(gpu, [], may_move=True).own != before


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


def write_stays(
    before: Mapping[int, Reported], after: Mapping[int, Reported], rows: Mapping[int, GPU]
) -> None:
    """Stores what became of the stays of the rows, by row id."""
    was = _ends(before)
    now = _ends(after)
    # in this order: a stay that was cut makes room before another takes it
    _forget(was.keys() - now.keys())
    kept = now.keys() & was.keys()
    _set_ends([(*stay, now[stay]) for stay in kept if now[stay] < was[stay]])
    _set_ends([(*stay, now[stay]) for stay in kept if now[stay] > was[stay]])
    Stay.objects.bulk_create(
        Stay(
            gpu=rows[row_id],
            uuid=rows[row_id].uuid,
            first_ms=first_ms,
            last_ms=last_ms,
            is_believed=is_believed,
        )
        for (row_id, is_believed, first_ms), last_ms in now.items()
        if (row_id, is_believed, first_ms) not in was
    )


def _forget(stays: Collection[StayKey]) -> None:
    if stays:
        any_of = [
            Q(gpu_id=row_id, is_believed=is_believed, first_ms=first_ms)
            for row_id, is_believed, first_ms in stays
        ]
        Stay.objects.filter(reduce(or_, any_of)).delete()


def _ends(reported: Mapping[int, Reported]) -> dict[StayKey, int]:
    """Each stay -> its last_ms."""
    return {
        (row_id, is_believed, first_ms): last_ms
        for row_id, of_row in reported.items()
        for is_believed, spans in ((True, of_row.own), (False, of_row.disputed))
        for first_ms, last_ms in spans
    }


def _set_ends(ends: Sequence[tuple[int, bool, int, int]]) -> None:
    if not ends:
        return
    columns = map(list, zip(*ends, strict=True))
    execute(SET_ENDS, dict(zip(("gpus", "believed", "firsts", "lasts"), columns, strict=True)))
