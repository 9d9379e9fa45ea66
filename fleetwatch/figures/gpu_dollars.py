"""Dollars of many GPUs over time as one array of floats: for maps, whose colours need no cents."""

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from fleetwatch.accounts.selectors import zone
from fleetwatch.figures import boundaries
from fleetwatch.figures.packed_spans import Bools, Floats, Ints
from fleetwatch.figures.priced_columns import Columns
from fleetwatch.figures.selectors import look
from fleetwatch.figures.state_spans import Kind
from fleetwatch.figures.totals import EVERYTHING, HEADLINE_TIERS, Scope
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.any_of import any_text
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms, to_ms


def step_edges(interval: Interval, step: str) -> list[datetime]:
    """Where the steps of the interval begin (UTC hours, or the organisation's days), and where the
    last one ends.
    """
    starts = boundaries.steps(interval, step, zone())
    return [*starts, boundaries.following(starts[-1], step, zone())]


def dollars(
    uuids: Sequence[str],
    interval: Interval,
    *,
    step: str | None = None,
    wasted: bool = False,
    scope: Scope = EVERYTHING,
) -> Floats:
    """GPUs x steps (one for all without a step): what they cost, or what of it was wasted, certain
    and probable; NaN where the ledger says nothing or no rate held.
    """
    columns, row = _read(uuids, interval, step, scope)
    is_known = (row >= 0) & _has_rate(columns)
    count = len(step_edges(interval, step)) - 1 if step else 1
    place = (row * count + _step_of(columns, step))[is_known]
    usd = columns.figures["gpu_ms"] * columns.rates() / HOUR_MS
    if wasted:
        usd *= columns.labelled(lambda kind: kind.tier in HEADLINE_TIERS)
    size = len(uuids) * count
    sums = np.bincount(place, usd[is_known], size)
    return np.where(np.bincount(place, minlength=size) > 0, sums, np.nan).reshape(-1, count)


def covered_shares(
    uuids: Sequence[str], interval: Interval, *, step: str, scope: Scope = EVERYTHING
) -> Floats:
    """GPUs x steps: how much of each step dollars() are of. 1 of a whole one; of the first, of the
    interval or of the GPU, what of it is within; of the last, where that is cut short, what of it
    the ledger has of the GPU.
    """
    edges = np.array([to_ms(edge) for edge in step_edges(interval, step)])
    shares = _since_their_first(uuids, interval.start_ms, edges)
    if interval.end_ms < edges[-1]:
        begun = Interval(max(interval.start, from_ms(int(edges[-2]))), interval.end)
        shares[:, -1] = _posted_ms(uuids, begun, scope) / (edges[-1] - edges[-2])
    return shares


def _since_their_first(uuids: Sequence[str], start_ms: int, edges: Ints) -> Floats:
    """GPUs x steps: 1, but of that in which each begins what is left of it."""
    lengths_ms = np.diff(edges)
    begins_ms = np.maximum(_first_ms(uuids), start_ms)
    at = np.minimum(edges.searchsorted(begins_ms, "right"), len(lengths_ms)) - 1
    shares = np.ones((len(uuids), len(lengths_ms)))
    shares[np.arange(len(uuids)), at] = (edges[at + 1] - begins_ms) / lengths_ms[at]
    return shares


def _first_ms(uuids: Sequence[str]) -> Ints:
    """When each of these GPUs was there first; 0 where nobody knows."""
    rows = GPU.objects.filter(uuid__in=any_text(uuids)).values_list("uuid", "first_ms")
    first: dict[str, int] = {}
    for uuid, first_ms in rows:
        first[uuid] = min(first_ms or 0, first.get(uuid, first_ms or 0))
    return np.array([first.get(uuid, 0) for uuid in uuids], dtype=np.int64)


def _posted_ms(uuids: Sequence[str], interval: Interval, scope: Scope) -> Floats:
    """How much time of each GPU the ledger has in the interval."""
    columns, row = _read(uuids, interval, None, scope)
    is_shown = row >= 0
    gpu_ms = np.bincount(row[is_shown], columns.figures["gpu_ms"][is_shown], len(uuids))
    return gpu_ms.astype(np.float64)


def _read(
    uuids: Sequence[str], interval: Interval, step: str | None, scope: Scope
) -> tuple[Columns[Kind], Ints]:
    """The interval's spans, and of each the place of its GPU; -1 of another GPU."""
    seen = look(interval, "gpu", scope=scope, step=step)
    ids = seen.columns.by["gpu"].ids.tolist()
    place = {uuid: number for number, uuid in enumerate(uuids)}
    lines = seen.lines("gpu", ids)
    places = np.array([place.get(lines[pk][0], -1) for pk in ids], dtype=np.int64)
    return seen.columns, places[seen.columns.by["gpu"].at]


def _step_of(columns: Columns[Kind], step: str | None) -> Ints:
    """In which step each span lies."""
    if step is None:
        return np.zeros(len(columns.label), dtype=np.int64)
    keys = columns.by["step"]
    return keys.ids[keys.at]


def _has_rate(columns: Columns[Kind]) -> Bools:
    is_priced = [price.usd_per_gpu_hour is not None for price in columns.prices]
    return np.array(is_priced, dtype=bool)[columns.price]
