"""Which incidents one message tells of. Pure."""

from fleetwatch.alerts.breach import Breach


def group_key(breach: Breach) -> str:
    """Incidents of one rule with the same key are told together: those of one owner on one node;
    one that spans nodes, or that nobody owns, speaks for itself.
    """
    owner = breach.label("user")
    node = breach.label("node")
    if not owner or not node:
        return f"{breach.kind}/{breach.subject}"
    return f"{breach.label('cluster')}/{owner}/{node}"
