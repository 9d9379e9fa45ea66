"""Every condition, one file each; nothing else knows their names."""

from collections.abc import Mapping
from typing import Any

from fleetwatch.alerts.breach import Breach, Condition, stored_breach
from fleetwatch.alerts.conditions import job_idle

CONDITIONS: tuple[Condition, ...] = (job_idle.CONDITION,)


def condition(name: str) -> Condition:
    """The condition of that name. Raises ValueError when there is none."""
    for each in CONDITIONS:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in CONDITIONS)
    raise ValueError(f"{name!r} is no condition; known: {names}")


def breach_of(watch: Condition, stored: Mapping[str, Any]) -> Breach:
    """The breach in an incident's row."""
    return stored_breach(stored) if "subject" in stored else watch.read(stored)
