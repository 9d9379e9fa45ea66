"""What the driver told of a GPU before it failed, as lines of a message."""

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from fleetwatch.diagnosis.findings.fault_history import FaultHistory, Xid
from fleetwatch.lib.intervals import from_ms
from fleetwatch.notify import wording


def fault_lines(
    history: FaultHistory, wrong: str, zone: ZoneInfo, now_ms: int
) -> tuple[tuple[str, str], ...]:
    """What led to the fault, and when it was so before, in words; `wrong` names the fault: its own
    XID did not lead to it.
    """

    def at(moment_ms: int) -> str:
        return wording.dated(from_ms(moment_ms), zone, now=from_ms(now_ms))

    led = ", ".join(f"XID {each.code} at {at(each.at_ms)}" for each in _led(history, wrong))
    before = ", ".join(at(each) for each in history.before_ms)
    every = (
        ("What led to it", led if len(history.chain) > 1 else ""),
        ("Before", f"XID {history.code} at {before}" if before else ""),
    )
    return tuple((label, value) for label, value in every if value)


def _led(history: FaultHistory, wrong: str) -> Sequence[Xid]:
    is_own = f"XID {history.code}" in wrong
    return history.chain[:-1] if is_own else history.chain
