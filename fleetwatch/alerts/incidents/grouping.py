"""Which incidents one message tells of. Pure."""

from fleetwatch.alerts.breach import Breach


def group_key(breach: Breach) -> str:
    """Incidents of one rule with the same key are told together: those of one owner on one node
    that one team pays for (another team's channel is not to read of them), and a node's GPUs that
    nobody owns; what else spans nodes or has no owner speaks for itself.
    """
    owner = breach.label("user")
    node = breach.label("node")
    if not node or (not owner and breach.kind != "gpu"):
        return f"{breach.kind}/{breach.subject}"
    return f"{breach.label('cluster')}/{owner}/{node}/{breach.label('team')}"
