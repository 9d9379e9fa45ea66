"""Every condition, one file each; nothing else knows their names."""

from fleetwatch.alerts.breach import Condition
from fleetwatch.alerts.conditions import (
    agent_old,
    budget_forecast,
    budget_spent,
    channel_dead,
    clock_off,
    finding_saving,
    free_while_waiting,
    gpu_cannot_work,
    gpu_idle,
    gpu_memory_errors,
    gpu_slowed,
    held_by_no_job,
    hub_behind,
    job_hung,
    job_idle,
    low_utilisation,
    node_silent,
    spinning,
    stalled,
    underused,
    unusual_spending,
    waste_of_person,
    waste_of_team,
)

CONDITIONS: tuple[Condition, ...] = (
    job_idle.CONDITION,
    gpu_idle.CONDITION,
    job_hung.CONDITION,
    low_utilisation.CONDITION,
    stalled.CONDITION,
    spinning.CONDITION,
    underused.CONDITION,
    finding_saving.CONDITION,
    node_silent.CONDITION,
    clock_off.CONDITION,
    agent_old.CONDITION,
    held_by_no_job.CONDITION,
    free_while_waiting.CONDITION,
    gpu_cannot_work.CONDITION,
    gpu_slowed.CONDITION,
    gpu_memory_errors.CONDITION,
    budget_spent.CONDITION,
    budget_forecast.CONDITION,
    unusual_spending.CONDITION,
    waste_of_person.CONDITION,
    waste_of_team.CONDITION,
    hub_behind.CONDITION,
    channel_dead.CONDITION,
)


def condition(name: str) -> Condition:
    """The condition of that name. Raises ValueError when there is none."""
    for each in CONDITIONS:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in CONDITIONS)
    raise ValueError(f"{name!r} is no condition; known: {names}")
