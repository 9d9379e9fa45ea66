"""What a node's agent says of itself, beside the one that this hub hands out."""

from collections.abc import Sequence

from fleetwatch.dashboard import agents, install
from fleetwatch.dashboard.showing import Context
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.agent_versions import is_older
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.selectors import job_sources
from fleetwatch.telemetry import selectors as telemetry


def agent_facts(node: Node, gpus: Sequence[GPU]) -> Context:
    """What _agent_facts.html and _unread.html show; `gpus` are the node's."""
    hub = install.agent_version()
    return {
        "lag_ms": agents.lag_ms(node.last_received_at, node.last_ms),
        "is_older": is_older(node.agent.get("version"), hub),
        "hub_version": hub,
        "sources": job_sources([node.pk]).get(node.pk, []),
        "drain": telemetry.drains([node.pk]).get(node.pk),
        "departure": inventory.newest_departure(node),
        "upgrade_command": install.upgrade_command(),
        "silent_ms": silent_ms(node),
        "late": telemetry.late(node.pk),
        "unread": agents.unread_of(
            (_label(gpu), gpu.unread) for gpu in gpus if gpu.retired_ms is None
        ),
    }


def silent_ms(node: Node) -> int | None:
    """Since when the node is silent and on the bill; None: it is not."""
    return next((each.last_ms for each in inventory.silent_nodes() if each.pk == node.pk), None)


def _label(gpu: GPU) -> str:
    return gpu.uuid if gpu.index is None else str(gpu.index)
