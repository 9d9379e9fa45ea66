"""The condition job_spinning: every GPU of a job shows a busy kernel and draws hardly more than
idle.
"""

from functools import partial

import numpy as np

from fleetwatch.alerts.breach import Condition, Settings, Watch
from fleetwatch.alerts.conditions.job_idle import all_idle
from fleetwatch.alerts.episodes import Measured
from fleetwatch.alerts.measuring import job_lanes
from fleetwatch.alerts.measuring.job_breaches import Telling, describe, weigh
from fleetwatch.alerts.measuring.judged_jobs import judged_jobs


def measure(watch: Watch) -> Measured:
    """How each batch job with a GPU that spins stood to the rule: in breach where all of them do,
    clear where one works.
    """
    parts = job_lanes.job_parts(watch, ("spinning",))
    # an inference engine polls: that is how it waits
    jobs = judged_jobs(np.unique(parts.job_id).tolist(), watch)
    ours = parts.where(np.isin(parts.job_id, list(jobs)))
    spinning = ours.within(("spinning",))
    working = ours.within(("active",))
    return job_lanes.measured(ours.marked(spinning, working), all_idle, watch)


TELLING = Telling(
    word="spinning",
    tag="spinning",
    did="showed a busy kernel near idle power",
    had="shown a busy kernel near idle power",
    limit="busy near idle power for {minutes} min",
    states=("stalled",),
)

CONDITION = Condition(
    name="job_spinning",
    label="Spinning near idle power",
    sentence=(
        "Fires when every GPU of a batch job has shown a busy kernel near idle power for {minutes}"
        " minutes."
    ),
    kind="job",
    unit="",
    low=0,
    high=0,
    usual=Settings(threshold=0, minutes=30, min_coverage=0.8, grace_minutes=15),
    measure=measure,
    describe=partial(describe, telling=TELLING),
    weigh=partial(weigh, telling=TELLING),
    every_minutes=5,
    covers="the stalled part of its GPUs' time",
    state="stalled",
)
