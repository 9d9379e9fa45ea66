"""A rule tried on history says what the live evaluator did."""

import random
from dataclasses import replace
from decimal import Decimal

import pytest

from fleetwatch.alerts.back_test import Wait, back_test
from fleetwatch.alerts.breach import Watch
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.episodes import Episode
from fleetwatch.alerts.matchers import MATCHED
from fleetwatch.alerts.measuring.job_lanes import job_parts
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.selectors import view_of
from fleetwatch.alerts.services import evaluate, settings_of
from fleetwatch.alerts.suggested_times import Later, later
from fleetwatch.alerts.suggested_times import longer as longer_waits
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import Interval
from tests import stored_runs
from tests.alerts.factories import a_rule, at, longer, ms, ran
from tests.costs.factories import a_gpu, a_job, a_rate

pytestmark = pytest.mark.django_db


def tried(rule, start: float, end: float):
    return back_test(condition(rule.condition), settings_of(rule), (), Interval(at(start), at(end)))


def test_it_counts_incidents_people_and_dollars_while_they_were_open():
    rule = a_rule()
    for number, owner in enumerate(("ana", "ben", "ana")):
        gpu = a_gpu(node=f"node-{number}")
        job = a_job(key=f"slurm/della/{number}", user=owner)
        ran(gpu, "quiet", 0, 45, job=job)
        ran(gpu, "active", 45, 60, job=job)

    a_rate("4", gpu=gpu)

    done = tried(rule, -60, 120)

    assert (len(done.trials), done.owners, done.cost_usd, done.missing) == (3, 2, Decimal(9), 0)
    assert not Incident.objects.exists()


def test_a_longer_wait_is_suggested_that_opens_fewer_and_still_tells_of_most_dollars():
    """At $4 an hour 35 minutes of each of two jobs ($2.33) and 10 hours of a third ($40): from an
    hour on only that one, 90 % of the dollars.
    """
    rule = a_rule()
    for number, minutes in enumerate((35, 35, 600)):
        gpu = a_gpu(node=f"node-{number}")
        job = a_job(key=f"slurm/della/{number}")
        ran(gpu, "quiet", 0, minutes, job=job)
        ran(gpu, "active", minutes, minutes + 10, job=job)
    a_rate("4", gpu=gpu)

    rows = longer_waits(tried(rule, -60, 700))

    assert [(row.minutes, row.incidents, row.is_better) for row in rows] == [(60, 1, True)]
    assert round(rows[0].kept, 2) == Decimal("0.90")


def test_without_anything_that_lasts_longer_nothing_is_suggested():
    rule = a_rule()
    ran(a_gpu(), "quiet", 0, 35, job=a_job())

    assert longer_waits(tried(rule, -60, 60)) == []


def test_a_longer_wait_begins_anew_after_a_pause_that_ends_no_incident():
    """At $4 an hour one job idles for twice 50 minutes, five apart, which is one incident ($6.67),
    and another one for 70 minutes on end ($4.67): an hour on end is the other one's alone, 41 %.
    """
    rule = a_rule(clear_minutes=15)
    pausing, resting = a_gpu(node="n1"), a_gpu(node="n2")
    a_rate("4", gpu=pausing)
    job = a_job(key="slurm/della/1", user="ana")
    for start, end, what in ((0, 50, "quiet"), (50, 55, "active"), (55, 105, "quiet")):
        ran(pausing, what, start, end, job=job)
    ran(pausing, "active", 105, 130, job=job)
    other = a_job(key="slurm/della/2", user="ben")
    ran(resting, "quiet", 0, 70, job=other)
    ran(resting, "active", 70, 130, job=other)

    done = tried(rule, -60, 200)

    assert (len(done.trials), round(done.cost_usd, 2)) == (2, Decimal("11.33"))
    assert [(wait.minutes, wait.incidents) for wait in done.waits] == [(60, 1), (120, 0), (240, 0)]
    [row] = longer_waits(done)
    assert (row.owners, round(row.cost_usd, 2), row.is_better) == (1, Decimal("4.67"), False)
    assert round(row.kept, 2) == Decimal("0.41")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["job_idle", "gpu_idle", "orphaned", "job_spinning"])
