"""What of machines' time lies in the part of a cut that a period takes, as placed.sql takes it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from fleetwatch.diagnosis.causes import OF_STATES
from fleetwatch.figures import edges as cuts
from fleetwatch.figures.packed_spans import numbered, sums
from fleetwatch.figures.state_spans import KINDS
from fleetwatch.lib.intervals import Interval

_Clip = tuple[datetime, int, str, int, int]  # start of a cut, GPU, cause, ms of part and of whole


def parts(interval: Interval, zone: ZoneInfo, causes: Collection[str]) -> dict[str, list[Any]]:
    """The arrays of placed.sql: of each cut at the period's ends the part that lies in it, and by
    GPU what does of the states that these causes explain.
    """
    _, edges = cuts.split(interval, zone)
    # theirs in the part is the ledger's
    states = {code: state for code, state in OF_STATES.items() if code in causes}
    clips = list(_clips(edges, states)) if edges and states else []
    arrays: dict[str, list[Any]] = {
        "edge_starts": [edge.cut.start for edge in edges],
        "edge_parts": [edge.part.duration_ms for edge in edges],
        "edge_wholes": [edge.cut.duration_ms for edge in edges],
    }
    for place, name in enumerate(("starts", "gpus", "causes", "parts", "wholes")):
        arrays[f"clip_{name}"] = [clip[place] for clip in clips]
    return arrays


def _clips(edges: Sequence[cuts.Edge], states: Mapping[str, str]) -> Iterator[_Clip]:
    of_edges = cuts.parts(edges, None)
    for code, state in states.items():
        kinds = [number for number, kind in enumerate(KINDS) if kind.state == state]
        for number, edge in enumerate(edges):
            part = of_edges.where(of_edges.step == number)
            own = np.isin(part.label, kinds) & (part.figures["whole_ms"] > 0)
            gpus, at = numbered(part.gpu[own])
            part_ms, whole_ms = (
                sums(at, part.figures[name][own], len(gpus)).tolist()
                for name in ("gpu_ms", "whole_ms")
            )
            for gpu_id, *ms in zip(gpus.tolist(), part_ms, whole_ms, strict=True):
                yield (edge.cut.start, gpu_id, code, *ms)


def outside(
    interval: Interval, zone: ZoneInfo, cause: str, rows: Iterable[tuple[int, datetime, int]]
) -> dict[int, int]:
    """Of (GPU, start, ms) of the cause in the cuts at the period's ends, by GPU what of it lies
    outside the period.
    """
    _, edges = cuts.split(interval, zone)
    state = OF_STATES.get(cause)
    clips = _clips(edges, {cause: state}) if edges and state else ()
    by_gpu = {(start, gpu_id): ms for start, gpu_id, _, *ms in clips}
    by_edge = {edge.cut.start: [edge.part.duration_ms, edge.cut.duration_ms] for edge in edges}
    outside: dict[int, int] = defaultdict(int)
    for gpu_id, start, ms in rows:
        part_ms, whole_ms = by_gpu.get((start, gpu_id)) or by_edge[start]
        outside[gpu_id] += ms - ms * part_ms // whole_ms
    return outside
