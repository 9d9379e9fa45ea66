"""A job that idles in spells: what is a pause, what is over, and what each spell costs."""

from decimal import Decimal

import pytest

from fleetwatch.alerts.incidents.incident_inbox import open_sums
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.selectors import view_of
from fleetwatch.dashboard.incident_pages import is_left, next_steps
from fleetwatch.notify.models import Delivery
from fleetwatch.notify.services import create_channel
from tests.alerts.factories import a_rule, at, ms, ran
from tests.costs.factories import a_gpu, a_job, a_rate

pytestmark = pytest.mark.django_db


def spells(*pieces: tuple[str, float, float], evaluated: tuple[float, ...]) -> Incident:
    """A job's only GPU was so, quiet spells of 20 minutes and more being idle."""
    a_rule(clear_minutes=15)
    gpu = a_gpu(node="node-014", index=3)
    a_rate("4", gpu=gpu)
    job = a_job(key="slurm/della/1", user="ana")
    looks = list(evaluated)
    for condition, start, end in pieces:
        while looks and looks[0] <= start:
            announcing.run(at(looks.pop(0)))
        is_idle = condition == "quiet" and end - start >= 20
        state = "idle" if is_idle else "stalled"
        ran(gpu, condition, start, end, job=job, state_ms={state: ms(end) - ms(start)})
    for minute in looks:
        announcing.run(at(minute))
    return Incident.objects.latest("pk")


def test_a_pause_that_ended_before_it_was_idle_is_over_once_it_was_as_long_as_the_rule_says():
    incident = spells(
        ("quiet", 0, 40),
        ("active", 40, 41),
        ("quiet", 41, 58),
        ("active", 58, 59),
        evaluated=(40, 59),
    )

    assert incident.state == "resolved"
    assert incident.ended_ms == ms(40)


def test_a_shorter_pause_ends_nothing():
    incident = spells(
        ("quiet", 0, 40),
        ("active", 40, 41),
        ("quiet", 41, 50),
        ("active", 50, 51),
        evaluated=(40, 51),
    )

    assert incident.state == "firing"
    assert incident.note == (
        "It stopped being idle at 09:40 UTC; it resolves at 09:55 UTC if that lasts, and fires on if"
        " it is idle again."
    )


def test_what_is_seen_active_burns_nothing_from_the_first_minute_on_and_is_not_to_be_ended():
    incident = spells(("quiet", 0, 40), ("active", 40, 42), evaluated=(40, 42))

    sums = open_sums(Incident.objects.all(), at(45))
    view = view_of(incident)
    assert incident.state == "firing"
    assert incident.has_stopped
    # 40 minutes at $4 an hour, and not a cent more by 09:45
    assert f"{view.breach.cost_usd:.2f}" == f"{sums.cost_usd:.2f}" == "2.67"
    assert sums.usd_per_hour is None
    assert view.what == "The only GPU of job slurm/della/1 did nothing"
    assert next_steps([view], at(45)) == {}


