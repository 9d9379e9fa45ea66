"""Steps of an advice with what each alone would have saved, where that was measured. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from fleetwatch.dashboard import numbers
from fleetwatch.diagnosis.cause import Step
from fleetwatch.diagnosis.cause_totals import Saving


def with_savings(steps: Iterable[Step], saving: Saving) -> list[Step]:
    """The steps, in dollars of what the finding could save: never more than that."""
    return [_with_saving(step, saving) for step in steps]


def _with_saving(step: Step, saving: Saving) -> Step:
    if not step.saved_gpu_ms or not saving.high_usd:
        return step
    saved_ms = min(step.saved_gpu_ms, saving.high_ms)
    usd = saving.high_usd * saved_ms / saving.high_ms
    sentence = f"With this step about {numbers.usd(usd)}."
    return replace(step, detail=f"{step.detail} {sentence}".strip())
