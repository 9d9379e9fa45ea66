"""The windows of one GPU as verdicts read them, and the long pauses that they count in them."""

from collections.abc import Sequence

import numpy as np

from fleetwatch.diagnosis import lane_facts, lane_rows
from fleetwatch.diagnosis.findings.evidence import Evidence
from fleetwatch.diagnosis.judgement import cell_figures, pauses
from fleetwatch.diagnosis.judgement.pauses import LongPause
from fleetwatch.inventory.models import GPU
from fleetwatch.telemetry import frames


def windows_of(gpu: GPU, start_ms: int, end_ms: int, columns: Sequence[str] = ()) -> frames.Frame:
    """Of [start_ms, end_ms) one for each moment, in order of time, with these columns beside those
    that cells are made of.
    """
    names = list(dict.fromkeys([*cell_figures.COLUMNS, *columns]))
    read = frames.read_gpu(gpu.pk, gpu.node_id, start_ms, end_ms, names)
    return lane_rows.filled(lane_rows.spoken(read), lane_facts.gpus(np.array([gpu.pk])))


def long_pauses(seen: Evidence) -> list[LongPause]:
    """Those with time in the window that was judged; one that began before it ends in it."""
    windows = windows_of(seen.gpu, seen.start_ms - lane_rows.CONTEXT_MS, seen.end_ms)
    return [
        pause for pause in pauses.long_pauses(windows)
        if pause.end_ms > seen.start_ms and pause.start_ms < seen.end_ms
    ]  # fmt: skip


def begun(several: Sequence[LongPause], seen: Evidence) -> int:
    """How many of them began in the window that was judged, as its signs count."""
    return sum(pause.window_ms >= seen.start_ms for pause in several)
