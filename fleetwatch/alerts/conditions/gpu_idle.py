"""The condition gpu_idle: some GPUs of a job idle while others work."""

from functools import partial
from math import ceil

from fleetwatch.alerts.breach import BELOW, Condition, Settings, Watch
from fleetwatch.alerts.conditions.job_idle import describe, measure, some_idle, weigh
from fleetwatch.alerts.episodes import Measured


def measured(watch: Watch) -> Measured:
    """How each job with an idle GPU stood to the rule; one that is idle whole is job_idle's."""
    levels = partial(some_idle, settings=watch.settings)
    return measure(watch, levels, needed=ceil(watch.settings.threshold))


CONDITION = Condition(
    name="gpu_idle",
    label="GPUs of a job idle",
    sentence=(
        "Fires when {threshold} or more GPUs of a job, but not all of them, have been idle for"
        " {minutes} minutes."
    ),
    kind="job",
    unit="GPUs",
    low=1,
    high=10_000,
    clears=BELOW,
    usual=Settings(threshold=1, minutes=30),
    measure=measured,
    describe=describe,
    weigh=weigh,
    is_on=True,
    being="idle",
    covers="the time of its idle GPUs",
    state="idle",
)
