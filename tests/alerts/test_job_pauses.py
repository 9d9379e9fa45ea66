"""What is said of the time in which a job was not idle between times in which it was: pauses that
were too short to end that, apart from gaps in its data.
"""

from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest

from fleetwatch.alerts.measuring import job_pauses
from fleetwatch.alerts.measuring.job_lanes import Part, Parts
from fleetwatch.alerts.measuring.job_pauses import Pause, pause_words, paused_in_words, pauses
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.selectors import view_of
from fleetwatch.ledger.policy import CONDITIONS
from fleetwatch.lib.intervals import from_ms
from tests.alerts.factories import a_rule, at, ms, ran
from tests.alerts.test_messages import an_idle_gpu
from tests.costs.factories import a_gpu, a_job, a_rate

words = partial(pause_words, clear_minutes=15, clock=lambda at_ms: f"{from_ms(at_ms):%H:%M}")


def lane(gpu_id: int, *pieces: tuple[str, float, float]) -> list[Part]:
    """What a GPU of job 1 did; "idle" is quiet for long enough."""
    return [
        Part(1, gpu_id, ms(start), ms(end), CONDITIONS.index(_condition(what)), what == "idle")
        for what, start, end in pieces
    ]


def _condition(what: str) -> str:
    return "quiet" if what == "idle" else what


def paused(*lanes: list[Part], until: float = 100) -> list[Pause]:
    gpus = [an_idle_gpu(lane[0].gpu_id, since_ms=ms(0), until_ms=ms(until)) for lane in lanes]
    return pauses({(1, lane[0].gpu_id): lane for lane in lanes}, 1, gpus)


def pause(start: float, end: float, *, worked: float = 0, unseen: float = 0) -> Pause:
    return Pause(ms(start), ms(end), int(worked * 60_000), int(unseen * 60_000))


def test_a_pause_goes_from_one_idle_time_to_the_next_with_the_rests_in_it():
    parts = lane(
        3,
        ("idle", 0, 40),
        ("active", 40, 41),
        ("quiet", 41, 50),
        ("spinning", 50, 51),
        ("idle", 51, 100),
    )

    assert paused(parts) == [pause(40, 51, worked=2)]


def test_what_nobody_saw_is_a_gap_whether_the_ledger_says_so_or_has_nothing():
    said = lane(3, ("idle", 0, 40), ("unobserved", 40, 44), ("idle", 44, 100))
    nothing = lane(3, ("idle", 0, 40), ("idle", 44, 100))

    assert paused(said) == paused(nothing) == [pause(40, 44, unseen=4)]
    assert paused(said)[0].is_gap


def test_work_beside_a_gap_is_a_pause_and_both_have_their_time():
    parts = lane(3, ("idle", 0, 40), ("active", 40, 42), ("unobserved", 42, 45), ("idle", 45, 100))

    assert paused(parts) == [pause(40, 45, worked=2, unseen=3)]
    assert not paused(parts)[0].is_gap


def test_gpus_of_a_job_that_pause_at_once_pause_once():
    first = lane(3, ("idle", 0, 40), ("active", 40, 44), ("idle", 44, 100))
    second = lane(4, ("idle", 0, 41), ("active", 41, 46), ("idle", 46, 100))

    assert paused(first, second) == [pause(40, 46, worked=6)]


def test_what_lies_before_and_after_its_idle_time_is_no_pause_of_it():
    parts = lane(3, ("active", -5, 0), ("idle", 0, 40), ("active", 40, 50))

    assert paused(parts, until=40) == []


@pytest.mark.parametrize(
    ("minutes", "says"),
    [
        (14.9, "paused for less than 15 minutes at 09:40 (worked for 14 m)"),
        (15, "paused at 09:40 (worked for 15 m)"),
        (15.1, "paused at 09:40 (worked for 15 m)"),
    ],
)
def test_a_pause_is_said_to_be_short_where_it_is_shorter_than_what_ends_it(minutes, says):
    short = pause(40, 40 + minutes, worked=minutes)

    assert words([short]) == f"all but {int(minutes)} m: {says}"


def test_a_rule_that_ends_at_once_says_of_no_pause_that_it_is_short():
    said = words([pause(40, 41, unseen=0, worked=1)], clear_minutes=0)

    assert said == "all but 1 m: paused at 09:40 (worked for 1 m)"


@pytest.mark.parametrize(
    ("minutes", "says"), [(0.5, "30 s"), (59 / 60, "59 s"), (1, "1 m"), (61 / 60, "1 m")]
)
def test_less_than_a_minute_is_said_in_seconds(minutes, says):
    said = words([pause(40, 40 + minutes, worked=minutes)])

    assert said == (f"all but {says}: paused for less than 15 minutes at 09:40 (worked for {says})")


def test_work_and_missing_data_are_told_apart_each_with_its_time():
    said = words([pause(40, 51, worked=2), pause(70, 74, unseen=4)])

    assert said == (
        "all but 15 m: paused for less than 15 minutes at 09:40 (worked for 2 m of 11 m);"
        " no data at 10:10 for 4 m"
    )


