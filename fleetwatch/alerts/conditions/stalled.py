"""The conditions stalled and underused: a job of whose GPU time a large share is stalled (or
underused), by the ledger's five-minute pieces.
"""

from functools import partial

import numpy as np

from fleetwatch.alerts.breach import BELOW, Condition, Settings, Watch
from fleetwatch.alerts.conditions import low_utilisation
from fleetwatch.alerts.episodes import Level, Measured
from fleetwatch.alerts.measuring.job_breaches import Telling, describe, weigh
from fleetwatch.alerts.measuring.job_cells import JobCells, Share, job_cells, measured
from fleetwatch.alerts.measuring.job_lanes import Ints, Mask
from fleetwatch.ledger.judgement.cell_states import CELL_MS

# of half an hour, as diagnosis looks at work: a loader's pauses come and go within minutes
TRAILING = 6
# a job that works less hardly works at all: that is low_utilisation's
WORKS = low_utilisation.CONDITION.usual.threshold / 100


def measure(watch: Watch, *, state: str, cleared: str) -> Measured:
    """Which share of each batch job's time, half an hour back from each five minutes, was in the
    state.
    """
    settings = watch.settings

    def suspects(cells: JobCells) -> Mask:
        # no half hour reaches the threshold unless five minutes of it do
        is_reached: Mask = _share(cells, state).reached(settings) == Level.BREACH
        return is_reached

    cells = job_cells(watch, suspects, lead_ms=TRAILING * CELL_MS)
    half_hours = cells.trailing(TRAILING)
    levels = _levels(half_hours, _share(half_hours, state).reached(settings))
    return measured(cells, levels, watch, cleared=cleared)


def _share(cells: JobCells, state: str) -> Share:
    return Share.of(getattr(cells, state), cells.seen, cells.unseen)


def _levels(cells: JobCells, reached: Ints) -> Ints:
    """Neither where the job mostly rests, nor where it hardly works."""
    hardly_works = cells.useful + cells.underused < WORKS * cells.seen
    return np.where(cells.rests | hardly_works, Level.BETWEEN, reached)


TELLING = Telling(
    word="stalled",
    tag="stalled",
    did="{were} stalled {lost} of the time",
    had="been stalled {lost} of the time",
    limit="stalled ≥ {threshold} % of the time for {minutes} min",
    states=("stalled",),
)

CONDITION = Condition(
    name="job_stalled",
    label="Stalled share",
    sentence=(
        "Fires when a batch job's GPUs have been stalled for at least {threshold} % of the time,"
        " half hour by half hour, for {minutes} minutes."
    ),
    kind="job",
    unit="%",
    low=5,
    high=85,
    clears=BELOW,
    usual=Settings(threshold=50, minutes=60, clear=40, min_coverage=0.8, grace_minutes=30),
    measure=partial(measure, state="stalled", cleared="its GPUs wait less"),
    describe=partial(describe, telling=TELLING),
    weigh=partial(weigh, telling=TELLING),
    is_on=True,
    every_minutes=5,
    covers="the stalled part of its GPUs' time",
    state="stalled",
)
