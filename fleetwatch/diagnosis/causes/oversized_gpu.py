"""A large GPU for small work: little of its time and little of its memory are used."""

from collections.abc import Sequence

import numpy as np

from fleetwatch.diagnosis.cause import HOURS, NSYS, WITH_MEMORY, Cause, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.lanes import Offers
from fleetwatch.diagnosis.judgement.rules import (
    MEDIUM,
    Detector,
    Judged,
    all_met,
    at_least,
    below,
    contradicts,
    judged,
    less_sure,
)
from fleetwatch.diagnosis.sizing import smaller_gpu
from fleetwatch.ledger.judgement.observations import Floats, Ints

ONE_HOUR = 12  # cells
UTIL = 0.30
USED = 0.02  # below it is idle, which has its own causes
MEMORY = 0.25  # of the GPU's, at its peak
HEADROOM = 1.3
SM = 0.30  # activity below which a part of the GPU may do
# Eighths of a GPU's memory that a MIG slice has, by its sevenths of the compute (NVIDIA's MIG user
# guide: 1g, 2g, 3g, 4g; 7g is all of it): a slice costs what it has of the compute. A smaller GPU
# may cost less or more.
EIGHTHS = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
OFFERED = (1, 2, 3)  # 4g has no more memory than 3g


def find(f: Features) -> Judged:
    """What is left of the price: beside the cheapest smaller GPU whose price is known, else beside
    the smallest slice.

    Either has HEADROOM times the peak of memory. A slice saves only what others use of the rest: at
    least half of it. Of an instance a slice is a smaller one; where there is none, nothing could be
    saved.
    """
    signs = (below(f, "util", UTIL), at_least(f, "util", USED), below(f, "mem_max", MEMORY))
    low, high = _saved(f)
    # by means alone a batch too small and a wait for input look the same
    sampled = f.has("lo")
    # busier work whose units mostly rest may fit a part of the GPU as well; where none is, nothing
    # is too small for it
    is_possible = all_met((signs[2], below(f, "sm", SM))) & ~contradicts(signs[1])
    return judged(
        signs,
        confidence=less_sure(MEDIUM, ~sampled),
        recoverable=(np.where(sampled, low, 0.0), high),
        possible=is_possible,
    )


def _saved(f: Features) -> tuple[Floats, Floats]:
    """The share of the price that is left over, at least and at most."""
    spared = 1.0 - _slice(f.lanes.sevenths, HEADROOM * f["mem_max"])
    priced = 1.0 - _cheapest(f.lanes.cheaper, HEADROOM * f["memory_max"])
    is_unknown = np.isnan(priced)
    return np.where(is_unknown, 0.5 * spared, priced), np.where(is_unknown, spared, priced)


def _slice(sevenths: Ints, need: Floats) -> Floats:
    """The part of the GPU's compute that the smallest slice of it has whose memory is that part of
    the GPU's; 1 where there is none.
    """
    part = np.ones(need.shape)
    for own, memory in EIGHTHS.items():
        rows = sevenths == own
        # the smallest that fits is written last
        for size in reversed([size for size in OFFERED if size < own]):
            part[rows] = np.where(need[rows] <= EIGHTHS[size] / memory, size / own, part[rows])
    return part


def _cheapest(offers: Sequence[Offers], need_bytes: Floats) -> Floats:
    """The least share of the GPU's price for which a smaller one has that memory; NaN where no
    price is known of any.
    """
    cheapest = np.full(need_bytes.shape, np.nan)
    for offered in set(offers) - {()}:
        rows = [row for row, of_lane in enumerate(offers) if of_lane == offered]
        for memory, share in offered:
            least = np.fmin(cheapest[rows], share)
            cheapest[rows] = np.where(need_bytes[rows] <= memory, least, cheapest[rows])
    return cheapest


CAUSE = Cause(
    code="oversized_gpu",
    title="GPU larger than the work",
    sentence=(
        "The work uses little of the GPU's time and memory: a slice or a smaller GPU would do."
    ),
    looks="Low utilisation for an hour and a small peak of memory.",
    sensors="utilisation and memory",
    fixes=(Step("Share the GPU with others of its kind.", "nvidia-cuda-mps-control -d"),),
    effort=HOURS,
    range_words="the difference in price, once it runs on the smaller one",
    alike=(
        "A batch too small and a loop that waits for its input use as little: a larger batch or"
        " a faster loader may be worth more. Memory that an allocator reserved counts as used:"
        " the true need may be lower still."
    ),
    tell=(
        Step("Double the batch once: if a step takes as long as before, the GPU is not too large."),
        Step("What fills the gaps?", NSYS),
    ),
    detectors=(Detector(find, (ONE_HOUR,)),),
    steps=smaller_gpu,
    needs_numbers=True,
    curves=WITH_MEMORY,
)
