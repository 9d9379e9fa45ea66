"""The past with other GPUs, by hand: who waits, for how long, who never fits."""

from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.planning.replayed_runs import Hold, Run, alone, replay, runs, together

HOUR = 3_600_000
DAY = 24 * HOUR


def run(start, hours, *, gpus=1, model="H100"):
    return Run(model, start * HOUR, (hours * HOUR,) * gpus)


def replayed(*every, gpus=4, fewer=0, end=24, **more):
    counts = {"H100": [(0, gpus)], "A100": [(0, 2)]}
    return replay(every, counts, end * HOUR, fewer={"H100": fewer}, **more)["H100"]


def test_with_the_gpus_that_there_were_every_run_starts_when_it_did():
    outcome = replayed(run(0, 3, gpus=4), run(3, 2, gpus=2), run(3, 5, gpus=2))

    assert (outcome.runs, outcome.waited, outcome.unfit) == (3, 0, 0)
    assert outcome.fitted_ms == outcome.asked_ms == (12 + 4 + 10) * HOUR


def test_who_does_not_fit_waits_until_so_many_are_free():
    # of 3 GPUs the first takes two until 4:00; the second needs two at 1:00
    outcome = replayed(run(0, 4, gpus=2), run(1, 2, gpus=2), fewer=1)

    assert (outcome.waited, outcome.wait_ms) == (1, 3 * HOUR)
    assert (outcome.mean_wait_ms, outcome.mean_wait_of_all_ms) == (3 * HOUR, 1.5 * HOUR)
    assert outcome.fitted_ms == 12 * HOUR  # all of it before the day's end


def test_a_smaller_one_goes_past_it_and_of_equals_who_came_first():
    # 2 GPUs: one is held until 6:00. Two are asked for at 1:00 and, first, one at 2:00 until 8:00
    outcome = replayed(run(0, 6), run(1, 1, gpus=2), run(2, 6), run(3, 1), fewer=2)

    # 8:00 - 1:00, and 6:00 - 3:00: the last takes the GPU of the first, and both are free at 8:00
    assert (outcome.waited, outcome.wait_ms) == (2, (7 + 3) * HOUR)


def test_what_would_have_come_after_the_end_and_what_never_fits_stand_apart():
    outcome = replayed(run(0, 20, gpus=2), run(1, 10, gpus=2), run(2, 1, gpus=3), fewer=2, end=24)

    # the second starts at 20:00 and has 4 of its 10 hours before the end
    assert (outcome.fitted_ms, outcome.late_ms) == ((40 + 8) * HOUR, 12 * HOUR)
    assert (outcome.unfit, outcome.unfit_ms) == (1, 3 * HOUR)
    # 19 hours, and the one too large for 2 GPUs waits for nothing
    assert (outcome.waited, outcome.mean_wait_ms) == (1, 19 * HOUR)


def test_who_still_waits_at_the_end_has_waited_until_then():
    outcome = replayed(run(0, 30, gpus=2), run(4, 1), fewer=2)

    assert (outcome.waited, outcome.wait_ms, outcome.late_ms) == (1, 20 * HOUR, HOUR)
    assert (outcome.cut, outcome.longest_ms) == (1, 20 * HOUR)


def test_the_longest_wait_of_several_runs_is_one_runs_and_not_their_sum():
    outcome = replayed(run(0, 4, gpus=2), run(1, 1, gpus=2), run(2, 1, gpus=2), fewer=2)

    # 3 hours of the one, and 3 of the other: it starts at 5:00
    assert (outcome.cut, outcome.wait_ms, outcome.longest_ms) == (0, 6 * HOUR, 3 * HOUR)


def test_a_job_that_may_runs_on_another_model():
    both = run(0, 4, gpus=4), run(1, 2, gpus=2)

    assert replayed(*both).waited == 1
    assert replayed(*both, elsewhere=True).waited == 0
    assert replayed(run(0, 4, gpus=3), elsewhere=True, fewer=2).unfit == 1


