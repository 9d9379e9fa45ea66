"""What agents are asked to do on their hosts: orders, signed for each token of their node, stand in
the answers to its batches until they expire. The agent carries each out once (docs/wire.md).
"""

import secrets
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from agent.actions.orders import signature
from fleetwatch.ingest.models import AgentToken, NodeOrder
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import ms_in, to_ms

LOOK_EVERY_S = 5.0
LASTS = timedelta(minutes=10)  # an agent sends each 30 s; what it did not hear by then is void


@dataclass(frozen=True, slots=True)
class OrderTerms:
    """What an agent is asked to do, by agent.actions.orders.KINDS: a job is to be ended on a node
    where it holds just these GPUs, each of which did nothing for the grace; or the node drained,
    each of these GPUs being unable to work. The agent refuses it otherwise.
    """

    kind: str
    scheduler: str
    job: str  # its id there; "" where the node is meant
    gpu_uuids: tuple[str, ...]
    grace: timedelta
    reason: str
    is_dry_run: bool


def give(node: Node, terms: OrderTerms, now: datetime) -> NodeOrder:
    """The order, good for LASTS from now on."""
    return NodeOrder.objects.create(
        node=node,
        key=secrets.token_hex(16),
        kind=terms.kind,
        scheduler=terms.scheduler,
        job=terms.job,
        gpus=sorted(terms.gpu_uuids),
        grace_ms=ms_in(terms.grace),
        reason=terms.reason[:200],
        is_dry_run=terms.is_dry_run,
        created_at=now,
        expires_at=now + LASTS,
    )


def withdraw(key: str, now: datetime) -> bool:
    """Whether the order was good until now: answers name it no more. An agent that has it already
    carries it out all the same.
    """
    waiting = NodeOrder.objects.filter(key=key, expires_at__gt=now)
    return waiting.update(expires_at=now) > 0


class OpenOrders:
    """The orders that wait, as this process saw them last."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._by_token: dict[int, list[dict[str, Any]]] = {}
        self._look_at = 0.0

    def look(self, now: datetime) -> None:
        """Reads anew when the last look is LOOK_EVERY_S ago; one thread looks for all."""
        with self._guard:
            if time.monotonic() < self._look_at:
                return
            self._look_at = time.monotonic() + LOOK_EVERY_S
        self._by_token = _signed(now)

    def forget(self) -> None:
        """The next look reads anew."""
        self._look_at = 0.0

    def of(self, token_id: int) -> list[dict[str, Any]]:
        """The orders for whoever sends with this token."""
        return self._by_token.get(token_id, [])


open_orders = OpenOrders()


def _signed(now: datetime) -> dict[int, list[dict[str, Any]]]:
    waiting = list(NodeOrder.objects.filter(expires_at__gt=now).select_related("node"))
    tokens = AgentToken.objects.filter(
        node__in={order.node_id for order in waiting}, revoked_at=None
    )
    by_node: dict[int, list[AgentToken]] = defaultdict(list)
    for token in tokens:
        by_node[token.node_id].append(token)
    signed: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for order in waiting:
        for token in by_node[order.node_id]:
            content = _content(order)
            key = token.digest.encode("ascii")
            signed[token.pk].append(content | {"signature": signature(content, key)})
    return signed


def _content(order: NodeOrder) -> dict[str, Any]:
    return {
        "key": order.key,
        "kind": order.kind,
        "node": order.node.name,
        "scheduler": order.scheduler,
        "job": order.job,
        "gpus": order.gpus,
        "grace_ms": order.grace_ms,
        "expires_ms": to_ms(order.expires_at),
        "reason": order.reason,
        "is_dry_run": order.is_dry_run,
    }
