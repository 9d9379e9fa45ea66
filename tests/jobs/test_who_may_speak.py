"""What a node may say of jobs: of those that it holds.

The attacks of a node on the jobs of its neighbours.
"""

import itertools
from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.wire import WireError
from fleetwatch.ingest.models import Rights
from fleetwatch.ingest.services import ImportRefusedError
from fleetwatch.ingest.tokens import NO_RIGHTS
from fleetwatch.inventory.services import node_by_name
from fleetwatch.jobs import selectors
from fleetwatch.jobs.job_writes import FUTURE_MS, MAX_USERS
from fleetwatch.jobs.models import Allocation, Job, JobRecord
from fleetwatch.jobs.selectors import contradictions, namesakes
from fleetwatch.lib.intervals import from_ms
from fleetwatch.telemetry.models import TouchedHour
from tests.ingest.factories import NOW, NOW_MS, T0, gpu, holding, job
from tests.jobs.speakers import (
    DELLA,
    STOLEN,
    accounting,
    owner,
    owners,
    store,
    the_job,
)

pytestmark = pytest.mark.django_db
BOOTS = itertools.count()
MINE = ("ann", "nlp", "nlp", "batch", "", {})


def test_a_node_that_does_not_hold_a_job_rewrites_nothing_of_it():
    store(**holding(job(state="RUNNING")))

    store(node="evil", start_ms=T0 + 30_000, jobs=[job(**STOLEN, state="COMPLETED", end_ms=T0)])

    assert owner() == MINE
    assert (the_job().state, the_job().end_ms) == ("RUNNING", None)
    assert contradictions(the_job()) == []


def test_a_node_that_claims_a_job_later_is_shown_and_holds_another_one():
    store(**holding(job(state="RUNNING")))

    store(node="evil", start_ms=T0 + 30_000, **holding(job(**STOLEN, state="COMPLETED", end_ms=T0)))

    assert owner() == MINE
    assert (the_job().state, the_job().end_ms) == ("RUNNING", None)
    assert [(told.node, told.fact, told.value) for told in contradictions(the_job())] == [
        ("evil", "user", "victim"),
        ("evil", "account", "victim-team"),
        ("evil", "kind", "service"),
    ]
    # which ended as it began
    assert owners() == {("ann", "nlp", "nlp"): 30_000, ("victim", "victim-team", "victim-team"): 0}
    assert [other.own_key for other in namesakes(the_job())] == ["slurm/della/1~2"]


def test_a_job_that_was_claimed_before_it_existed_is_whom_its_own_node_names():
    store(node="evil", **holding(job(**STOLEN), start_ms=T0, end_ms=T0 + 1))

    store(start_ms=T0 + 30_000, **holding(job(state="RUNNING")))

    real = selectors.job("slurm/della/1")
    assert (real.user, real.account, real.team.slug, real.kind, real.state) == (
        "ann",
        "nlp",
        "nlp",
        "batch",
        "RUNNING",
    )
    assert selectors.job("slurm/della/1~1").user == "victim"
    assert owners() == {("victim", "victim-team", "victim-team"): 1, ("ann", "nlp", "nlp"): 30_000}


@pytest.mark.parametrize(("count", "user"), [(2, "ann"), (3, "victim"), (12, "victim")])
def test_the_key_means_the_first_that_held_at_least_half_as_long_as_any(count, user):
    store(count=1, **holding(job()))

    store(node="evil", count=count, gpus=[gpu("GPU-a"), gpu("GPU-b")], **holding(job(**STOLEN)))

    assert selectors.job("slurm/della/1").user == user
    assert [selectors.job(f"slurm/della/1~{number}").user for number in (1, 2)] == ["ann", "victim"]


def test_a_hold_that_is_dated_back_stands_in_nobodys_place():
    store(**holding(job()))
    later = NOW + timedelta(hours=1)
    store(sequence=2, start_ms=T0 + 3_600_000, count=60, received_at=later, **holding(job()))

    store(
        node="evil",
        start_ms=T0 + 3_600_000,
        received_at=later,
        **holding(job(**STOLEN), start_ms=0),
    )

    assert selectors.job("slurm/della/1").user == "ann"


