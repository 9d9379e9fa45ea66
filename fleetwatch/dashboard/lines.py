"""Lines of tables that more than one page has."""

from dataclasses import dataclass

from fleetwatch.dashboard.bars import Segment
from fleetwatch.figures.selectors import Totals
from fleetwatch.inventory.models import GPU


@dataclass(frozen=True, slots=True)
class GPULine:
    """A GPU with its figures and its states over the period."""

    gpu: GPU
    totals: Totals
    segments: list[Segment]
