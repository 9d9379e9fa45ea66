"""The ledger's time of a period as columns, priced and laid into groups: what every figure of costs
is summed from.

Sums of days are read where they are as new as their entries, entries elsewhere; one reading is of
one moment.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from fleetwatch.accounts.selectors import zone
from fleetwatch.figures import boundaries, edges
from fleetwatch.figures.cells import Cell
from fleetwatch.figures.packed_spans import KINDS, Bools, Ints, Spans, joined, numbered, spans
from fleetwatch.figures.priced_columns import Columns, Keys, Price
from fleetwatch.figures.priced_spans import Eras, Laid, eras, lay
from fleetwatch.figures.scopes import Limits, limits_of
from fleetwatch.figures.totals import EVERYTHING, Scope
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import one_view, read_statement

_SQL = Path(__file__).parent / "sql"
_NODES, _SPANS = (read_statement(_SQL / f"{name}.sql") for name in ("nodes_of", "spans"))


def read(
    interval: Interval,
    *,
    by: Collection[str] = (),
    scope: Scope = EVERYTHING,
    step: str | None = None,
    with_sums: bool = True,
) -> Columns:
    """GPU time of the interval, to the millisecond, by these groups of selectors.GROUPS and, where
    one is named, by step.

    Steps (hour, day) are numbered from 0 on. Without sums entries alone are read.
    """
    limits = limits_of(scope)
    asked = {name for name, limit in limits.items() if limit is not None} | set(by)
    organisation_zone = zone()
    whole = boundaries.outward(interval, organisation_zone)
    steps = boundaries.steps(whole, step, organisation_zone) if step else []
    with one_view():
        period = eras(whole, asked)
        wanted = _wanted(period, limits, organisation_zone) | {
            "steps": steps,
            "use_sums": with_sums and step != "hour",
        }
        node_ids = _node_ids(wanted, limits["node_id"])
        told = _spans(interval, wanted | {"node_ids": node_ids}, organisation_zone)
        laid = lay(told.era, told.gpu, told.job, eras=period, asked=asked)
    common, row = _common(told, laid.prices, laid.price)
    keys = {name: Keys(*numbered(told.node)) if name == "node" else laid.keys(name) for name in by}
    if step:
        keys["step"] = Keys(np.arange(len(steps)), told.step)
    columns = Columns(common, row, keys, told.gpu_ms, told.energy_j, told.energy_ms)
    chosen = _chosen(told, laid, limits)
    return columns.where(reduce(and_, chosen)) if chosen else columns


def _spans(interval: Interval, wanted: dict[str, Any], organisation_zone: ZoneInfo) -> Spans:
    """The spans of the interval's whole cuts, and of the parts that it takes of those at
    its ends.
    """
    inner, ends = edges.split(interval, organisation_zone)
    whole = spans(
        [] if inner is None else fetched(_SPANS, wanted | {"start": inner.start, "end": inner.end})
    )
    if not ends:
        return whole
    parts = edges.parts(ends, wanted["node_ids"])
    cut = [edge.cut.start for edge in ends]
    step = np.array([bisect_right(wanted["steps"], start) - 1 for start in cut], dtype=np.int64)
    era = np.array([bisect_right(wanted["eras"], start) for start in cut], dtype=np.int64)
    at_ends = Spans(
        parts.node,
        step[parts.edge],
        era[parts.edge],
        parts.gpu,
        parts.job,
        parts.kind,
        parts.part_ms,
        parts.energy_j,
        parts.energy_ms,
    )
    return joined(whole, at_ends.where(parts.part_ms > 0))


def _wanted(period: Eras, limits: Limits, organisation_zone: ZoneInfo) -> dict[str, Any]:
    days = boundaries.days(period.whole, organisation_zone)
    return period.wanted | {
        "day_starts": [day.start for day in days],
        "day_ends": [day.end for day in days],
        "job_id": limits["job_id"],
        "gpu_ids": limits["gpu_ids"],
    }


def _node_ids(wanted: dict[str, Any], node_id: int | None) -> list[int] | None:
    """On which nodes what is looked at may lie; None = any."""
    if wanted["job_id"] is None and wanted["gpu_ids"] is None:
        return None if node_id is None else [node_id]
    found = [one for (one,) in fetched(_NODES, wanted)]
    return found if node_id is None else [one for one in found if one == node_id]


def _common(told: Spans, prices: Sequence[Price], price: Ints) -> tuple[list[Cell], Ints]:
    """Cells without figures, and which of them each span is."""
    codes, row = numbered(price * len(KINDS) + told.kind)
    return [
        _without_figures(prices[code // len(KINDS)], code % len(KINDS)) for code in codes.tolist()
    ], row


def _without_figures(price: Price, kind: int) -> Cell:
    state, tier, is_busy_only = KINDS[kind]
    return Cell(state, tier, is_busy_only, price.usd_per_gpu_hour, price.is_example, 0, None, 0)


def _chosen(told: Spans, laid: Laid, limits: Limits) -> list[Bools]:
    chosen = laid.chosen(limits)
    if limits["states"] is not None:
        chosen.append(np.array([state in limits["states"] for state, _, _ in KINDS])[told.kind])
    return chosen
