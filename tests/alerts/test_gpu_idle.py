"""How the GPUs of one job stand to the rule, by how many of them are idle."""

from functools import partial

import numpy as np
import pytest

from fleetwatch.alerts.breach import Settings
from fleetwatch.alerts.conditions.job_idle import some_idle
from fleetwatch.alerts.episodes import Level
from fleetwatch.alerts.measuring.job_lanes import Counts

SETTINGS = Settings(threshold=2, minutes=30, clear=1)


@pytest.mark.parametrize(
    ("idle", "level"), [(2, Level.BREACH), (1, Level.BETWEEN), (0, Level.CLEAR)]
)
def test_of_four_gpus_two_idle_ones_fire_and_it_is_over_below_the_clear_value(idle, level):
    row = partial(np.full, 1)
    counts = Counts(
        job_id=row(1),
        start_ms=row(0),
        end_ms=row(60_000),
        held=row(4),
        breaching=row(idle),
        clear=row(4 - idle),
        unseen=row(0),
    )

    assert some_idle(counts, settings=SETTINGS).tolist() == [level]
