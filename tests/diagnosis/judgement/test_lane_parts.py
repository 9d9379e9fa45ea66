"""Jobs are judged over their own time: nothing of it is lost, nothing is judged twice."""

import numpy as np
import pytest

from fleetwatch.diagnosis.judgement import lane_parts
from fleetwatch.diagnosis.judgement.verdicts import NOT_HELD, judge
from tests.diagnosis.factories import lanes

CELLS = 40


def held(*stretches: tuple[int, int]) -> list[list[bool]]:
    """A row per stretch [first, last) of CELLS cells."""
    return [[first <= cell < last for cell in range(CELLS)] for first, last in stretches]


def two_jobs():
    """A job of two GPUs in the first eight cells, of which the second is held later, and one in all
    cells.
    """
    util = np.tile(np.linspace(0.0, 1.0, CELLS), (3, 1))
    return lanes(jobs=[1, 1, 2], held=held((2, 8), (4, 10), (0, CELLS)), util_mean=util)


def test_each_held_cell_is_in_one_part_with_what_was_read_of_it():
    whole = two_jobs()
    seen = np.zeros(whole.held.shape, dtype=int)

    for part in lane_parts.parts(whole, since=0, few=0):
        at = (part.rows[:, None], part.columns)
        np.add.at(seen, at, part.lanes.held)
        assert (part.lanes.figures["util_mean"] == whole.figures["util_mean"][at]).all()
        assert (part.lanes.job_id == whole.job_id[part.rows]).all()

    assert (seen == whole.held).all()


def test_a_jobs_gpus_are_in_one_part_and_start_with_the_first_that_is_held():
    short, long = lane_parts.parts(two_jobs(), since=0, few=0)

    assert (short.rows.tolist(), short.columns[:, 0].tolist(), short.lanes.held.shape) == (
        [0, 1],
        [2, 2],
        (2, lane_parts.SHORTEST),
    )
    assert (long.rows.tolist(), long.columns[:, 0].tolist(), long.lanes.held.shape) == (
        [2],
        [0],
        (1, CELLS),
    )


def test_a_job_that_ended_before_the_wanted_cells_is_in_no_part():
    assert [part.rows.tolist() for part in lane_parts.parts(two_jobs(), since=9, few=0)] == [
        [0, 1],
        [2],
    ]
    assert [part.rows.tolist() for part in lane_parts.parts(two_jobs(), since=10)] == [[2]]


@pytest.mark.parametrize(("few", "lengths"), [(0, [16, 40]), (47, [16, 40]), (48, [40])])
def test_few_short_jobs_go_with_the_longer_ones(few, lengths):
    # two lanes of 16 cells in those of 40: 48 cells more
    assert [
        part.lanes.held.shape[1] for part in lane_parts.parts(two_jobs(), since=0, few=few)
    ] == lengths


def test_a_job_is_judged_as_if_it_were_alone():
    ranks = [[0.0] * CELLS, [0.9] * CELLS, [0.9] * CELLS]
    stretches = ((0, 30), (0, 30), (25, CELLS))
    both = judge(lanes(jobs=[1, 1, 2], held=held(*stretches), util_mean=ranks, util_max=ranks))
    alone = judge(
        lanes(jobs=[1, 1], held=held(*stretches[:2]), util_mean=ranks[:2], util_max=ranks[:2])
    )

    assert (both.cause[:2] == alone.cause).all()
    assert (both.cause[2, :25] == NOT_HELD).all()


def test_nobody_holds_anything():
    assert (
        list(
            lane_parts.parts(lanes(jobs=[1], held=held((0, 0)), util_mean=[[0.0] * CELLS]), since=0)
        )
        == []
    )
