"""Whether there is too much or too little of each GPU model, in the figures that say so. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.planning.model_hours import ModelHours, Spread, spread, total


@dataclass(frozen=True, slots=True)
class ModelLine:
    """Of one GPU model, or all ("") of them: the GPUs of the last hour, how many were held on the
    mean of an hour, and the period's GPU time.
    """

    gpu_model: str
    gpus: float
    held: Spread | None
    capacity_ms: int
    held_ms: int
    active_ms: int
    idle_ms: int
    free_ms: int
    whole_ms: int
    unseen_ms: int

    @property
    def held_share(self) -> float | None:
        """Held by jobs ÷ capacity, 0 to 1; None without capacity."""
        return self.held_ms / self.capacity_ms if self.capacity_ms else None

    @property
    def active_share(self) -> float | None:
        """At work ÷ capacity."""
        return self.active_ms / self.capacity_ms if self.capacity_ms else None

    @property
    def spare(self) -> float | None:
        """GPUs of the last hour that 95 of 100 hours left unheld; below 0: there are fewer GPUs now
        than were held then.
        """
        return None if self.held is None else self.gpus - self.held.p95

    @property
    def pieces_ms(self) -> int:
        """Free on nodes of which other GPUs were taken."""
        return self.free_ms - self.whole_ms

    @property
    def pieces_share(self) -> float | None:
        """Of what was free; None where nothing was."""
        return self.pieces_ms / self.free_ms if self.free_ms else None


def model_lines(models: Sequence[ModelHours]) -> list[ModelLine]:
    """A line for each model, the largest first."""
    lines = [_line(each) for each in models]
    return sorted(lines, key=lambda line: (-line.gpus, -line.capacity_ms, line.gpu_model))


def whole_line(models: Sequence[ModelHours]) -> ModelLine | None:
    """All models together, hour by hour: its p95 is not the sum of theirs. None without a model."""
    all_models = total(models)
    return _line(all_models) if all_models else None


def _line(hours: ModelHours) -> ModelLine:
    sums = hours.gpu_ms
    return ModelLine(
        hours.gpu_model,
        float(hours.parts.capacity_ms[-1]) / HOUR_MS,
        spread(hours.parts.held_ms, hours.parts.capacity_ms),
        *(int(part) for part in sums),
    )
