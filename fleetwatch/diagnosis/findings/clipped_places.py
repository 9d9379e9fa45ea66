"""What of machines' time lies in the part of a cut that a period takes, as placed.sql takes it."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from fleetwatch.diagnosis.causes import CATALOGUE
from fleetwatch.figures import edges as cuts
from fleetwatch.figures.packed_spans import Spans
from fleetwatch.figures.state_spans import KINDS, Kind
from fleetwatch.lib.intervals import Interval

# Causes that explain all of a state's time: theirs in the part is the ledger's.
_STATES = {
    cause.code: cause.machine.state for cause in CATALOGUE if cause.machine and cause.machine.state
}


def parts(interval: Interval, zone: ZoneInfo, causes: Collection[str]) -> dict[str, list[Any]]:
    """The arrays of placed.sql: of each cut at the period's ends the part that lies in it, and by
    GPU what does of the states that these causes explain.
    """
    _, edges = cuts.split(interval, zone)
    found: dict[str, list[Any]] = {
        "edge_starts": [edge.cut.start for edge in edges],
        "edge_parts": [edge.part.duration_ms for edge in edges],
        "edge_wholes": [edge.cut.duration_ms for edge in edges],
    }
    found |= {f"clip_{name}": [] for name in ("starts", "gpus", "causes", "parts", "wholes")}
    states = {code: state for code, state in _STATES.items() if code in causes}
    if not edges or not states:
        return found
    told = cuts.parts(edges, None)
    for code, state in states.items():
        for number, edge in enumerate(edges):
            _add(found, edge, told.where(told.step == number), code=code, state=state)
    return found


def outside(
    interval: Interval, zone: ZoneInfo, cause: str, rows: Iterable[tuple[int, datetime, int]]
) -> dict[int, int]:
    """Of (GPU, start, ms) of the cause in the cuts at the period's ends, by GPU what of it lies
    outside the period.
    """
    told = parts(interval, zone, (cause,))
    edge_ms = zip(told["edge_parts"], told["edge_wholes"], strict=True)
    shares = dict(zip(told["edge_starts"], edge_ms, strict=True))
    clips = zip(told["clip_starts"], told["clip_gpus"], strict=True)
    clip_ms = zip(told["clip_parts"], told["clip_wholes"], strict=True)
    by_gpu = dict(zip(clips, clip_ms, strict=True))
    found: dict[int, int] = defaultdict(int)
    for gpu_id, start, ms in rows:
        part_ms, whole_ms = by_gpu.get((start, gpu_id)) or shares[start]
        found[gpu_id] += ms - ms * part_ms // whole_ms
    return found


def _add(
    found: dict[str, list[Any]], edge: cuts.Edge, told: Spans[Kind], *, code: str, state: str
) -> None:
    kinds = [number for number, kind in enumerate(KINDS) if kind.state == state]
    own = np.isin(told.label, kinds) & (told.figures["whole_ms"] > 0)
    gpus, at = np.unique(told.gpu[own], return_inverse=True)
    found["clip_starts"] += [edge.cut.start] * len(gpus)
    found["clip_gpus"] += gpus.tolist()
    found["clip_causes"] += [code] * len(gpus)
    for name, figure in (("parts", "gpu_ms"), ("wholes", "whole_ms")):
        sums = np.bincount(at, told.figures[figure][own], len(gpus)).astype(np.int64)
        found[f"clip_{name}"] += sums.tolist()
