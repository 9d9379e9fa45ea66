"""Hours whose columns are gone: what comes late is counted, capacity stays whole."""

from datetime import timedelta

import pytest

from fleetwatch.inventory.models import GPU, Node
from fleetwatch.ledger import services
from fleetwatch.ledger.models import Adjustment, Entry
from fleetwatch.ledger.months import closing
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.telemetry import retention, selectors
from fleetwatch.telemetry.models import LateHour
from tests.ledger.balance import unbalanced
from tests.ledger.fleet import (
    BUSY,
    EMPTY,
    MINUTE,
    NOW,
    START,
    T0,
    Sender,
    a_job,
    held,
    ledger,
    post,
    states,
    store,
)

pytestmark = pytest.mark.django_db

DAY_MS = 24 * HOUR_MS
DAYS = 10  # the node's silence, with columns kept for 3 days


@pytest.fixture(autouse=True)
def _three_days(settings):
    settings.RAW_RETENTION_DAYS = 3


def balanced(now):
    return unbalanced(START - timedelta(hours=2), START + timedelta(days=DAYS + 1), now=now) == []


def back(sender, *says, **keys):
    """The node's first batch after its silence, and when it came."""
    now = START + timedelta(days=DAYS, hours=1)
    retention.apply(now)
    post(sender.batch(T0 + DAYS * DAY_MS, *says, **keys), now=now)
    return now


@pytest.mark.parametrize(
    ("after", "is_late"),
    [
        (timedelta(days=3, minutes=59, seconds=59), False),
        (timedelta(days=3, hours=1), True),
        (timedelta(days=3, hours=1, seconds=1), True),
    ],
)
def test_an_hour_is_final_when_its_retention_is_over(after, is_late):
    sender = Sender()
    post(sender.batch(T0 + HOUR_MS, *[EMPTY] * 60), now=START + timedelta(hours=2))
    now = START + after
    retention.apply(now)

    did = post(sender.batch(T0, *[EMPTY] * 60), now=now)

    assert did["late"] == 0
    assert LateHour.objects.exists() == is_late
    assert states() == ({"free": HOUR_MS} if is_late else {"free": 2 * HOUR_MS})
    assert balanced(now)


def test_late_hours_are_counted_by_node_and_batch():
    sender = Sender()
    post(sender.batch(T0 + 2 * HOUR_MS, *[EMPTY] * 60), now=START + timedelta(hours=4))
    now = START + timedelta(days=5)
    twice = sender.batch(T0 + 50 * MINUTE, *[EMPTY] * 30)

    post(twice, twice, sender.batch(T0, *[EMPTY] * 5), now=now)

    assert selectors.late(Node.objects.get().pk) == selectors.Late(2, 3, now) == selectors.late()
    assert selectors.late(0) == selectors.Late(0, 0, None)


def test_a_node_that_returns_after_its_columns_are_gone_was_unobserved_capacity():
    sender = Sender()
    post(sender.batch(T0, *[BUSY] * 25, jobs=[a_job()], allocations=[held(end=T0 + 60 * MINUTE)]))
    before = ledger()

    now = back(sender, *[EMPTY] * 60)

    assert states("n1", "state", "reason") == {
        ("useful", ""): 25 * MINUTE,
        ("unobserved", "missing"): DAYS * DAY_MS - 25 * MINUTE,
        ("free", ""): HOUR_MS,
    }
    assert set(before) <= set(ledger())
    assert balanced(now)
    services.repost(T0, T0 + DAYS * DAY_MS)
    assert services.post(now, 10_000)["changed"] == 0


def test_what_was_lost_before_the_silence_stays_unavailable():
    sender = Sender()
    lost = {"events": [{"gpu": 0, "at_ms": T0 + 10 * MINUTE, "kind": "gpu_lost"}]}
    post(
        sender.batch(
            T0, *[BUSY] * 10, jobs=[a_job()], allocations=[held(end=T0 + 10 * MINUTE)], **lost
        )
    )

    now = back(sender, EMPTY, events=[{"gpu": 0, "at_ms": T0 + DAYS * DAY_MS, "kind": "gpu_ok"}])

    assert states() == {
        "useful": 10 * MINUTE,
        "unavailable": DAYS * DAY_MS - 10 * MINUTE,
        "free": MINUTE,
    }
    assert balanced(now)


