"""A rule tried on history says what the live evaluator did."""

import random
from decimal import Decimal

import pytest

from fleetwatch.alerts.back_test import Later, back_test, later
from fleetwatch.alerts.back_test import longer as longer_waits
from fleetwatch.alerts.breach import Watch
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.episodes import Episode
from fleetwatch.alerts.matchers import MATCHED
from fleetwatch.alerts.measuring.job_lanes import job_parts
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.selectors import view_of
from fleetwatch.alerts.services import evaluate, settings_of
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

    rows = longer_waits(tried(rule, -60, 700), 30)

    assert [(row.minutes, len(row.tried.trials), row.is_better) for row in rows] == [(60, 1, True)]
    assert round(rows[0].kept, 2) == Decimal("0.90")


def test_without_anything_that_lasts_longer_nothing_is_suggested():
    rule = a_rule()
    ran(a_gpu(), "quiet", 0, 35, job=a_job())

    assert longer_waits(tried(rule, -60, 60), 30) == []


def test_what_resolves_later_joins_what_comes_again():
    """Idle for 35 minutes three times, 10 and then 100 minutes apart: of two or three incidents."""
    rule = a_rule()
    gpu = a_gpu()
    job = a_job()
    for begin, end in ((0, 35), (45, 80), (180, 215)):
        ran(gpu, "quiet", begin, end, job=job)
        ran(gpu, "active", end, end + 5, job=job)
    done = tried(rule, -60, 300)

    assert len(done.trials) == 3
    assert [done.joined(minutes) for minutes in (9, 10, 99, 100)] == [3, 2, 2, 1]
    assert later(done, 0) == [Later(15, 2, is_better=True), Later(240, 1, is_better=False)]
    assert later(done, 15) == [Later(240, 1, is_better=True)]


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

    assert later(tried(rule, -60, 300), 0) == [Later(15, 6, is_better=False)]


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


@pytest.mark.parametrize("seed", range(4))
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