def test_other_times_come_to_what_a_rule_that_is_set_so_would_open(name, seed):
    """A random day of four jobs that pause, and are not seen, for minutes and for hours."""
    dice = random.Random(f"{name} {seed}")
    watched = condition(name)
    what = {"orphaned": "orphaned", "job_spinning": "spinning"}.get(name, "quiet")
    for number in range(4):
        gpus = [a_gpu(node=f"n{number}", uuid=f"GPU-{number}-{place}") for place in (0, 1)]
        job = a_job(key=f"slurm/della/{number}", kind="batch")
        ran(gpus[1], "active" if name == "gpu_idle" else what, 0, 1200, job=_holder(job, what))
        minute = 0
        while minute < 1200:
            end = minute + dice.choice((5, 10, 25, 40, 70, 300))
            does = dice.choice((what, what, what, "active", "unobserved"))
            ran(gpus[0], does, minute, end, job=_holder(job, does))
            minute = end
    a_rate("4", gpu=gpus[0])
    settings = replace(watched.usual, minutes=10, clear_minutes=dice.choice((0, 8)))
    over = Interval(at(-60), at(1500))

    done = back_test(watched, settings, (), over)

    for wait in done.waits:
        so = back_test(watched, replace(settings, minutes=wait.minutes), (), over)
        assert wait == Wait(wait.minutes, len(so.trials), so.owners, so.cost_usd)
    for ending in done.endings:
        so = back_test(watched, replace(settings, clear_minutes=ending.minutes), (), over)
        assert ending.incidents == len(so.trials)
    assert len(done.trials) > done.endings[-1].incidents


def _holder(job, condition_name):
    return None if condition_name == "orphaned" else job


def test_what_resolves_later_joins_what_comes_again():
    """Idle for 35 minutes three times, 10 and then 100 minutes apart: of two or three incidents."""
    rule = a_rule()
    gpu = a_gpu()
    job = a_job()
    for begin, end, again in ((0, 35, 45), (45, 80, 180), (180, 215, 220)):
        ran(gpu, "quiet", begin, end, job=job)
        ran(gpu, "active", end, again, job=job)
    done = tried(rule, -60, 300)

    assert len(done.trials) == 3
    assert later(done) == [Later(15, 2, is_better=True), Later(240, 1, is_better=False)]

    rule.clear_minutes = 15
    assert later(tried(rule, -60, 300)) == [Later(240, 1, is_better=True)]


def test_what_joins_less_than_a_fifth_is_not_suggested():
    """Of six jobs one idles twice, ten minutes apart: six of seven incidents."""
    rule = a_rule()
    for number in range(6):
        gpu = a_gpu(node=f"node-{number}")
        job = a_job(key=f"slurm/della/{number}")
        ran(gpu, "quiet", 0, 35, job=job)
        ran(gpu, "active", 35, 40, job=job)
    ran(gpu, "quiet", 45, 80, job=job)
    ran(gpu, "active", 80, 85, job=job)

    assert later(tried(rule, -60, 300)) == [Later(15, 6, is_better=False)]


def test_what_telemetry_was_missing_for_is_counted_apart():
    rule = a_rule(min_coverage=0.9)
    gpu = a_gpu()
    job = a_job()
    ran(gpu, "quiet", 0, 20, job=job)
    ran(gpu, "unobserved", 20, 60, job=job)
    ran(gpu, "quiet", 60, 80, job=job)
    ran(gpu, "active", 80, 90, job=job)

    done = tried(rule, -60, 120)

    assert (len(done.trials), done.missing) == (0, 1)


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"verdict": "rejected"}, "rejected"),
        ({"verdict": "confirmed"}, "confirmed"),
        ({"muted": "accepted until 2026-12-06 03:38 UTC: a workshop"}, "rejected"),
        ({"muted": "silence until 2026-12-06 03:38 UTC: a workshop"}, ""),
    ],
)
def test_what_people_said_of_the_incident_that_was_is_shown(fields, verdict):
    rule = a_rule()
    gpu = a_gpu()
    ran(gpu, "quiet", 0, 40, job=a_job())
    announcing.run(at(40))
    Incident.objects.update(**fields)

    [trial] = tried(rule, -60, 60).trials

    assert trial.verdict == verdict


@pytest.mark.parametrize("seed", range(2))
def test_what_was_evaluated_each_five_minutes_is_what_the_back_test_says(seed):
    """A random day of three jobs: idle, active, and unseen in turns."""
    dice = random.Random(seed)
    rule = a_rule(clear_minutes=dice.choice((0, 4)), min_coverage=dice.choice((0.5, 1.0)))
    moves = {}
    for number in range(3):
        gpu = a_gpu(node=f"node-{number}")
        moves[gpu] = (a_job(key=f"slurm/della/{number}"), 0, None)
    for minute in range(5, 600, 5):
        for gpu, (job, until, run) in moves.items():
            if minute <= until:
                continue
            if run is None or dice.random() < 0.15:
                what = dice.choice(("quiet", "quiet", "active", "unobserved"))
                if run is None or what != run.condition:
                    moves[gpu] = (job, 0, ran(gpu, what, minute - 5, minute, job=job))
                    continue
            if run.condition == "unobserved":
                run.end_ms = ms(minute)
                stored_runs.replace(run)
            else:
                longer(run, minute)
        evaluate(at(minute))

    done = tried(rule, -60, minute)

    assert Run.objects.filter(condition="quiet").exists()
    assert sorted(
        Incident.objects.exclude(state="pending").values_list(
            "subject", "since_ms", "fired_ms", "until_ms", "ended_ms"
        )
    ) == sorted(
        (each.subject, each.since_ms, each.fired_ms, each.until_ms, each.ended_ms)
        for each in (trial.episode for trial in done.trials)
    )


