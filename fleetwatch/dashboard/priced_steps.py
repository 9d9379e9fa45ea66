"""What a printed step alone would have saved, in words beside it. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from fleetwatch.dashboard import numbers
from fleetwatch.diagnosis.cause import Step
from fleetwatch.diagnosis.cause_totals import Saving


def saving_step(steps: Iterable[Step]) -> int | None:
    """The number of the first step that was measured, as the list has it; None where none was."""
    return next((number for number, step in enumerate(steps, 1) if step.saved_gpu_ms), None)


def with_savings(steps: Iterable[Step], worth: Saving | None) -> list[Step]:
    """The steps, the first that was measured in dollars of what it could save; `worth` None: none
    is told of it.
    """
    every = list(steps)
    measured = next((step for step in every if step.saved_gpu_ms), None)
    if measured is None or worth is None or not worth.high_usd:
        return every
    sentence = f"With this step about {numbers.usd(worth.high_usd)}."
    priced = replace(measured, detail=f"{measured.detail} {sentence}".strip())
    return [priced if step is measured else step for step in every]