def test_no_figure_falls_when_the_newest_minutes_turn_out_to_be_work():
    """Judged two minutes late, each two minutes; from 09:44 on the job works."""
    a_rule(clear_minutes=15)
    gpu = a_gpu(node="node-014", index=3)
    a_rate("6", gpu=gpu)
    job = a_job(key="slurm/della/1", user="ana")
    ran(gpu, "quiet", 0, 38, job=job, state_ms={"idle": ms(38) - ms(0)})
    figures = []
    for minute in range(40, 52, 2):
        condition, state = ("quiet", "idle") if minute <= 44 else ("active", "useful")
        ran(gpu, condition, minute - 2, minute, job=job, state_ms={state: ms(2) - ms(0)})
        announcing.run(at(minute + 2))
        view = view_of(Incident.objects.get())
        sums = open_sums(Incident.objects.all(), at(minute + 3.5))
        figures.append((view.lasted_ms // 60_000, view.breach.cost_usd, sums.cost_usd))

    # $6 an hour: ten cents a minute
    counted = [(minute, Decimal(minute) / 10) for minute in (40, 42, 44, 44, 44, 44)]
    assert figures == [(minute, usd, usd) for minute, usd in counted]


def test_a_pause_that_goes_on_says_when_it_is_idle_again_and_nothing_is_to_be_ended_meanwhile():
    """A quiet run of a batch job is idle by the policy from 15 minutes on."""
    incident = spells(("quiet", 0, 40), ("active", 40, 41), ("quiet", 41, 50), evaluated=(40, 50))

    assert incident.state == "firing"
    assert incident.note == (
        "It stopped being idle at 09:40 UTC and has been quiet since 09:41 UTC: idle again if still"
        " quiet at 09:56 UTC, over if it works before, at 09:55 UTC at the earliest."
    )
    assert incident.is_quiet_again
    assert is_left(incident)


def test_a_pause_that_is_long_enough_by_now_but_not_judged_is_quiet_still():
    incident = spells(("quiet", 0, 40), ("active", 40, 41), ("quiet", 41, 50), evaluated=(40, 58))

    assert incident.state == "firing"
    assert incident.note == (
        "It stopped being idle at 09:40 UTC and has been quiet since 09:41 UTC: idle again from"
        " 09:56 UTC on, once that time is judged."
    )
    assert incident.is_quiet_again


def test_a_pause_with_a_gap_in_its_data_says_from_when_on_it_is_counted():
    incident = spells(
        ("quiet", 0, 40),
        ("active", 40, 41),
        ("quiet", 41, 50),
        ("unobserved", 50, 52),
        ("quiet", 52, 60),
        evaluated=(40, 60),
    )

    assert incident.note == (
        "It stopped being idle at 09:40 UTC and has been quiet since 09:41 UTC (counted from 09:52"
        " UTC on, no data before): idle again if still quiet at 10:07 UTC, over if it works before."
    )


def test_what_a_note_has_no_room_for_is_left_out_and_no_sentence_is_cut():
    """Around midnight each moment has its day."""
    start = 14 * 60.0
    incident = spells(
        ("quiet", start, start + 40),
        ("active", start + 40, start + 41),
        ("quiet", start + 41, start + 50),
        ("unobserved", start + 50, start + 52),
        ("quiet", start + 52, start + 62),
        evaluated=(start + 40, start + 62),
    )

    assert incident.note == (
        "It stopped being idle at Fri 20 Nov, 23:40 UTC and has been quiet since Fri 20 Nov, 23:41"
        " UTC: idle again if still quiet at 00:07 UTC, over if it works before."
    )


def test_what_nobody_saw_work_did_not_stop_where_its_data_has_a_gap():
    incident = spells(
        ("quiet", 0, 40), ("unobserved", 40, 42), ("quiet", 42, 50), evaluated=(40, 50)
    )

    assert incident.state == "firing"
    assert not incident.has_stopped
    assert incident.note == (
        "No data from 09:40 UTC to 09:42 UTC, quiet since: idle again if still quiet at 09:57 UTC."
    )


@pytest.mark.parametrize("hours", [10, 23])
def test_a_gap_longer_than_a_rule_looks_back_is_one_at_each_look(hours):
    back = 40 + hours * 60
    incident = spells(
        ("quiet", 0, 40), ("quiet", back, back + 10), evaluated=(40, back - 1, back + 10, back + 11)
    )

    assert not incident.has_stopped
    assert incident.note.startswith("No data from ")
    assert incident.note.partition(", quiet since: ")[2].startswith("idle again if still quiet at ")


def test_what_rests_for_longer_than_a_rule_looks_back_rests_since_it_stopped():
    """A policy may call sessions idle after hours alone."""
    incident = spells(
        ("quiet", 0, 40),
        ("active", 40, 41),
        *(("quiet", 41 + 19 * n, 60 + 19 * n) for n in range(10)),
        evaluated=(40, *range(50, 231, 15), 231),
    )

    assert "has been quiet since 09:41 UTC: " in incident.note


def test_what_is_over_and_rests_again_says_when_it_worked_and_that_it_opens_again():
    """As notebooks do: a cell now and then, and nothing between."""
    incident = spells(
        ("quiet", 0, 40),
        ("active", 40, 40.5),
        ("quiet", 40.5, 56),
        ("active", 56, 57),
        ("quiet", 57, 60),
        evaluated=(40, 60),
    )

    assert incident.state == "resolved"
    assert incident.resolution == (
        "it worked at 09:40 UTC for 30 s and at 09:56 UTC for 1 m, and was quiet again from 09:57"
        " UTC; a new incident opens after 30 minutes of that"
    )


@pytest.mark.parametrize(
    ("now", "then"),
    [
        (80, "a new incident opens after 30 minutes of that"),
        (86.9, "a new incident opens after 30 minutes of that"),
        (87, "idle again since, by which it was known to be over"),
    ],
)
def test_what_is_over_and_rests_again_says_what_follows_from_that(now, then):
    """It rests from 09:57 on: another incident's time once it did so for half an hour."""
    spells(
        ("quiet", 0, 40),
        ("active", 40, 40.5),
        ("quiet", 40.5, 56),
        ("active", 56, 57),
        ("quiet", 57, now),
        evaluated=(40, now),
    )

    assert Incident.objects.get(state="resolved").resolution == (
        "it worked at 09:40 UTC for 30 s and at 09:56 UTC for 1 m, and was quiet again from 09:57"
        f" UTC; {then}"
    )


def test_what_worked_many_times_says_how_often():
    worked = [("active", 40 + 4 * n, 41 + 4 * n) for n in range(5)]
    quiet = [("quiet", 41 + 4 * n, 44 + 4 * n) for n in range(5)]
    between = [each for pair in zip(worked, quiet, strict=True) for each in pair]

    incident = spells(("quiet", 0, 40), *between, evaluated=(40, 60))

    assert incident.resolution.startswith(
        "it worked 5 times from 09:40 UTC on, 5 m in all, and was quiet again from 09:57 UTC;"
    )


def test_the_one_gpu_of_a_job_that_works_is_said_to_be_one():
    incident = spells(("quiet", 0, 40), ("active", 40, 56), evaluated=(40, 56))

    assert incident.resolution == "its GPU is active again"


def test_what_worked_and_then_ended_says_when_it_did_and_when_its_allocation_ended():
    """Its idle time ended with that work at 09:40, and not with its allocation at 09:49."""
    a_rule(clear_minutes=15)
    create_channel("slack", "ops", {"webhook_url": "https://hooks.example/x"}, now=at(0))
    gpu = a_gpu(node="node-014", index=3)
    job = a_job(key="slurm/della/1", user="ana")
    ran(gpu, "quiet", 0, 40, job=job, state_ms={"idle": ms(40) - ms(0)})
    announcing.run(at(40))
    ran(gpu, "active", 40, 41, job=job)
    ran(gpu, "quiet", 41, 49, job=job, state_ms={"stalled": ms(8) - ms(0)})
    job.end_ms = ms(49)
    job.save(update_fields=["end_ms"])
    ran(gpu, "free", 49, 55)

    announcing.run(at(55))

    incident = Incident.objects.get()
    assert incident.until_ms == ms(40)
    assert incident.resolution == (
        "it worked at 09:40 UTC for 1 m; the allocation ended at 09:49 UTC"
    )
    sent = Delivery.objects.get(key=f"group/{incident.group_id}/resolved")
    assert sent.message["summary"].startswith(
        "Job slurm/della/1: it worked at 09:40 UTC for 1 m; the allocation ended at 09:49 UTC. The"
    )


def test_what_idles_again_after_a_short_pause_says_how_much_of_the_time_and_since_when():
    incident = spells(("quiet", 0, 40), ("active", 40, 45), ("quiet", 45, 85), evaluated=(40, 85))

    breach = view_of(incident).breach
    assert incident.state == "firing"
    assert breach.since_ms == ms(0)
    assert breach.lines[0] == (
        "Idle",
        "all but 5 m: paused for less than 15 minutes at 09:40 UTC (worked for 5 m)",
    )
    # 80 minutes at $4 an hour; while it idles an hour costs all of that
    assert f"{breach.cost_usd:.2f}" == "5.33"
    assert breach.usd_per_hour == 4


def test_one_spell_across_the_hour_is_one():
    incident = spells(("quiet", 0, 85), evaluated=(40, 85))

    assert [label for label, _ in view_of(incident).breach.lines] == ["Memory held"]


def test_a_look_at_a_moment_of_the_past_knows_nothing_of_what_came_after_it():
    a_rule()
    gpu = a_gpu()
    ran(gpu, "quiet", 0, 60, job=a_job(key="slurm/della/1"))

    announcing.run(at(20))

    incident = Incident.objects.get()
    assert (incident.state, incident.until_ms) == ("pending", ms(20))