@pytest.mark.parametrize("name", ["job_idle", "gpu_idle"])
def test_what_idle_jobs_are_weighed_by_is_what_is_told_of_them(name):
    works, idles = a_gpu(node="n1", index=0), a_gpu(node="n1", index=1, uuid="GPU-2")
    a_rate("4", gpu=works)
    both = a_job(key="slurm/della/1", user="ana")
    ran(works, "active" if name == "gpu_idle" else "quiet", 0, 45, job=both)
    ran(idles, "quiet", 0, 45, job=both)
    unpriced = a_gpu(node="n2", uuid="GPU-3", model="L4")
    nobodys = a_job(key="slurm/della/2", user="")
    ran(unpriced, "quiet", 0, 45, job=nobodys)
    watched = condition(name)
    watch = Watch(settings=watched.usual, start_ms=ms(-60), end_ms=ms(60))
    keys = (both.key, nobodys.key, "slurm/della/gone")
    wanted = [Episode(key, ms(0), ms(45), fired_ms=ms(30)) for key in keys]

    weighed = watched.weigh(wanted, watch, MATCHED)

    described = watched.describe(wanted, watch)
    assert [_weight(each) for each in weighed] == [_weight(each) for each in described]
    assert [each.cost_usd for each in weighed[:2]] == [
        Decimal(3) if name == "gpu_idle" else Decimal(6),
        None,
    ]
    assert weighed[2] is None


def test_no_label_that_nobody_asks_for_is_weighed():
    gpu = a_gpu(node="n1", index=0)
    job = a_job(key="slurm/della/1", user="ana")
    ran(gpu, "quiet", 0, 45, job=job)
    watched = condition("job_idle")
    watch = Watch(settings=watched.usual, start_ms=ms(-60), end_ms=ms(60))
    wanted = [Episode(job.key, ms(0), ms(45), fired_ms=ms(30))]

    assert watched.weigh(wanted, watch, ())[0].labels == {}
    assert watched.weigh(wanted, watch, {"node"})[0].labels["node"] == ("n1",)


def _weight(of):
    return of and (of.owner, of.cost_usd, of.labels)


def test_a_part_of_them_is_put_into_words():
    rule = a_rule()
    for number in range(3):
        gpu = a_gpu(node=f"node-{number}")
        ran(gpu, "quiet", number, 45, job=a_job(key=f"slurm/della/{number}"))
    done = tried(rule, -60, 120)

    shown = done.trials[:2]

    assert len(done.trials) == 3
    assert [trial.breach.subject for trial in shown] == ["slurm/della/2", "slurm/della/1"]


def test_a_pause_that_is_not_idle_makes_no_job_a_candidate():
    gpu = a_gpu()
    ran(gpu, "quiet", 0, 45, job=a_job(), state="stalled")
    settings = condition("job_idle").usual

    parts = job_parts(Watch(settings=settings, start_ms=ms(-60), end_ms=ms(60)), ("quiet",))

    assert len(parts.job_id) == 0


def test_each_episode_of_a_job_says_how_many_gpus_it_held_then():
    """One of two GPUs idles; later, grown to three, one of three."""
    gpus = [a_gpu(uuid=f"GPU-{name}", node="n") for name in "abc"]
    job = a_job()
    for held, start in ((2, 0), (3, 60)):
        for number, gpu in enumerate(gpus[:held]):
            ran(gpu, "active" if number else "quiet", start, start + 45, job=job)
    watched = condition("gpu_idle")
    watch = Watch(settings=watched.usual, start_ms=ms(-60), end_ms=ms(180))
    episodes = [Episode(job.key, ms(at), ms(at + 45), fired_ms=ms(at + 30)) for at in (0, 60)]

    breaches = watched.describe(episodes, watch)

    assert [each.what.partition(" of job")[0] for each in breaches] == [
        "1 of 2 GPUs",
        "1 of 3 GPUs",
    ]


def test_an_incident_lasts_as_long_as_the_minutes_of_its_ends_say_in_a_back_test_as_on_its_page():
    """From 09:00:42 to 13:41:18, which are 4 h 40 min 36 s: from 09:00 to 13:41 is 4 h 41 min."""
    rule = a_rule()
    gpu = a_gpu()
    job = a_job()
    ran(gpu, "quiet", 0.7, 281.3, job=job)
    ran(gpu, "active", 281.3, 300, job=job)

    announcing.run(at(300))
    [trial] = tried(rule, -60, 300).trials

    assert trial.lasted_ms == 281 * 60_000
    assert view_of(Incident.objects.get()).lasted_ms == 281 * 60_000
