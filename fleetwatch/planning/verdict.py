"""What the hours of each GPU model allow to say of how many GPUs could be spared. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from fleetwatch.planning.model_lines import ModelLine

LEAST_HOURS = 24  # of fewer the 95th percentile is the busiest hour, and says nothing of a day
MOST_UNSEEN = 0.1  # of capacity: what nobody observed may have been in use


@dataclass(frozen=True, slots=True)
class Verdict:
    """`spare` is how many whole GPUs of which model 95 of 100 hours left unheld; `why_not` is why
    nothing can be said, "" where something can: "short" or "unseen".
    """

    gpus: int
    spare: list[tuple[str, int]]
    idle_gpus: float  # held and idle, on the mean
    unseen_share: float
    hours: int
    why_not: str

    @property
    def spare_gpus(self) -> int:
        return sum(number for _, number in self.spare)


def verdict(lines: Sequence[ModelLine], whole: ModelLine, hours: int) -> Verdict:
    """Of these models over so many whole hours. Models are spared one by one: what one has to spare
    is of no use to jobs of another.
    """
    unseen = whole.unseen_ms / whole.capacity_ms if whole.capacity_ms else 1.0
    spare = [(line.gpu_model, int(line.spare)) for line in lines if line.spare and line.spare >= 1]
    why_not = "short" if hours < LEAST_HOURS else "unseen" if unseen > MOST_UNSEEN else ""
    return Verdict(
        gpus=round(whole.gpus),
        spare=spare,
        idle_gpus=whole.gpus * whole.idle_ms / whole.capacity_ms if whole.capacity_ms else 0.0,
        unseen_share=unseen,
        hours=hours,
        why_not=why_not,
    )
