"""Every kind of action: what is done, and about which conditions."""

from fleetwatch.actions.kind import Kind
from fleetwatch.actions.kinds import drain_node, stop_job

KINDS: tuple[Kind, ...] = (stop_job.KIND, drain_node.KIND)
CONDITIONS = tuple(condition for kind in KINDS for condition in kind.conditions)


def kind_about(condition: str) -> Kind | None:
    """What can be done about incidents of the condition; None: nothing is, by itself."""
    return next((kind for kind in KINDS if condition in kind.conditions), None)


def kind_of(condition: str) -> Kind:
    """The same where a policy can be. Raises KeyError."""
    kind = kind_about(condition)
    if kind is None:
        raise KeyError(condition)
    return kind