def test_what_moves_is_told_of_the_model_that_it_leaves_and_the_one_that_it_comes_to():
    counts = {"H100": [(0, 4)], "A100": [(0, 2)]}
    every = run(0, 4, gpus=3), run(1, 30, gpus=2), run(2, 1, model="A100")
    outcomes = replay(every, counts, DAY, fewer={}, elsewhere=True)
    h100, a100 = outcomes["H100"], outcomes["A100"]

    # at 1:00 one H100 is free: the two go to the A100s, for 23 hours until the end; at 2:00 the
    # A100's own run takes the free H100
    assert (h100.moved, h100.moved_ms, h100.hosted) == (1, 2 * 23 * HOUR, 1)
    assert (a100.moved, a100.moved_ms, a100.hosted) == (1, HOUR, 1)
    assert replayed(*every[:2], fewer=1).moved == 0


def test_gpus_that_came_later_are_there_from_then_on():
    counts = {"H100": [(0, 1), (5 * HOUR, 3)]}
    outcome = replay([run(0, 9), run(2, 1, gpus=2)], counts, DAY, fewer={})["H100"]

    assert (outcome.waited, outcome.wait_ms) == (1, 3 * HOUR)


def test_gpus_that_a_job_takes_within_minutes_are_one_run():
    gang = [Hold(1, "H100", 7, 0, HOUR), Hold(2, "H100", 7, 90_000, HOUR)]
    later = Hold(3, "H100", 7, 300_001, HOUR)

    assert runs([*gang, later]) == [
        Run("H100", 0, (HOUR, HOUR)),
        Run("H100", 300_001, (HOUR - 300_001,)),
    ]


def test_a_gpu_that_another_job_still_held_is_no_part_of_the_run():
    before = Hold(2, "H100", 6, 0, 60_000)
    gang = [Hold(1, "H100", 7, 30_000, HOUR), Hold(2, "H100", 7, 60_000, HOUR)]

    assert [each.start_ms for each in runs([before, *gang])] == [0, 30_000, 60_000]


def test_jobs_that_share_a_gpu_hold_it_once():
    shared = [Hold(1, "H100", 7, 0, 10), Hold(1, "H100", 8, 5, 20), Hold(1, "H100", 9, 20, 30)]

    assert alone(shared) == [Hold(1, "H100", 7, 0, 20), Hold(1, "H100", 9, 20, 30)]


MINUTE = 60_000
HOLDS = st.lists(
    st.builds(
        lambda gpu, job, start, length: Hold(
            gpu, f"M{gpu % 2}", job, start * MINUTE, (start + length) * MINUTE
        ),
        st.integers(0, 5),
        st.integers(1, 4),
        st.integers(0, 60),
        st.integers(1, 40),
    ),
    max_size=24,
)


@given(HOLDS, st.integers(-2, 4), st.booleans())
def test_gpu_hours_are_conserved_and_none_fewer_changes_nothing(holds, fewer, elsewhere):
    counts = {"M0": [(0, 3)], "M1": [(0, 3)]}
    arrivals = runs(alone(holds))
    asked_ms = sum(min(kept, 80 * MINUTE - each.start_ms) for each in arrivals for kept in each[2])

    same = together([*replay(arrivals, counts, 80 * MINUTE, fewer={}).values()])
    other = replay(
        arrivals, counts, 80 * MINUTE, fewer=dict.fromkeys(counts, fewer), elsewhere=elsewhere
    )

    assert (same.waited, same.unfit, same.late_ms, same.fitted_ms) == (0, 0, 0, asked_ms)
    assert together([*other.values()]).asked_ms == asked_ms
    assert together([*other.values()]).runs == len(arrivals)
    # a run begins with its first GPU, some minutes before its last
    assert asked_ms >= sum(min(hold.end_ms, 80 * MINUTE) - hold.start_ms for hold in alone(holds))
