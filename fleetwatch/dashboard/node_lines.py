"""The fleet node by node: figures of a period, in the order that is asked for, in pages of whole
nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from fleetwatch.dashboard import selectors
from fleetwatch.dashboard.broken_marks import broken_marks, by_node
from fleetwatch.dashboard.pages import Pager
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import EVERYTHING, Scope, Totals, nothing
from fleetwatch.lib.intervals import Interval

SORTS = {"waste": "Most waste", "name": "By name"}
DEFAULT_SORT = "waste"
BROKEN = "broken"  # of nodes: those with a broken GPU
ONLY = {"": "All nodes", BROKEN: "Broken GPU"}


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """A node with its figures in the period."""

    node: Any  # of selectors.machines()
    totals: Totals


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """The nodes in order, and what they make together; of the fleet that is narrowed `used_gpus`,
    how many GPUs have time of it (None: it is not narrowed).
    """

    lines: list[NodeFigures]
    totals: Totals
    used_gpus: int | None = None

    @property
    def nodes(self) -> list[Any]:
        return [line.node for line in self.lines]

    @property
    def gpu_count(self) -> int:
        return sum(node.gpu_count for node in self.nodes)


def fleet_figures(interval: Interval, scope: Scope, sort: str) -> FleetFigures:
    """Every node; narrowed, those with time in the scope."""
    is_narrowed = scope != EVERYTHING
    groups = ("node", "gpu") if is_narrowed else ("node",)
    seen = costs.look(interval, *groups, scope=scope)
    totals = {group.key: group.totals for group in seen.by("node")}
    lines = [
        NodeFigures(node, totals.get(node.name, nothing()))
        for node in selectors.machines()
        if node.name in totals or not is_narrowed
    ]
    if sort != "name":
        lines.sort(key=lambda line: -line.totals.wasted_usd)  # of equal ones by name
    return FleetFigures(lines, seen.totals(), len(seen.by("gpu")) if is_narrowed else None)


def nodes_in_order(interval: Interval, scope: Scope, sort: str) -> list[Any]:
    """The nodes of fleet_figures(), with pk, name and gpu_count: of the whole fleet by name nothing
    is priced for that, and those come with their GPUs' names.
    """
    if is_of_all_by_name(sort, scope):
        return selectors.machine_names()
    return fleet_figures(interval, scope, sort).nodes


def is_of_all_by_name(sort: str, scope: Scope) -> bool:
    """Whether nodes_in_order() are those of selectors.machine_names()."""
    return sort == "name" and scope == EVERYTHING


def narrowed(nodes: Sequence[Any], only: str) -> list[Any]:
    """Of the nodes those that are asked for, in their order."""
    if only != BROKEN:
        return list(nodes)
    broken = by_node(broken_marks())
    return [node for node in nodes if node.name in broken]


def page_of(nodes: Sequence[Any], *, after: str, gpus: int) -> tuple[slice, Pager]:
    """Where those stand that come after the node of that name ("" = from the first on) with so many
    GPUs at most, one node at least; `after` of the pager names the last of them.
    """
    names = [node.name for node in nodes]
    start = names.index(after) + 1 if after in names else 0
    counts = accumulate(node.gpu_count for node in nodes[start:])
    end = start + max(1, sum(count <= gpus for count in counts))
    more = names[end - 1] if end < len(nodes) else ""
    return slice(start, end), Pager(more, len(nodes), start == 0)
