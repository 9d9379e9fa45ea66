"""The condition low_utilisation: a job that hardly uses its GPUs, by the ledger's five-minute
pieces.
"""

from functools import partial

import numpy as np

from fleetwatch.alerts.breach import ABOVE, Condition, Settings, Watch
from fleetwatch.alerts.episodes import Level, Measured
from fleetwatch.alerts.measuring.job_breaches import Telling, describe, weigh
from fleetwatch.alerts.measuring.job_cells import JobCells, Share, job_cells, measured
from fleetwatch.alerts.measuring.job_lanes import Ints


def measure(watch: Watch) -> Measured:
    """How much of the time that its GPUs were not idle each batch job used them."""
    settings = watch.settings
    cells = job_cells(watch, lambda cells: levels(cells, settings) == Level.BREACH)
    return measured(cells, levels(cells, settings), watch, cleared="its GPUs are used again")


def levels(cells: JobCells, settings: Settings) -> Ints:
    """In breach where the share in use is below the threshold (per cent), whatever those GPUs did
    that nobody saw; neither where the job mostly rests.
    """
    used = Share.of(cells.useful + cells.underused, cells.seen, cells.unseen)
    return np.where(cells.rests, Level.BETWEEN, used.below(settings))


TELLING = Telling(
    word="low utilisation",
    tag="hardly used",
    did="worked {rest} of the time",
    had="worked {rest} of the time",
    limit="used < {threshold} % of the time for {minutes} min",
    states=("stalled",),
    several="hardly used",
)

CONDITION = Condition(
    name="low_utilisation",
    label="Low utilisation",
    sentence=(
        "Fires when a batch job has used its GPUs less than {threshold} % of the time for {minutes}"
        " minutes."
    ),
    kind="job",
    unit="%",
    low=1,
    high=90,
    clears=ABOVE,
    usual=Settings(threshold=15, minutes=120, clear=20, min_coverage=0.8, grace_minutes=30),
    measure=measure,
    describe=partial(describe, telling=TELLING),
    weigh=partial(weigh, telling=TELLING),
    is_on=True,
    every_minutes=5,
    covers="the stalled part of its GPUs' time",
    state="stalled",
)
