"""A few held-out cases of each kind: fails when a class breaks. docs/benchmarks.md has the whole
matrix.
"""

import pytest

from benchmarks.bench_diagnosis import RIGHT, Judged, judged
from benchmarks.cases import EXTRAS, MIXTURES, NAMES

SEEDS = 1
SENSORS = ("all", "no_gpm")
# Without GPM these can't be told from other busy work, and small batches only where one thread is
# full.
NEEDS_GPM = {"memory_bound", "no_tensor_cores", "communication_bound"}
HARDER_WITHOUT_GPM = {"small_batch", "half_way_small_batch"}
SHARED = {"two_services", "service_and_small_batch"}  # two jobs on one GPU: mostly undetermined
WELL = ("healthy_llm", "healthy_vision", "healthy_eval", "hpc_fp64", "warm_up")


@pytest.fixture(scope="module")
def found() -> dict[str, Judged]:
    return judged(SEEDS, names=(*NAMES, *EXTRAS, *MIXTURES), sensors=SENSORS, first=0)


@pytest.mark.parametrize("sensors", SENSORS)
def test_each_kind_is_mostly_told_right(found, sensors):
    names = (
        {*NAMES, *EXTRAS, *MIXTURES}
        - SHARED
        - (NEEDS_GPM | HARDER_WITHOUT_GPM if sensors == "no_gpm" else set())
    )

    assert {name for name in names if found[sensors].share([name], RIGHT) < 70} == set()


@pytest.mark.parametrize("sensors", SENSORS)
def test_little_is_told_wrong_and_the_healthy_are_not_accused(found, sensors):
    one = found[sensors]

    assert one.share((*NAMES, *EXTRAS), "wrong") < 3
    assert one.share(WELL, "wrong") == 0
    assert one.accused() < 1


def test_what_a_missing_sensor_forbids_is_left_open_and_not_guessed(found):
    assert found["no_gpm"].share(NEEDS_GPM, "undetermined") > 95


def test_of_two_jobs_on_one_gpu_nothing_wrong_is_said(found):
    assert {sensors: one.share(SHARED, "wrong") for sensors, one in found.items()} == dict.fromkeys(
        SENSORS, 0
    )