def test_who_speaks_from_ahead_of_now_is_no_newer():
    store(**holding(job(state="RUNNING")))
    store(
        node="n2",
        start_ms=NOW_MS + 200_000,
        **holding(job(state="FAILED", name="pwned", end_ms=NOW_MS)),
    )

    store(
        sequence=2,
        received_at=NOW + timedelta(seconds=30),
        start_ms=NOW_MS,
        **holding(job(state="RUNNING", name="train")),
    )

    assert (the_job().state, the_job().name) == ("RUNNING", "train")


@pytest.mark.parametrize(
    ("count", "held"),
    [
        (MAX_USERS - 1, MAX_USERS - 1),
        (MAX_USERS, MAX_USERS),
        (MAX_USERS + 1, MAX_USERS),
        (MAX_USERS + 5, MAX_USERS),
    ],
)
def test_a_node_names_few_users_of_one_key(count, held):
    store(**holding(job()))

    for number in range(count):
        said = holding(job(user=f"u{number}"))
        answer = store(
            node="evil",
            sequence=number,
            start_ms=T0 + number * 30_000,
            received_at=NOW + timedelta(hours=1),
            **said,
        )

    assert answer.stored == 3
    assert Job.objects.count() == 1 + held
    assert Allocation.objects.filter(gpu__node__name="evil").count() == held


def test_no_node_moves_what_others_hold_whatever_it_says_next():
    store(node="evil", **holding(job()))
    for number in range(3):
        store(node=f"n{number}", **holding(job()))
    before = set(Allocation.objects.exclude(gpu__node__name="evil").values_list("pk", "job"))

    for sequence, account in enumerate(("other", "nlp", "more", "nlp"), start=2):
        store(
            node="evil",
            sequence=sequence,
            start_ms=T0 + sequence * 30_000,
            **holding(job(account=account)),
        )

    assert (
        set(Allocation.objects.exclude(gpu__node__name="evil").values_list("pk", "job")) == before
    )
    assert owners() == {("ann", "nlp", "nlp"): 4 * 30_000 + 4 * 30_000}


def test_an_account_that_becomes_known_or_another_takes_what_was_held_with_it():
    store(**holding(job(account="")))
    first = the_job().pk

    store(sequence=2, start_ms=T0 + 30_000, **holding(job()))

    assert owners() == {("ann", "nlp", "nlp"): 60_000}
    assert the_job().pk == first


def test_what_moved_to_another_job_is_judged_again():
    store(node="n1", **holding(job()))
    store(node="n2", **holding(job()))
    store(
        node="n1",
        sequence=2,
        start_ms=T0 + 86_400_000,
        received_at=NOW + timedelta(days=1),
        **holding(job(account="bio")),
    )
    split = owners()
    TouchedHour.objects.all().delete()

    store(
        node="n2",
        sequence=2,
        start_ms=T0 + 86_430_000,
        received_at=NOW + timedelta(days=1),
        **holding(job(account="bio")),
    )

    assert split == {("ann", "bio", "bio"): 60_000, ("ann", "nlp", "nlp"): 30_000}
    assert owners() == {("ann", "bio", "bio"): 120_000}
    assert TouchedHour.objects.filter(
        node_id=node_by_name("n2").pk, hour=from_ms(T0 - T0 % 3_600_000)
    ).exists()


def test_a_job_id_that_is_used_again_leaves_the_former_users_time_to_him():
    later = timedelta(days=2)
    store(**holding(job(state="COMPLETED", end_ms=T0 + 30_000)))

    again = {"start_ms": T0 + 172_800_000, "received_at": NOW + later}
    store(sequence=2, **again, **holding(job(user="bob", start_ms=T0 + 172_800_000)))

    assert owners() == {("ann", "nlp", "nlp"): 30_000, ("bob", "nlp", "nlp"): 30_000}


