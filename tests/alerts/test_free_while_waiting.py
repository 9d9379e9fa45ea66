"""The condition free_while_waiting, from batches of agents to incidents: through the real door and
the real ledger.
"""

import pytest

from fleetwatch.alerts.back_test import back_test
from fleetwatch.alerts.breach import Settings, Watch, stored_breach
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.conditions.free_while_waiting import CONDITION
from fleetwatch.alerts.episodes import Level
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.services import evaluate, settings_of
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms
from tests.alerts.factories import a_rule
from tests.diagnosis.test_capacity import waits
from tests.ledger.fleet import BUSY, EMPTY, MINUTE, T0, Sender, a_job, held, post

pytestmark = pytest.mark.django_db

TEN = 10 * MINUTE


def at(minutes: float):
    return from_ms(T0 + int(minutes * MINUTE))


def fleet(pending, *, free=(EMPTY,) * 60, busy=(BUSY,) * 60, **queue) -> None:
    """An hour of two nodes of two GPUs: n1 works for a job and tells the queue's demand, each ten
    minutes; n2 had a job before.
    """
    works = Sender(gpus=2)
    other = Sender(node="n2", gpus=2)
    post(
        other.batch(
            T0 - HOUR_MS,
            *[BUSY] * 60,
            jobs=[a_job("slurm/della/9")],
            allocations=[held(gpu, start=T0 - HOUR_MS, end=T0) for gpu in range(2)],
        ),
        works.batch(
            T0,
            *busy,
            jobs=[a_job()],
            allocations=[held(gpu) for gpu in range(2)],
            host=waits(*pending) | queue,
        ),
        other.batch(T0, *free),
        now=at(70),
    )


def measured(*, threshold: float = 2, clear: float | None = None) -> dict[str, list[tuple]]:
    """Spans by cluster, in minutes from T0, within that hour."""
    settings = Settings(threshold=threshold, minutes=30, clear=clear)
    spans = CONDITION.measure(Watch(settings=settings, start_ms=T0, end_ms=T0 + 68 * MINUTE)).spans
    return {
        name: [
            ((span.start_ms - T0) / MINUTE, (span.end_ms - T0) / MINUTE, span.level) for span in own
        ]
        for name, own in spans.items()
    }


def test_a_node_that_is_free_altogether_while_as_many_gpus_are_waited_for():
    fleet([0, 0, 4, 4, 4, 0])

    assert measured() == {
        "della": [(0, 20, Level.CLEAR), (20, 50, Level.BREACH), (50, 60, Level.CLEAR)]
    }


@pytest.mark.parametrize(
    ("threshold", "pending", "level"),
    [
        (2, 1, Level.CLEAR),  # one job wants one GPU
        (2, 2, Level.BREACH),
        (1, 1, Level.BREACH),
        (3, 9, Level.CLEAR),  # only two are free
    ],
)
def test_no_more_than_is_free_and_no_more_than_is_waited_for(threshold, pending, level):
    fleet([pending] * 6)

    assert measured(threshold=threshold) == {"della": [(0, 60, level)]}


def test_single_free_gpus_accuse_nobody():
    works = Sender(gpus=2)
    post(
        works.batch(T0, *[EMPTY] * 60, jobs=[a_job()], allocations=[held()], host=waits(*[4] * 6)),
        now=at(70),
    )

    assert measured(threshold=1) == {"della": [(0, 60, Level.CLEAR)]}


def test_where_nobody_tells_of_the_queue_nothing_is_known():
    fleet([4, 4, None, None, 4, 4])

    assert measured() == {"della": [(0, 20, Level.BREACH), (40, 60, Level.BREACH)]}


def test_what_nobody_saw_neither_fires_nor_resolves():
    fleet([4] * 6, free=[*[EMPTY] * 30, *[None] * 30])

    assert measured() == {"della": [(0, 30, Level.BREACH)]}


def test_of_what_nobody_saw_it_is_clear_where_nobody_waits():
    fleet([4, 4, 4, 0, 0, 0], free=[*[EMPTY] * 30, *[None] * 30])

    assert measured()["della"][-1] == (30, 60, Level.CLEAR)


def test_five_minutes_alone_are_the_schedulers_own_pace():
    told = {
        "start_ms": [T0 + step * MINUTE for step in range(60)],
        "pending_gpus": [2.0 if 20 <= step < 25 else 0.0 for step in range(60)],
    }
    fleet([0] * 6, **told)

    assert measured() == {"della": [(0, 60, Level.CLEAR)]}


def test_a_gpu_that_was_retired_does_not_keep_its_node():
    fleet([4] * 6)
    GPU.objects.filter(uuid="GPU-n2-1").update(retired_ms=T0 - MINUTE)

    assert measured(threshold=1) == {"della": [(0, 60, Level.BREACH)]}


def test_it_fires_and_says_how_many_and_why_that_may_be():
    rule = a_rule(condition="free_while_waiting", threshold=2, minutes=30, evaluated_ms=T0)
    fleet([4] * 6)

    announcing.run(at(68))

    incident = Incident.objects.get(rule=rule)
    breach = stored_breach(incident.facts)
    assert (incident.subject, incident.state) == ("della", "firing")
    assert incident.fired_ms == T0 + 30 * MINUTE
    assert breach.what == "At least 2 GPUs of cluster della stood free while jobs waited for them"
    assert breach.facts == {"free": 2, "pending": 4}
    assert breach.labels == {"cluster": ("della",), "cause": ("queue_or_scheduler",)}
    assert "squeue -t PD" in breach.actions[0]


def test_what_was_evaluated_each_five_minutes_is_what_the_back_test_says():
    rule = a_rule(condition="free_while_waiting", threshold=2, minutes=15, evaluated_ms=T0)
    fleet([4, 4, 0, 0, 4, 4])
    for minute in range(0, 70, 5):
        evaluate(at(minute + 3))

    trials = back_test(
        condition("free_while_waiting"),
        settings_of(rule),
        (),
        Interval(at(-60), at(68)),
    ).trials

    live = Incident.objects.order_by("-since_ms")
    assert [(each.since_ms, each.fired_ms) for each in live] == [
        (trial.episode.since_ms, trial.episode.fired_ms) for trial in trials
    ]
    assert [each.since_ms for each in live] == [T0 + 4 * TEN, T0]
