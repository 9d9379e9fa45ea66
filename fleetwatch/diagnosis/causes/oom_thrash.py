"""Memory is given back and taken again: a cache that is emptied in the loop, or runs that fail with
it full and start again.
"""

import numpy as np

from fleetwatch.diagnosis.cause import FASTER, HOURS, WITH_MEMORY, Cause, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import LOW, Detector, Judged, Sign, at_least, judged

DROPS = 1.0  # per minute, each of a fifth of the GPU's memory
DIPS = 1.0  # per minute
FULL = 0.95  # of a GPU's memory, when its job ended
FAILURES = 3  # short runs of one name


def find(f: Features) -> Judged:
    """Fragmentation itself can't be seen from outside: the allocator caches."""
    signs = (at_least(f, "memory_drops_per_min", DROPS), at_least(f, "dips_per_min", DIPS))
    return judged(signs, confidence=LOW, recoverable=(0.0, 0.2))


def find_restarts(f: Features) -> Judged:
    """All of a run that failed soon with the memory of one of its GPUs full, as others of its name
    did.
    """
    shape = f.lanes.held.shape
    failures = Sign(
        "failed_alike",
        np.broadcast_to(f.lanes.failures[:, None].astype(np.float64), shape),
        FAILURES,
        is_lower_bound=True,
    )
    full = at_least(f, "memory_at_end", FULL)
    return judged((failures, full), confidence=LOW, recoverable=(0.0, 0.2))


CAUSE = Cause(
    code="oom_thrash",
    title="Memory taken and given back all the time",
    sentence="The job empties and refills its memory over and over.",
    looks=(
        "A sawtooth of used memory with pauses, or short runs of one name that fail with their"
        " memory full."
    ),
    sensors="memory and utilisation samples",
    fixes=(
        Step(
            "Let the allocator grow its segments.",
            "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ),
        Step(
            "Take empty_cache() out of the loop; recompute activations or accumulate gradients"
            " instead of running to the brim."
        ),
    ),
    effort=HOURS,
    range_words=FASTER,
    alike="Fragmentation itself can't be seen from outside.",
    tell=(Step("What does the allocator say?", "print(torch.cuda.memory_summary())"),),
    detectors=(
        Detector(find),
        Detector(find_restarts, (1,), is_told=True),
    ),
    curves=WITH_MEMORY,
)