WORDS = st.lists(
    st.tuples(
        st.sampled_from(["n1", "n2", "n3"]),
        st.sampled_from(["ann", "bob"]),
        st.sampled_from(["", "nlp", "bio"]),
        st.integers(0, 11),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda word: (word[0], word[3]),
)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(words=WORDS, data=st.data())
def test_each_nodes_time_is_charged_to_whom_that_node_names_in_whatever_order_its_batches_come(
    words, data
):
    """Of one user's time on one node the account is the one that the node named last."""
    accounts = {
        (node, user): account for node, user, account, _ in sorted(words, key=lambda word: word[3])
    }
    expected = Counter()
    for node, user, _, _ in words:
        expected[node, user, accounts[node, user]] += 30_000

    Job.objects.all().delete()
    JobRecord.objects.all().delete()
    for node, user, account, step in data.draw(st.permutations(words)):
        said = holding(job(user=user, account=account))
        store(
            node=node,
            sequence=step,
            start_ms=T0 + step * 30_000,
            boot_id=f"boot-{next(BOOTS)}",
            **said,
        )

    held = Counter()
    for *names, spans in Allocation.objects.values_list(
        "gpu__node__name", "job__user", "job__account", "held"
    ):
        held[tuple(names)] += sum(upper - lower for lower, upper in spans)
    assert held == expected


def test_a_claim_that_is_dated_back_is_no_older():
    store(**holding(job()))

    store(node="evil", start_ms=T0 - 3_600_000, **holding(job(**STOLEN), start_ms=T0 - 86_400_000))

    assert owner() == MINE


def test_jobs_that_nobody_holds_are_none_and_can_not_be_claimed_before_they_exist():
    store(node="evil", jobs=[job(f"slurm/della/{number}", **STOLEN) for number in range(1, 1000)])
    assert not Job.objects.exists()

    store(start_ms=T0 + 30_000, **holding(job()))

    assert owner() == MINE


def test_an_import_needs_a_right_of_its_own():
    for rights in (NO_RIGHTS, Rights(speaks_for="della")):
        with pytest.raises(ImportRefusedError, match="--import"):
            accounting(rights=rights)

    assert not JobRecord.objects.exists()


@pytest.mark.parametrize("ahead_ms", [FUTURE_MS + 1, 32_503_680_000_000 - NOW_MS])
def test_an_import_of_what_is_to_come_is_refused(ahead_ms):
    with pytest.raises(WireError, match=r"jobs\[0\].end_ms"):
        accounting(end_ms=NOW_MS + ahead_ms)

    assert not JobRecord.objects.exists()


def test_an_import_may_end_five_minutes_after_receipt():
    accounting(end_ms=NOW_MS + FUTURE_MS)

    assert the_job().end_ms == NOW_MS + FUTURE_MS


def test_no_import_pins_a_job():
    accounting(end_ms=None, start_ms=NOW_MS + 86_400_000, submit_ms=NOW_MS + 86_400_000, **STOLEN)
    accounting(end_ms=NOW_MS + FUTURE_MS, boot_id="history-2", **STOLEN)

    store(
        received_at=NOW + timedelta(hours=1),
        start_ms=NOW_MS + 3_000_000,
        **holding(job(state="RUNNING")),
    )

    assert (*owner()[:4], the_job().state) == ("ann", "nlp", "nlp", "batch", "RUNNING")


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_an_import_of_a_start_that_is_to_come_changes_nothing_of_a_job_that_runs(state):
    store(**holding(job(state="RUNNING")))

    accounting(
        state=state,
        end_ms=None,
        start_ms=32_503_680_000_000,
        submit_ms=T0 - 9000,
        user="ann",
        account="nlp",
    )
    accounting(
        state=state,
        end_ms=None,
        start_ms=32_503_680_000_000,
        boot_id="history-2",
        user="ann",
        account="nlp",
    )

    assert (the_job().state, the_job().start_ms, the_job().submit_ms) == (
        "RUNNING",
        None,
        T0 - 9000,
    )


def test_times_that_are_to_come_are_nobodys():
    store(**holding(job(start_ms=NOW_MS + FUTURE_MS + 1, end_ms=32_503_680_000_000)))

    assert (the_job().start_ms, the_job().end_ms) == (None, None)


def test_the_books_of_a_cluster_win_over_those_of_a_node_by_the_right_of_their_token():
    store(**holding(job()))

    store(
        node="head",
        rights=Rights(speaks_for="della"),
        jobs=[job(user="eve", account="bio", kind="interactive")],
    )

    assert owner()[:4] == ("eve", "bio", "bio", "interactive")
    assert [(told.node, told.fact, told.value) for told in contradictions(the_job())] == [
        ("good", "user", "ann"),
        ("good", "account", "nlp"),
        ("good", "kind", "batch"),
    ]


def test_the_right_to_speak_for_one_cluster_is_none_for_another():
    store(**holding(job()))

    store(
        node="head",
        rights=Rights(speaks_for="adroit"),
        jobs=[job(user="eve") | {"cluster": "adroit"}],
    )

    assert owner() == MINE


def test_an_import_corrects_nothing_that_the_books_of_the_cluster_said_later():
    accounting(rights=DELLA, state="COMPLETED", end_ms=T0 + 40_000, user="ann")

    accounting(node="other", state="FAILED", end_ms=T0 + 30_000, user="eve", account="bio")

    assert (the_job().state, the_job().end_ms, the_job().user, the_job().account) == (
        "COMPLETED",
        T0 + 40_000,
        "ann",
        "nlp",
    )


def test_what_a_process_claims_is_less_than_what_the_nodes_scheduler_said():
    store(sources=[{"kind": "slurm", "ok": True}], **holding(job(state="COMPLETED")))

    claimed = {
        "jobs": [job(user="mallory", state="RUNNING")],
        "allocations": [{"gpu": 0, "job": 0, "source": "process"}],
    }
    store(sequence=2, start_ms=T0 + 30_000, sources=[{"kind": "slurm", "ok": False}], **claimed)

    assert (the_job().user, the_job().state) == ("ann", "COMPLETED")


def test_what_a_scheduler_says_of_an_ended_job_is_its_books_without_an_allocation():
    store(sources=[{"kind": "slurm", "ok": True}], **holding(job(state="RUNNING")))

    store(
        sequence=2,
        start_ms=T0 + 30_000,
        sources=[{"kind": "slurm", "ok": True}],
        jobs=[job(state="COMPLETED", end_ms=T0 + 30_000)],
    )

    assert (the_job().state, the_job().end_ms) == ("COMPLETED", T0 + 30_000)


def test_a_hold_that_was_told_by_processes_is_the_nodes_whoever_speaks_for_it_later():
    claimed = {
        "jobs": [job(user="root")],
        "allocations": [{"gpu": 0, "job": 0, "source": "process"}],
    }
    store(**claimed)

    store(
        sequence=2,
        start_ms=T0 + 30_000,
        sources=[{"kind": "slurm", "ok": True}],
        jobs=[job(state="COMPLETED")],
    )

    assert (the_job().user, the_job().state) == ("ann", "COMPLETED")


def test_a_requeue_on_another_node_is_told_by_that_node():
    store(**holding(job(state="REQUEUED", end_ms=T0 + 30_000)))

    store(node="next", start_ms=T0 + 60_000, **holding(job(state="RUNNING", restarts=1)))

    assert (the_job().state, the_job().end_ms, the_job().restarts, the_job().user) == (
        "RUNNING",
        None,
        1,
        "ann",
    )
    assert contradictions(the_job()) == []


STORY = (
    {
        "node": "n1",
        "sequence": 1,
        "start_ms": T0,
        **holding(job(state="RUNNING", labels={"qos": "low"})),
    },
    {
        "node": "n2",
        "sequence": 1,
        "start_ms": T0 + 10_000,
        **holding(job(state="RUNNING", labels={"qos": "low"})),
    },
    {
        "node": "n1",
        "sequence": 2,
        "start_ms": T0 + 30_000,
        "sources": [{"kind": "slurm", "ok": True}],
        "jobs": [job(state="COMPLETED", end_ms=T0 + 55_000, labels={"qos": "low"})],
    },
    {
        "node": "n2",
        "sequence": 2,
        "start_ms": T0 + 20_000,
        **holding(job(state="COMPLETING", labels={"qos": "low"})),
    },
)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_job_of_two_nodes_is_the_same_whatever_order_their_batches_come_in(order):
    for place in (*order, order[0]):
        store(**STORY[place])

    found = the_job()
    assert (found.user, found.team.slug, found.kind, found.labels) == (
        "ann",
        "nlp",
        "batch",
        {"qos": "low"},
    )
    assert (found.state, found.end_ms) == ("COMPLETED", T0 + 55_000)
    assert {
        (row.gpu.node.name, *row.asserted) for row in Allocation.objects.select_related("gpu__node")
    } == {
        ("n1", (T0, T0 + 30_000)),
        ("n2", (T0 + 10_000, T0 + 50_000)),
    }
