"""A cause as a newcomer would write it: this file, and its name in the tuple of causes/__init__."""

from fleetwatch.diagnosis.cause import DAYS, FREED, Cause, Facts, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import MEDIUM, Detector, Judged, at_least, below, judged
from fleetwatch.diagnosis.shell import ending


def find(f: Features) -> Judged:
    """It works half of the time, always."""
    signs = (at_least(f, "util", 0.4), below(f, "util", 0.6))
    return judged(signs, confidence=MEDIUM, recoverable=(0.1, 0.2))


def fewer(facts: Facts) -> tuple[Step, ...]:
    return (Step(f"Play on {facts.gpus} GPU at most.", "toys = 1"),)


CAUSE = Cause(
    code="half_at_play",
    title="Half at play",
    sentence="The GPU plays half of the time.",
    looks="As long at work as not.",
    sensors="utilisation",
    fixes=(Step("Put the toys away."),),
    effort=DAYS,
    range_words=FREED,
    alike="Work that looks like play.",
    tell=(Step("Ask it.", "ask --gpu"),),
    detectors=(Detector(find),),
    curves=("power_w",),
    steps=fewer,
    command=ending,
)
