"""What the driver told of a GPU before it failed: the XIDs that led to it, and whether the same was
told before.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import DAY_MS, HOUR_MS, MINUTE_MS
from fleetwatch.telemetry.models import HealthEvent

LOOKS_BACK_MS = 14 * DAY_MS
CHAIN_MS = DAY_MS  # before a fault: the XIDs of its GPU in that time are what led to it
NOTED_MS = 5 * MINUTE_MS  # after it: drivers say why a little later
APART_MS = HOUR_MS  # what is told again sooner is of one fault
ORDINALS = ("second", "third", "fourth", "fifth")


@dataclass(frozen=True, slots=True)
class Xid:
    """An XID, and when it was told."""

    at_ms: int
    code: int


@dataclass(frozen=True, slots=True)
class FaultHistory:
    """Of one fault the XIDs that led to it, the oldest first, and when the last of them was told
    in the LOOKS_BACK_MS before that.
    """

    since_ms: int
    chain: tuple[Xid, ...] = ()
    before_ms: tuple[int, ...] = ()

    @property
    def code(self) -> int | None:
        """The XID that it ended in; None where none was told."""
        return self.chain[-1].code if self.chain else None

    @property
    def often(self) -> str:
        """How often it was so, in words; "" of the first time."""
        if not self.before_ms:
            return ""
        days = max(1, round((self.since_ms - self.before_ms[0]) / DAY_MS))
        count = len(self.before_ms) - 1
        time = f"{ORDINALS[count]} time" if count < len(ORDINALS) else f"{count + 2} times"
        return f"{time} in {days} day{'s' * (days != 1)}"


def xids_by_gpu(gpus: Iterable[GPU], start_ms: int, end_ms: int) -> Mapping[int, list[Xid]]:
    """By the id of each GPU its XIDs of [start_ms, end_ms), the oldest first."""
    every = list(gpus)
    rows = HealthEvent.objects.filter(
        # by node: events are kept by node and time
        node__in={gpu.node_id for gpu in every},
        gpu__in=every,
        kind="xid",
        code__isnull=False,
        at_ms__gte=start_ms,
        at_ms__lt=end_ms,
    )
    by_gpu: dict[int, list[Xid]] = defaultdict(list)
    for gpu_id, at_ms, code in rows.order_by("at_ms", "pk").values_list("gpu", "at_ms", "code"):
        by_gpu[gpu_id].append(Xid(at_ms, code or 0))
    return by_gpu


def history(xids: Sequence[Xid], since_ms: int) -> FaultHistory:
    """Of a fault since then, by what was told of its GPU."""
    chain = tuple(each for each in xids if since_ms - CHAIN_MS <= each.at_ms <= since_ms + NOTED_MS)
    if not chain or chain[-1].at_ms < since_ms - NOTED_MS:
        return FaultHistory(since_ms, chain)
    same = [each.at_ms for each in xids if each.code == chain[-1].code and each not in chain]
    return FaultHistory(since_ms, chain, tuple(_apart(same)))


def often_by_gpu(gpus: Iterable[GPU], starts_ms: Mapping[int, int]) -> dict[int, str]:
    """By its id of each GPU with a fault that began then how often it was so, in words; only of
    those that had it before.
    """
    if not starts_ms:
        return {}
    xids = xids_by_gpu(
        gpus, min(starts_ms.values()) - LOOKS_BACK_MS, max(starts_ms.values()) + NOTED_MS + 1
    )
    often = {pk: history(xids.get(pk, ()), at_ms).often for pk, at_ms in starts_ms.items()}
    return {pk: words for pk, words in often.items() if words}


def _apart(moments: Iterable[int]) -> Iterator[int]:
    """Those that are no repetition of the one before."""
    last_ms = None
    for at_ms in moments:
        if last_ms is None or at_ms - last_ms >= APART_MS:
            yield at_ms
        last_ms = at_ms