def test_a_gap_alone_is_no_pause():
    assert words([pause(70, 74, unseen=4)]) == "all but 4 m: no data at 10:10 for 4 m"


def test_two_are_named_each_and_three_are_counted():
    two = [pause(40, 42, worked=2), pause(60, 63, worked=1)]
    three = [*two, pause(80, 90, worked=1, unseen=2)]

    assert words(two) == (
        "all but 5 m: paused for less than 15 minutes at 09:40 (worked for 2 m) and at 10:00"
        " (worked for 1 m of 3 m)"
    )
    assert words(three) == (
        "all but 15 m: paused 3 times for less than 15 minutes each, from 09:40 to 10:30"
        " (worked for 4 m of 15 m, no data for 2 m)"
    )


def test_many_gaps_are_counted():
    gaps = [pause(10 * n, 10 * n + 2, unseen=2) for n in range(4, 7)]

    assert words(gaps) == "all but 6 m: no data 3 times from 09:40 on, 6 m in all"


def test_what_neither_worked_nor_is_missing_rested():
    assert words([pause(40, 42)]) == (
        "all but 2 m: paused for less than 15 minutes at 09:40 (rested for 2 m)"
    )


def test_where_the_ledger_has_no_pause_any_more_none_is_said(monkeypatch):
    """It was written again after it was asked for how long the GPU was idle."""
    whole = {(1, 3): lane(3, ("idle", 0, 100))}
    monkeypatch.setattr(job_pauses, "_lanes_of", lambda *_: whole)
    gpu = replace(an_idle_gpu(3, since_ms=ms(0), until_ms=ms(100)), idle_ms=ms(95) - ms(0))

    assert paused_in_words({0: [gpu]}, {0: 1}, 15) == {}


def test_beside_a_job_that_idles_for_weeks_no_other_is_read_as_far_back(monkeypatch):
    week = 7 * 24 * 60
    since = {1: -2 * week, 2: 0, 3: 10}  # minutes
    asked = []

    def read(job_ids, start_ms, end_ms):
        asked.append((job_ids.tolist(), start_ms, end_ms))
        return Parts(*(np.zeros(0, dtype=np.int64) for _ in fields(Parts)))

    monkeypatch.setattr(job_pauses, "parts_of", read)
    idle = {
        job: [replace(an_idle_gpu(job, since_ms=ms(start), until_ms=ms(100)), idle_ms=0)]
        for job, start in since.items()
    }

    paused_in_words(idle, {job: job for job in since}, 15)

    assert asked == [([1], ms(-2 * week), ms(100)), ([2, 3], ms(0), ms(100))]


@pytest.mark.django_db
class TestIncident:
    def idled(self, *between: tuple[str, float, float], until: float, gpus: int = 1) -> Incident:
        """A job at $4 an hour for each GPU, idle from nine on but for what is `between`."""
        a_rule(clear_minutes=15)
        job = a_job(key="slurm/della/1", user="ana")
        cuts = [0, *(cut for _, *cuts in between for cut in cuts), until]
        idle = [("quiet", start, end) for start, end in zip(cuts[::2], cuts[1::2], strict=True)]
        every = [a_gpu(node="node-014", index=index) for index in range(gpus)]
        a_rate("4", gpu=every[0])  # its model's
        for gpu in every:
            for what, start, end in sorted([*idle, *between], key=lambda each: each[1]):
                state = "idle" if what == "quiet" else "useful"
                ran(gpu, what, start, end, job=job, state_ms={state: ms(end) - ms(start)})
        announcing.run(at(until))
        return Incident.objects.get()

    @pytest.mark.parametrize(
        ("condition", "says"),
        [
            ("active", "paused for less than 15 minutes at 09:40 UTC (worked for 5 m)"),
            ("unobserved", "no data at 09:40 UTC for 5 m"),
        ],
    )
    @pytest.mark.parametrize("gpus", [1, 2])
    def test_it_says_what_the_ledger_has_of_the_time_between(self, condition, says, gpus):
        breach = view_of(self.idled((condition, 40, 45), until=85, gpus=gpus)).breach

        assert dict(breach.lines)["Idle"] == f"all but 5 m: {says}"
        # 80 of 85 minutes at $4 an hour
        assert f"{breach.cost_usd:.2f}" == f"{80 / 60 * 4 * gpus:.2f}"

    def test_work_and_a_gap_of_one_incident_stand_side_by_side(self):
        breach = view_of(self.idled(("active", 40, 42), ("unobserved", 70, 73), until=110)).breach

        assert dict(breach.lines)["Idle"] == (
            "all but 5 m: paused for less than 15 minutes at 09:40 UTC (worked for 2 m);"
            " no data at 10:10 UTC for 3 m"
        )

    def test_what_idles_all_the_time_says_nothing_of_pauses(self):
        breach = view_of(self.idled(until=85)).breach

        assert not breach.spells
        assert breach.facts["pauses"] == ""
