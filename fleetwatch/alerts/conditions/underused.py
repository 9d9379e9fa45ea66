"""The condition job_underused: a job whose GPUs run far below what they can, for hours."""

from functools import partial

from fleetwatch.alerts.breach import BELOW, Condition, Settings
from fleetwatch.alerts.conditions.stalled import measure
from fleetwatch.alerts.measuring.job_breaches import Telling, describe, weigh

TELLING = Telling(
    word="underused",
    tag="underused",
    did="{were} underused {lost} of the time",
    had="been underused {lost} of the time",
    limit="underused ≥ {threshold} % of the time for {minutes} min",
    states=("underused",),
)

CONDITION = Condition(
    name="job_underused",
    label="Underused for hours",
    sentence=(
        "Fires when a batch job's GPUs have been underused for at least {threshold} % of the time,"
        " half hour by half hour, for {minutes} minutes."
    ),
    kind="job",
    unit="%",
    low=5,
    high=100,
    clears=BELOW,
    usual=Settings(threshold=70, minutes=360, clear=60, min_coverage=0.8, grace_minutes=30),
    measure=partial(measure, state="underused", cleared="its GPUs are used better"),
    describe=partial(describe, telling=TELLING),
    weigh=partial(weigh, telling=TELLING),
    severity="info",
    every_minutes=5,
    covers="the underused part of its GPUs' time",
    state="underused",
)
