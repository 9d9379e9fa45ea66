"""What a printed step alone would have saved, where that was measured. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from fleetwatch.dashboard import numbers
from fleetwatch.diagnosis.cause import Step
from fleetwatch.diagnosis.cause_totals import Saving

WHOLE = Fraction(1)


def share_of(step: Step, saving: Saving) -> Fraction | None:
    """How much of what a finding could save at most the step alone saves, 0 to 1; None where that
    was not measured.

    The step was measured over all of the job's idle time: of a period that has a part of it, it
    saves as large a part.
    """
    of_ms = max(step.idle_gpu_ms, saving.high_ms)
    if not step.saved_gpu_ms or not of_ms:
        return None
    return min(Fraction(step.saved_gpu_ms, of_ms), WHOLE)


def part_of(saving: Saving, share: Fraction | None) -> Saving:
    """That share of the most that could be saved; all of the range where none is known."""
    if share is None:
        return saving
    part_ms = int(saving.high_ms * share)
    part_usd = saving.high_usd * share.numerator / share.denominator
    return Saving(part_ms, part_ms, part_usd, part_usd)


def with_savings(steps: Iterable[Step], saving: Saving) -> list[Step]:
    """The steps, in dollars of what the finding could save: never more than that."""
    return [_with_saving(step, saving) for step in steps]


def _with_saving(step: Step, saving: Saving) -> Step:
    share = share_of(step, saving)
    if share is None or not saving.high_usd:
        return step
    sentence = f"With this step about {numbers.usd(part_of(saving, share).high_usd)}."
    return replace(step, detail=f"{step.detail} {sentence}".strip())
