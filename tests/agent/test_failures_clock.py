"""What clocks do to the agent; the list is in test_failures."""

import time

import pytest

from agent import sampler
from agent.clock import elapsed_s
from agent.readings import Allocation, Reading, Workload
from tests.agent.daemon import Daemon, of_first_gpu
from tests.agent.factories import START


@pytest.fixture
def daemon(tmp_path):
    daemon = Daemon(tmp_path / "spool")
    yield daemon
    daemon.spool.close()


def test_durations_are_the_boot_clocks_which_goes_on_through_a_suspend():
    assert elapsed_s() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=5)


def test_the_clock_set_an_hour_ahead_skips_the_hour_and_begins_a_new_batch(daemon):
    daemon.go(15)
    daemon.times.go(0, wall=3600)

    daemon.go(30)
    daemon.loop.flush()

    sent = daemon.batches()
    starts = of_first_gpu(sent)
    assert starts[0] == (0, 9000)  # the agent began a second into it
    assert starts[1][0] == 10
    assert 5000 <= starts[1][1] <= 6500  # until the jump
    assert [start for start, _ in starts[2:]] == [3610, 3620, 3630]
    assert [observed for _, observed in starts[3:]] == [10_000, 10_000]
    assert all(one.end_ms - one.start_ms < 60_000 for one in sent)


def test_the_clock_set_an_hour_back_keeps_what_was_read_and_mixes_nothing(daemon):
    daemon.source.read = lambda uuid, now_ms: Reading(now_ms, util=1.0)
    daemon.go(25)
    daemon.times.go(0, wall=-3600.4)  # readings of both times lie between each other
    daemon.source.read = lambda uuid, now_ms: Reading(now_ms, util=0.5)

    daemon.go(3640)
    daemon.loop.flush()

    sent = daemon.batches()
    means = {}
    for one in sent:
        for start, mean in zip(one.windows["start_ms"], one.windows["util_mean"], strict=True):
            means.setdefault((start - START) // 1000, set()).add(mean)
    assert means[0] == means[10] == means[20] == {1.0, 0.5}  # once by each time, never a mixture
    assert means[-3570] == {0.5}
    assert all(one.end_ms - one.start_ms < 60_000 for one in sent)


def test_an_allocation_that_began_in_a_future_the_clock_left_still_holds_its_gpu(daemon):
    daemon.go(15)
    daemon.times.go(0, wall=-3600)

    daemon.go(40)
    daemon.loop.flush()

    last = daemon.batches()[-1]
    assert all(item["start_ms"] < last.end_ms for item in last.allocations)
    assert len(last.allocations) == 2


@pytest.mark.parametrize(
    ("late_ms", "starts"), [(0, []), (5000, []), (9999, []), (10_000, [START]), (60_000, [START])]
)
def test_who_began_just_after_the_windows_end_is_the_next_windows_holder(late_ms, starts):
    books = Workload(
        allocations=[Allocation("GPU-1", "slurm/c/1", "slurm", START + 10_000 + late_ms)]
    )

    within = sampler.within(books, START, START + 10_000)

    assert [item.start_ms for item in within.allocations] == starts


@pytest.mark.parametrize("drift", [0.0001, -0.0001])
def test_the_clock_that_drifts_is_followed_without_losing_a_window(daemon, drift):
    for _ in range(60):
        daemon.go(100)
        daemon.times.go(0, wall=100 * drift)  # 0.6 s over the whole, once beyond what is followed
    daemon.go(5)
    daemon.loop.flush()

    starts = of_first_gpu(daemon.batches())
    assert [start for start, _ in starts] == list(range(0, 6000, 10))
    assert sum(observed >= 9000 for _, observed in starts) == len(starts)


def test_a_suspend_of_the_host_claims_nothing_for_the_sleep(daemon):
    daemon.go(15)
    daemon.times.go(8 * 3600)

    daemon.go(20)
    daemon.loop.flush()

    starts = of_first_gpu(daemon.batches())
    assert [start for start, _ in starts] == [0, 10, 28_810, 28_820]
    assert sum(observed for _, observed in starts) < 40_000


def test_a_loop_that_waited_four_minutes_for_a_disk_catches_up_with_every_window(daemon):
    for _ in range(245):
        daemon.times.go(1)
        daemon.sampler.tick(daemon.clock.now_ms())

    for _ in range(24):
        daemon.loop.advance()
    daemon.loop.flush()

    starts = of_first_gpu(daemon.batches())
    assert starts == [(0, 9000), *((start, 10_000) for start in range(10, 240, 10))]
