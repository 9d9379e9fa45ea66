"""How many windows start in spans of GPUs' time. Pure.

Nearly all chunks have as many windows of as many GPUs at the same ten seconds: where in them a span
begins and ends is looked up in a grid that is worked out once.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fleetwatch.lib.array_types import Ints, Mask
from fleetwatch.telemetry.codec import Steps

# milliseconds between two GPUs of a grid: more than twice what any moment has
APART = 2**43
FARTHEST = APART // 2 - 1
GRIDS = 32  # a fleet's chunks have a dozen at a time; one of a quarter of a day has 140 kB


class Spans(NamedTuple):
    """Time of a node's GPUs: `edges` are two rows, when each begins, in milliseconds, and ends."""

    gpu_id: Ints
    edges: Ints


class Grid(NamedTuple):
    """Whose each window is and when it starts, in the order of both: `gpus` are the distinct ones,
    `moments` the place of a window's GPU among them times APART, and its start.
    """

    gpus: Ints
    moments: Ints

    def counts(self, mask: Mask, spans: Spans, *, first_gpu: int, first_ms: int) -> Ints:
        """Of each span how many of the windows that the mask names start in it. The grid counts
        GPUs and starts from the given ones.
        """
        gpu_id = spans.gpu_id - first_gpu
        place = self.gpus.searchsorted(gpu_id)
        edges = spans.edges - first_ms
        np.maximum(edges, -FARTHEST, out=edges)
        np.minimum(edges, FARTHEST, out=edges)
        edges += place * APART
        low, high = mask.nonzero()[0].searchsorted(self.moments.searchsorted(edges))
        in_spans: Ints = (high - low) * (self.gpus.take(place, mode="clip") == gpu_id)
        return in_spans


def grid(gpu_id: Ints, start_ms: Ints) -> Grid:
    """Of windows that are sorted by both."""
    gpus, place = np.unique(gpu_id, return_inverse=True)
    return Grid(gpus, place * APART + start_ms)


@lru_cache(maxsize=GRIDS)
def packed_grid(gpu_id: Steps, start_ms: Steps) -> Grid:
    """The same of packed columns."""
    starts = start_ms.numbers()
    return grid(gpu_id.numbers(), starts)
