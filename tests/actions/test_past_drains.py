"""A node policy tried on history: which nodes it would have drained, and what was broken from then
on. The rule fires at minute 2 and both waits are over at 122; four GPUs cost $2 an hour each.
"""

from decimal import Decimal

import pytest

from fleetwatch.actions.kinds.drain_node import DRAINED
from fleetwatch.actions.models import Action
from fleetwatch.actions.past_ladders import (
    DONE_BEFORE,
    ENDED_BEFORE,
    LIMITED,
    MUTED,
    try_on_history,
)
from fleetwatch.alerts.models import Incident, Silence
from fleetwatch.costs.models import Rate
from fleetwatch.jobs.models import SourceReport
from fleetwatch.lib.intervals import HOUR_MS, Interval
from tests.actions.node_factories import a_drain_policy, a_node, broken, hear, operators, walk
from tests.alerts.factories import at, ms

pytestmark = pytest.mark.django_db


def tried(policy, until: float = 720):
    hear(until)
    return try_on_history(policy, Interval(at(-60), at(until)))


def test_broken_gpu_hours_are_those_of_the_broken_gpu_alone():
    """Broken until 422: 300 minutes of one GPU at $2 an hour follow; a drain ends no job."""
    policy = a_drain_policy()
    gpu, *_ = a_node()
    broken(gpu, (0, 422, "xid_79"))

    done = tried(policy)

    [ladder] = done.ladders
    assert (ladder.subject.name, ladder.ended_ms) == ("gpu-07", ms(122))
    assert (ladder.gpu_ms, ladder.usd) == (5 * HOUR_MS, Decimal(10))
    assert (done.gpu_ms, done.usd, done.others) == (5 * HOUR_MS, Decimal(10), ())
    assert not Action.objects.exists()
    assert not Incident.objects.exists()


def test_it_says_what_the_ladder_did():
    policy = a_drain_policy()
    operators()
    gpu, *_ = a_node()
    broken(gpu)
    walk(2, 62, 122)

    [ladder] = tried(policy).ladders

    assert ladder.ended_ms == ms(122)
    assert Action.objects.get().acted_at == at(122)


@pytest.mark.parametrize(("until", "count"), [(121.9, 0), (122, 0), (122.1, 1)])
def test_what_was_over_by_the_second_wait_drains_nothing(until, count):
    policy = a_drain_policy()
    broken(a_node()[0], (0, until, "xid_79"))

    done = tried(policy)

    assert len(done.ladders) == count
    assert done.others == (() if count else ((ENDED_BEFORE, 1),))


@pytest.mark.parametrize(("most", "why"), [("8", None), ("7.99", LIMITED)])
def test_the_limit_counts_all_gpus_of_the_node(most, why):
    policy = a_drain_policy(max_usd_per_hour=Decimal(most))
    broken(a_node()[0], (0, 422, "xid_79"))

    assert tried(policy).others == (((why, 1),) if why else ())


def test_two_gpus_of_a_node_drain_it_once():
    policy = a_drain_policy()
    gpu, other, *_ = a_node()
    broken(gpu, (0, 422, "xid_79"))
    broken(other, (30, 422, "gpu_lost"))

    done = tried(policy)

    assert [each.trial.breach.subject for each in done.ladders] == [gpu.uuid]
    assert done.others == ((DONE_BEFORE, 1),)


@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        (-60, 2, None),  # resumed when the rule fires
        (-60, 2.1, DRAINED),
        (50, 60, DRAINED),
        (122, None, DRAINED),
        (122.1, None, None),
    ],
)
def test_a_node_that_was_drained_then_is_left_alone(start, end, why):
    policy = a_drain_policy()
    broken(a_node()[0], (0, 422, "xid_79"), (start, end, "drained"))

    assert tried(policy).others == (((why, 1),) if why else ())


def test_what_was_silenced_then_is_left_alone():
    policy = a_drain_policy()
    broken(a_node()[0], (0, 422, "xid_79"))
    Silence.objects.create(
        matchers=[{"label": "node", "values": ["gpu-07"], "is_not": False}], starts_at=at(0),
        ends_at=at(500), reason="a demo", created_at=at(0),
    )  # fmt: skip

    assert tried(policy).others == ((MUTED, 1),)


def test_without_slurm_or_a_rate_nothing_would_have_been_done():
    policy = a_drain_policy()
    broken(a_node()[0], (0, 422, "xid_79"))
    SourceReport.objects.all().delete()
    assert tried(policy).others[0][0].startswith("its node's agent never told of Slurm")

    policy.kind = "webhook"
    assert len(tried(policy).ladders) == 1

    Rate.objects.all().delete()
    assert tried(policy).others == (("what it costs is not known", 1),)
