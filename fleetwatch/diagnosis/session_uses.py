"""Whether people use an interactive job, by its pauses. Pure."""

from fleetwatch.diagnosis.cause import Facts

NEVER = "never"
LEFT = "left"  # not any more
ON_AND_OFF = "on and off"
LEFT_S = 7200.0  # at rest for so long at the end: longer than a meal or a meeting


def use_of(facts: Facts) -> str:
    """NEVER, LEFT or ON_AND_OFF; "" of other jobs, and where its pauses are not known."""
    pauses = facts.pauses
    if pauses is None or facts.kind != "interactive":
        return ""
    if pauses.are_all:
        return NEVER
    is_long = bool(pauses.spans) and pauses.lengths_s[-1] >= LEFT_S
    return LEFT if is_long and not facts.place.may_work else ON_AND_OFF
