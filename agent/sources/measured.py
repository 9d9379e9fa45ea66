"""What a source read of a GPU, by the names of Reading's fields and in base units, as a reading."""

from typing import Any, Dict, Mapping

from agent.readings import Reading

SLOTS = (
    "util", "memory_util", "memory_used_bytes", "memory_reserved_bytes", "power_w", "energy_j",
    "temperature_c", "memory_temperature_c", "sm_clock_hz", "ecc_uncorrected",
)  # fmt: skip
WHOLE = frozenset(("memory_used_bytes", "memory_reserved_bytes", "ecc_uncorrected"))


def reading_of(values: Mapping[str, float], *, at_ms: int, means: Mapping[str, float]) -> Reading:
    """The reading; other slots are left out, and what has no value was not read."""
    read: Dict[str, Any] = {
        slot: round(value) if slot in WHOLE else value
        for slot, value in values.items()
        if slot in SLOTS
    }
    return Reading(at_ms, means=means, **read)


def throttle_ratios(
    before: Mapping[str, float], after: Mapping[str, float], elapsed_s: float, *, most: float
) -> Dict[str, float]:
    """Shares of the time between two readings of the counters that clocks were held down, by
    column; none after a reset of them, or for a counter that grew by more than `most` times the
    time.
    """
    grown = {column: after[column] - before[column] for column in after if column in before}
    return {
        column: min(1.0, seconds / elapsed_s)
        for column, seconds in grown.items()
        if elapsed_s > 0 and 0 <= seconds <= most * elapsed_s
    }
