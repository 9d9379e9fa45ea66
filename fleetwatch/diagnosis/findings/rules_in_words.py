"""Each cause's rule as its detector has it: the signs and their bounds, read from the detector
itself. Pure.
"""

from dataclasses import dataclass

import numpy as np

from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.findings import measures
from fleetwatch.diagnosis.judgement import lane_figures
from fleetwatch.diagnosis.judgement.cell_figures import NAMES
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.lanes import STATES, Lanes
from fleetwatch.diagnosis.judgement.rules import Detector, Sign

CELL_MIN = 5


@dataclass(frozen=True, slots=True)
class Words:
    """A rule: over how long, what it needs, and what makes it surer."""

    windows: str
    needs: tuple[str, ...]
    surer: tuple[str, ...]


def rules(code: str) -> list[Words]:
    """The rules of a cause in the order in which they are asked; none for a cause that no window
    decides.
    """
    return [_words(detector) for detector in BY_CODE[code].detectors]


def _words(detector: Detector) -> Words:
    rule = detector.find(Features(_nothing(), 1))
    return Words(
        " or ".join(_length(length) for length in detector.lengths),
        needs=tuple(map(_sign, rule.signs)),
        surer=tuple(map(_sign, rule.strengthens)),
    )


def _sign(sign: Sign) -> str:
    bound = measures.bound(sign.feature, sign.bound, is_lower_bound=sign.is_lower_bound)
    return f"{measures.measure(sign.feature).label}: {bound}"


def _length(cells: int) -> str:
    minutes = cells * CELL_MIN
    return f"{minutes} min" if minutes < 60 or minutes % 60 else f"{minutes // 60} h"


def _nothing() -> Lanes:
    """One GPU of which nothing was read: every rule says what it would compare."""
    unread = np.full((1, 1), np.nan)
    number = np.ones((1, 1), dtype=np.int64)
    is_it = np.ones((1, 1), dtype=bool)
    return Lanes(
        **dict.fromkeys(("gpu_id", "job_id", "sevenths", "warm_up", "failures"), number[0]),
        **dict.fromkeys(("idle_w", "limit_w", "memory_bytes"), unread[0]),
        **dict.fromkeys(("is_serving", "is_over"), ~is_it[0]),
        kind=np.array(["batch"]), cheaper=((),), start_ms=0,
        held=is_it, held_ms=unread, shared=~is_it, age=number, ran_s=unread,
        figures=lane_figures.of(dict.fromkeys(NAMES, unread)), states=dict.fromkeys(STATES, unread),
    )  # fmt: skip
