"""What the driver told of a GPU before it failed, as lines of a message."""

from zoneinfo import ZoneInfo

from fleetwatch.diagnosis.findings.fault_history import FaultHistory
from fleetwatch.lib.intervals import from_ms
from fleetwatch.notify import wording


def fault_lines(history: FaultHistory, zone: ZoneInfo, now_ms: int) -> tuple[tuple[str, str], ...]:
    """What led to the fault, and when it was so before, in words."""

    def at(moment_ms: int) -> str:
        return wording.dated(from_ms(moment_ms), zone, now=from_ms(now_ms))

    led = ", ".join(f"XID {each.code} at {at(each.at_ms)}" for each in history.chain)
    before = ", ".join(at(each) for each in history.before_ms)
    every = (
        ("What led to it", led if len(history.chain) > 1 else ""),
        ("Before", f"XID {history.code} at {before}" if before else ""),
    )
    return tuple((label, value) for label, value in every if value)
