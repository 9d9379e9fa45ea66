"""How many GPUs a bursty service needs: what its replicas do together, minute by minute. Pure.

Definition: docs/diagnosis.md; enough GPUs that all but 5 % (1 %) of minutes stay below FULL.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

FULL = 0.7  # utilisation at which one more replica is wanted
MINUTES = 30  # fewer say nothing of peaks


@dataclass(frozen=True, slots=True)
class Demand:
    """GPUs that were held, and that would have done: by the 95th percentile of minutes, and by the
    careful 99th.
    """

    held: int
    needed: int
    careful: int

    @property
    def spare(self) -> tuple[int, int]:
        """GPUs that could be given back, from the careful to the usual."""
        return self.held - self.careful, self.held - self.needed


def demand(by_gpu: Sequence[Sequence[float | None]]) -> Demand | None:
    """Of each GPU's mean utilisation by minute (None = not observed); None where too little was
    observed.
    """
    if not by_gpu:
        return None
    util = np.array(by_gpu, dtype=np.float64)  # makes None NaN
    seen = ~np.isnan(util).any(axis=0)
    if seen.sum() < MINUTES:
        return None
    wanted = util[:, seen].sum(axis=0) / FULL
    needed, careful = (
        max(1, min(len(by_gpu), ceil(float(np.percentile(wanted, p)) - 1e-9))) for p in (95, 99)
    )
    return Demand(len(by_gpu), needed, careful)
