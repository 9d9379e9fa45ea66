"""The map of the fleet: GPUs x time, node by node, and the same as rows of a table."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from math import isnan
from typing import Any
from urllib.parse import quote

from fleetwatch.dashboard import numbers, words
from fleetwatch.dashboard.broken_marks import FAULTS, broken_uuids
from fleetwatch.dashboard.drawing import heat_map, maps
from fleetwatch.dashboard.drawing.chart import (
    Cell,
    Chart,
    NoSuchChartError,
    Params,
    scope_asked,
    text_of,
)
from fleetwatch.dashboard.drawing.clock_steps import local
from fleetwatch.dashboard.drawing.figures import Figure
from fleetwatch.dashboard.drawing.grid import Floats, Ints
from fleetwatch.dashboard.drawing.heat_map import Rows
from fleetwatch.dashboard.node_lines import (
    DEFAULT_SORT,
    ONLY,
    SORTS,
    is_of_all_by_name,
    narrowed,
    nodes_in_order,
    page_of,
)
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.selectors import (
    GPUName,
    MachineName,
    named_machines,
    physical_gpu_names,
)
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import EVERYTHING, Scope
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetch_ahead
from fleetwatch.telemetry import matrices
from fleetwatch.telemetry.heat_cells import STEPS

MAX_GPUS = 1000  # on a page of the map: the least rows are then as high as a screen or two
_is_plain = re.compile(r"[\w.~-]+", re.ASCII).fullmatch  # an address has it as it is
TABLE_CELLS = 6000  # on a page of the table: some 350 kB of it


@dataclass(frozen=True, slots=True)
class NodeGPUs:
    """A node and those of its GPUs that a map shows."""

    node: str
    gpus: Sequence[Any]  # of selectors.physical_gpu_names()


def gpus_of(nodes: Sequence[Any], interval: Interval, scope: Scope) -> list[NodeGPUs]:
    """The physical GPUs of these nodes in their order; narrowed, those with time in the scope."""
    by_node: dict[int, list[Any]] = {node.pk: [] for node in nodes}
    in_scope = None
    if scope != EVERYTHING:
        in_scope = {group.key for group in costs.totals_by(interval, "gpu", scope=scope)}
    for gpu in _names_in(nodes):
        if in_scope is None or gpu.uuid in in_scope:
            by_node[gpu.node_id].append(gpu)
    names = {node.pk: node.name for node in nodes}
    return [NodeGPUs(names[pk], gpus) for pk, gpus in by_node.items() if gpus]


def _names_in(nodes: Sequence[Any]) -> Iterable[GPUName]:
    """Those of the nodes' physical GPUs: read, where they did not come with the nodes."""
    if any(not isinstance(node, MachineName) for node in nodes):
        return physical_gpu_names([node.pk for node in nodes])
    return chain.from_iterable(node.gpus for node in nodes)


def number(gpu: Any) -> str:
    """Its index, or the beginning of its UUID."""
    return gpu.uuid[:12] if gpu.index is None else str(gpu.index)


def draw(params: Params, period: Period) -> Chart:
    """A page of it. Raises NoSuchChartError for another metric or order."""
    metric = _one_of(params, "metric", maps.METRICS, "state")
    interval = period.so_far
    scope = scope_asked(params)
    nodes = _nodes(params, interval, scope, metric)
    gpu_count = min(sum(node.gpu_count for node in nodes), MAX_GPUS)
    room = MAX_GPUS
    if params.get("as") == "table":
        room = TABLE_CELLS // maps.columns_of(metric, interval, gpu_count)
    part, pager = page_of(nodes, after=params.get("after", ""), gpus=room)
    shown = gpus_of(nodes[part], interval, scope)
    gpus = [gpu for node in shown for gpu in node.gpus]
    cells = maps.cells_of(metric, gpus, interval, scope, gpu_count=gpu_count)
    return _chart(metric, shown, cells, period, pager.after)


def _nodes(params: Params, interval: Interval, scope: Scope, metric: str) -> list[Any]:
    """Those that are shown, in their order; with their names what else a map of readings asks."""
    sort = _one_of(params, "sort", SORTS, DEFAULT_SORT)
    if metric in STEPS and is_of_all_by_name(sort, scope):
        fetch_ahead(named_machines.asked(), matrices.asked_days(metric, interval), FAULTS)
    in_order = nodes_in_order(interval, scope, sort)
    return narrowed(in_order, _one_of(params, "only", ONLY, ""))


def _one_of(params: Params, name: str, choices: Collection[str], default: str) -> str:
    """What is asked for by that name. Raises NoSuchChartError for none of the choices."""
    asked = params.get(name) or default
    if asked not in choices:
        raise NoSuchChartError(f"{name}={asked}")
    return asked


def _chart(
    metric: str, shown: Sequence[NodeGPUs], cells: maps.GPUCells, period: Period, after: str
) -> Chart:
    edges = local(cells.edges, period.clock)
    return Chart(
        f"{maps.METRICS[metric].label} of every GPU",
        _figure(metric, shown, edges, cells),
        lambda: ["GPU", *map(text_of, edges[:-1])],
        lambda: rows_of(metric, shown, cells.values()),
        after,
    )


def _figure(
    metric: str, shown: Sequence[NodeGPUs], edges: Sequence[datetime], cells: maps.GPUCells
) -> Figure:
    if not shown:
        return {"data": [], "layout": {}}
    uuids = [gpu.uuid for node in shown for gpu in node.gpus]
    rows = Rows(
        [(node.node, len(node.gpus)) for node in shown],
        _names(shown),
        _pages(uuids),
        _marked(uuids),
    )
    drawn = heat_map.state_map if metric == "state" else heat_map.metric_map
    figure = drawn(rows, edges, cells.drawn)
    if maps.METRICS[metric].is_money:
        # beside the scale: charts.js
        figure["data"][0]["meta"]["most"] = numbers.usd(cells.most)
    return figure


def _pages(uuids: Sequence[str]) -> list[str]:
    """The addresses of the GPUs' pages; nearly always all are as plain as NVIDIA's."""
    names = uuids if _is_plain("".join(uuids)) else map(quote, uuids)
    return [f"/gpus/{name}" for name in names]


def _marked(uuids: Sequence[str]) -> list[int]:
    """The numbers of the rows whose GPU is broken now."""
    broken = broken_uuids()
    if not broken:
        return []
    return [at for at, uuid in enumerate(uuids) if uuid in broken]


def _names(shown: Sequence[NodeGPUs]) -> list[str]:
    return [f"{node.node} · {number(gpu)}" for node in shown for gpu in node.gpus]


def rows_of(metric: str, shown: Sequence[NodeGPUs], values: Floats | Ints) -> list[list[Cell]]:
    """A row for each GPU: states by name, ratios to a thousandth, dollars to a micro-dollar."""
    text = state_name if metric == "state" else partial(_rounded, digits=maps.digits(metric))
    return [
        [name, *map(text, row)] for name, row in zip(_names(shown), values.tolist(), strict=True)
    ]


def state_name(place: float) -> str | None:
    """Of a place in words.SHOWN; None where it is not known."""
    return words.NAMES[int(place)] if place >= 0 else None


def _rounded(value: float, digits: int) -> float | None:
    return None if isnan(value) else round(value, digits)
