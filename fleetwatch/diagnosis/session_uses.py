"""Whether people use an interactive job, by its pauses. Pure."""

from fleetwatch.diagnosis.cause import Facts

NEVER = "never"
LEFT = "left"  # not any more
ON_AND_OFF = "on and off"
LEFT_S = 7200.0  # at rest for so long at the end: longer than a meal or a meeting


def use_of(facts: Facts) -> str:
    """NEVER, LEFT or ON_AND_OFF; "" of other jobs, and where that can't be told: of a session that
    rests for less than LEFT_S since it was used first it is not known whether anybody comes back.
    """
    pauses = facts.pauses
    if pauses is None or not pauses.spans or facts.kind != "interactive":
        return ""
    if pauses.worked_ms is None:
        return NEVER if pauses.are_all else ""
    if pauses.rest_s >= LEFT_S and not facts.place.may_work:
        return LEFT
    first_ms, _ = pauses.spans[0]
    return ON_AND_OFF if pauses.worked_ms > first_ms else ""
