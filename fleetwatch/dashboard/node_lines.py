"""The fleet node by node: figures of a period, in the order that is asked for, in pages of whole
nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from fleetwatch.dashboard import selectors
from fleetwatch.dashboard.pages import Pager
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import EVERYTHING, Scope, Totals, nothing
from fleetwatch.lib.intervals import Interval

SORTS = {"waste": "Most waste first", "name": "By name"}
DEFAULT_SORT = "waste"


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """A node with its figures in the period."""

    node: Any  # of selectors.machines()
    totals: Totals


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """The nodes in order, and what they make together."""

    lines: list[NodeFigures]
    totals: Totals

    @property
    def gpu_count(self) -> int:
        return sum(line.node.gpu_count for line in self.lines)


def fleet_figures(interval: Interval, scope: Scope, sort: str) -> FleetFigures:
    """Every node; narrowed, those with time in the scope."""
    seen = costs.look(interval, "node", scope=scope)
    totals = {group.key: group.totals for group in seen.by("node")}
    lines = [
        NodeFigures(node, totals.get(node.name, nothing()))
        for node in selectors.machines()
        if node.name in totals or scope == EVERYTHING
    ]
    if sort != "name":
        lines.sort(key=lambda line: -line.totals.wasted_usd)  # of equal ones by name
    return FleetFigures(lines, seen.totals())


def page_of(
    lines: Sequence[NodeFigures], *, after: str, gpus: int
) -> tuple[list[NodeFigures], Pager]:
    """The nodes after the one of that name ("" = from the first on) with so many GPUs at most, one
    node at least; `after` of the pager names the last of them.
    """
    names = [line.node.name for line in lines]
    start = names.index(after) + 1 if after in names else 0
    counts = accumulate(line.node.gpu_count for line in lines[start:])
    end = start + max(1, sum(count <= gpus for count in counts))
    more = names[end - 1] if end < len(lines) else ""
    return list(lines[start:end]), Pager(more, len(lines), start == 0)
