"""Whether this node may be drained now, and how: by Slurm, which lets its jobs run to their end."""

import re

from agent.actions.orders import Order, OrderError
from agent.actions.seen import Seen
from agent.workloads.slurm.command import Commands
from agent.workloads.slurm.detect import node_names
from agent.workloads.slurm.job_books import JobBooks
from agent.workloads.slurm.queue import Queue

# fixed words and numbers: everybody reads it in sinfo
_REASON = re.compile(r"FleetWatch incident [0-9]{1,18}: [A-Za-z0-9 ,]{1,80}")


class Draining:
    """This node, a GPU of which can't work as this agent sees it."""

    def __init__(self, order: Order, seen: Seen, now_ms: int) -> None:
        """Raises OrderError."""
        if order.scheduler != "slurm":
            raise OrderError("this agent can't drain a node of %s" % order.scheduler[:40])
        if _REASON.fullmatch(order.reason) is None:
            raise OrderError("its reason is none that this agent would write down")
        for uuid in order.gpus:
            if not seen.faults.fault(uuid, now_ms):
                raise OrderError("a GPU of the order works, as far as this agent knows")
        self._reason = order.reason
        self._commands = Commands()
        self._node = ""
        self._is_drained = False

    def look(self) -> str:
        """What is to be done, as Slurm has the node now. Raises SchedulerError."""
        books = JobBooks(Queue(self._commands), node_names())
        record = books.node()
        self._node = books.nodes[0]
        self._is_drained = record.is_drained
        already = ", which is drained already" if self._is_drained else ""
        return "drain_node %s%s" % (self._node, already)

    def do(self) -> None:
        """Drains it, unless it is. Raises SchedulerError."""
        if not self._is_drained:
            words = ("NodeName=%s" % self._node, "State=DRAIN", "Reason=%s" % self._reason)
            self._commands.run("scontrol", "update", *words)
