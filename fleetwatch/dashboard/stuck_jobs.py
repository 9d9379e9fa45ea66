"""Since when a job is stuck, and for how long. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from fleetwatch.diagnosis.causes import STUCK
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.lib.intervals import clock_ms

WHOLE = 0.9  # of the time between its ends: with more gaps it was stuck several times


@dataclass(frozen=True, slots=True)
class Stuck:
    """One time without a break."""

    since_ms: int
    lasted_ms: int


def stuck(lines: Sequence[Line], end_ms: int | None) -> Stuck | None:
    """Of a job with these findings, which ended then; None where it is not stuck, or was several
    times.
    """
    line = next((line for line in lines if line.finding.cause in STUCK), None)
    if line is None or not line.gpus:
        return None
    since_ms = line.finding.first_ms
    last_ms = min(line.finding.last_ms, end_ms or line.finding.last_ms)
    is_whole = line.caused.held_ms >= WHOLE * (last_ms - since_ms) * line.gpus
    return Stuck(since_ms, clock_ms(since_ms, last_ms)) if is_whole and last_ms > since_ms else None
