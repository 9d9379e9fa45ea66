"""What a source read of a GPU, by the names of Reading's fields and in base units, as a reading."""

from dataclasses import fields
from typing import Any, Dict

from agent.readings import GPUInfo, Reading, Values
from agent.wire import WINDOW_COLUMNS

SLOTS = frozenset(field.name for field in fields(Reading))
LIMITS = frozenset(field.name for field in fields(GPUInfo))
# the other columns of the wire: averages since the reading before
MEANS = frozenset(WINDOW_COLUMNS) - SLOTS - LIMITS
WHOLE = frozenset(("memory_used_bytes", "memory_reserved_bytes", "ecc_uncorrected"))


def reading_of(values: Values, *, at_ms: int, ratios: Values) -> Reading:
    """The reading, with these averages besides; what has no value was not read, and what is
    neither measured nor averaged is left out.
    """
    measured: Dict[str, Any] = {
        slot: round(value) if slot in WHOLE else value
        for slot, value in values.items()
        if slot in SLOTS
    }
    means = {slot: value for slot, value in values.items() if slot in MEANS}
    means.update(ratios)
    return Reading(at_ms, means=means, **measured)


def throttle_ratios(before: Values, after: Values, elapsed_s: float, *, most: float) -> Values:
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
