"""The ledger's time of a period as columns, priced and laid into groups: what every figure of costs is summed from.

Sums of days are read where they are as new as their entries, entries elsewhere; one reading is of one moment.
"""

from collections.abc import Collection, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs import cuts
from fleetwatch.costs.cells import Cell
from fleetwatch.costs.columns import Columns, Keys, Price
from fleetwatch.costs.laid import Eras, Laid, eras, lay
from fleetwatch.costs.scopes import Limits, limits_of
from fleetwatch.costs.spans import KINDS, Bools, Ints, Spans, numbered, spans
from fleetwatch.costs.totals import EVERYTHING, Scope
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
    """GPU time of cuts.outward(interval), by team, project, cost_centre, user, job, node, gpu, gpu_model and, where one is named, by step.

    Steps (hour, day) are numbered from 0 on. Without sums entries alone are read.
    """
    limits = limits_of(scope)
    asked = {name for name, limit in limits.items() if limit is not None} | set(by)
    organisation_zone = zone()
    whole = cuts.outward(interval, organisation_zone)
    steps = cuts.steps(whole, step, organisation_zone) if step else []
    with one_view():
        period = eras(whole, asked)
        wanted = _wanted(period, limits, organisation_zone) | {"steps": steps, "use_sums": with_sums and step != "hour"}
        told = spans(fetched(_SPANS, wanted | {"node_ids": _node_ids(wanted, limits["node_id"])}))
        laid = lay(told.era, told.gpu, told.job, eras=period, asked=asked)
    common, row = _common(told, laid.prices, laid.price)
    keys = {name: Keys(*numbered(told.node)) if name == "node" else laid.keys(name) for name in by}
    if step:
        keys["step"] = Keys(np.arange(len(steps)), told.step)
    columns = Columns(common, row, keys, told.gpu_ms, told.energy_j, told.energy_ms)
    chosen = _chosen(told, laid, limits)
    return columns.where(reduce(and_, chosen)) if chosen else columns


def _wanted(period: Eras, limits: Limits, organisation_zone: ZoneInfo) -> dict[str, Any]:
    days = cuts.days(period.whole, organisation_zone)
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
    return [_without_figures(prices[code // len(KINDS)], code % len(KINDS)) for code in codes.tolist()], row


def _without_figures(price: Price, kind: int) -> Cell:
    state, tier, is_busy_only = KINDS[kind]
    return Cell(state, tier, is_busy_only, price.usd_per_gpu_hour, price.is_example, 0, None, 0)


def _chosen(told: Spans, laid: Laid, limits: Limits) -> list[Bools]:
    chosen = laid.chosen(limits)
    if limits["states"] is not None:
        chosen.append(np.array([state in limits["states"] for state, _, _ in KINDS])[told.kind])
    return chosen