def test_a_parent_and_its_instances_share_the_silence():
    instance = {
        "uuid": "MIG-n1-0",
        "index": 9,
        "parent_uuid": "GPU-n1-0",
        "mig_profile": "3g.40gb",
        "sm_count": 33,
    }
    sender = Sender(extra_gpus=[instance])
    mapping = sender.batch(
        T0, *[BUSY] * 60, jobs=[a_job()], allocations=[held(gpu=1, end=T0 + 60 * MINUTE)]
    )
    mapping["gpus"][0]["sm_count"] = 132
    post(mapping)

    now = back(sender, *[EMPTY] * 60)

    assert sum(states().values()) == DAYS * DAY_MS + HOUR_MS
    assert balanced(now)


def test_in_a_closed_month_the_silence_is_an_adjustment():
    early = START.replace(month=10, day=28)
    shift = round((START - early).total_seconds() * 1000)
    sender = Sender()
    post(
        sender.batch(T0 - shift, *[EMPTY] * 25),
        sender.batch(T0 - shift + 25 * MINUTE, EMPTY),
        now=early + timedelta(hours=1),
    )
    closing.close_month(early.date().replace(day=1), by="ann", now=early.replace(month=11, day=2))
    now = early + timedelta(days=DAYS, hours=1)

    post(sender.batch(T0 - shift + DAYS * DAY_MS, *[EMPTY] * 60), now=now)

    assert set(Adjustment.objects.values_list("state", "cause")) == {
        ("unobserved", "capacity changed")
    }
    assert Entry.objects.filter(start__lt=early.replace(month=11, day=1, hour=0)).count() == 1
    assert unbalanced(early, now + timedelta(hours=1), now=now) == []


def test_a_gpu_that_did_not_come_back_gives_its_silence_back():
    sender = Sender(gpus=2)
    post(sender.batch(T0, *[EMPTY] * 25))
    sender.gpus = 1
    now = back(sender, *[EMPTY] * 60)
    gone = GPU.objects.get(uuid="GPU-n1-1")
    assert states("n1", "gpu__index")[1] == DAYS * DAY_MS + HOUR_MS

    GPU.objects.filter(pk=gone.pk).update(retired_ms=gone.last_ms)
    services.repost(T0 + DAYS * DAY_MS, T0 + DAYS * DAY_MS + HOUR_MS)
    services.post(now, 10_000)

    assert states("n1", "gpu__index")[1] == 25 * MINUTE
    assert balanced(now)


def test_a_gpu_that_is_retired_within_an_hour_keeps_what_was_seen_of_it():
    sender = Sender(gpus=2)
    post(sender.batch(T0, *[EMPTY] * 25, host={"start_ms": [T0 + 59 * MINUTE]}))
    assert states("n1", "gpu__index", "state")[1, "unobserved"] == 35 * MINUTE
    sender.gpus = 1
    now = back(sender, *[EMPTY] * 60)
    gone = GPU.objects.get(uuid="GPU-n1-1")

    GPU.objects.filter(pk=gone.pk).update(retired_ms=gone.last_ms)
    services.repost(T0 + DAYS * DAY_MS, T0 + DAYS * DAY_MS + HOUR_MS)
    services.post(now, 10_000)

    assert {key: ms for key, ms in states("n1", "gpu__index", "state").items() if key[0] == 1} == {
        (1, "free"): 25 * MINUTE
    }
    assert balanced(now)


def test_hours_that_become_final_while_they_wait_are_posted_all_the_same():
    post(Sender().batch(T0, *[EMPTY] * 60), now=NOW)
    sender = Sender("n2")
    store(sender.batch(T0, *[EMPTY] * 60), now=START + timedelta(days=3, minutes=59))

    did = services.post(START + timedelta(days=3, hours=20), 100)

    assert (did["late"], states("n2")) == (0, {"free": HOUR_MS})


def test_a_policy_that_judges_by_more_than_is_kept_is_refused():
    services.set_policy(Policy(idle_service_s=20 * 3600), now=NOW)

    with pytest.raises(ValueError, match="reaches farther than the columns"):
        services.set_policy(Policy(idle_service_s=24 * 3600), now=NOW)
