"""The condition job_hung: diagnosis says that a job runs and gets nowhere."""

from functools import partial

from fleetwatch.alerts.breach import Condition, Settings, Watch
from fleetwatch.alerts.episodes import Measured
from fleetwatch.alerts.measuring.job_breaches import Telling, describe, weigh
from fleetwatch.alerts.measuring.job_causes import measured
from fleetwatch.diagnosis.causes import STUCK


def measure(watch: Watch) -> Measured:
    """When each batch job had such a cause on one of its GPUs: its rule looks at all of them."""
    return measured(STUCK, watch, cleared="it moves again")


TELLING = Telling(
    word="hung",
    tag="hung",
    did="got nowhere",
    had="got nowhere",
    limit="stuck for {minutes} min",
    states=("stalled",),
)

CONDITION = Condition(
    name="job_hung",
    label="Job hung",
    sentence="Fires when a batch job has run and got nowhere for {minutes} minutes.",
    kind="job",
    unit="",
    low=0,
    high=0,
    usual=Settings(threshold=0, minutes=20),
    measure=measure,
    describe=partial(describe, telling=TELLING),
    weigh=partial(weigh, telling=TELLING),
    is_on=True,
    severity="critical",
    every_minutes=5,  # as diagnosis looks at the hour that goes on
    covers="the stalled part of its GPUs' time",
    state="stalled",
)
