"""What a rule can watch for: one line per condition, and nothing elsewhere knows their names."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from fleetwatch.alerts import job_idle
from fleetwatch.alerts.idle_job import Facts


@dataclass(frozen=True, slots=True)
class Condition:
    """Who breaches a threshold now, and why a breach that is no longer listed is over (None: nobody
    can know).
    """

    name: str
    label: str
    unit: str
    low: float
    high: float
    breaches: Callable[[float, datetime], list[Facts]]
    ended: Callable[[Facts, datetime], job_idle.Ended | None]
    no_data_since_ms: Callable[[Facts, datetime], int | None]


CONDITIONS = (
    Condition(
        "job_idle",
        label="Job idle for",
        unit="minutes",
        low=1,
        high=7 * 24 * 60,
        breaches=job_idle.breaches,
        ended=job_idle.ended,
        no_data_since_ms=job_idle.no_data_since_ms,
    ),
)


def condition(name: str) -> Condition:
    """The condition of that name. Raises ValueError when there is none."""
    for each in CONDITIONS:
        if each.name == name:
            return each
    raise ValueError(
        f"{name!r} is no condition; known: {', '.join(each.name for each in CONDITIONS)}"
    )
