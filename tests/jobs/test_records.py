"""What is believed of a job, from what nodes and imports say of it."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as draw

from fleetwatch.jobs.records import (
    GRACE_MS,
    OUTCOME_LAG_MS,
    JobFacts,
    JobOwner,
    Record,
    Voice,
    contradictions,
    known_jobs,
)

AT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ANN = JobFacts(user="ann", account="nlp", kind="batch", state="RUNNING", name="train")
MALLORY = JobFacts(
    user="mallory",
    account="shadow",
    kind="service",
    state="COMPLETED",
    name="mine",
    labels={"project": "shadow"},
)


def record(pk=1, *, node=1, voice=Voice.BOOKS, as_of=1000, held=0, until=1000, facts=ANN, **said):
    """A record; `held` is how many minutes after AT the hub first heard that its node holds the
    job, None = never.
    """
    held_at = None if held is None else AT + timedelta(minutes=held)
    return Record(
        pk,
        node,
        voice,
        (as_of, 0, 0),
        replace(facts, **said),
        held_at,
        None if held is None else until,
    )


def believed(records):
    """The facts of the only job of the key."""
    (job,) = known_jobs(records)
    return job.facts


def owners(records):
    """Whose the jobs of the key are -> the nodes that hold them."""
    return {
        (job.facts.user, job.facts.account): sorted({each.node_id for each in job.records})
        for job in known_jobs(records)
    }


def test_who_never_held_a_job_says_nothing_of_it():
    assert known_jobs([record(held=None)]) == []
    assert believed([record(), record(2, node=2, held=None, as_of=9000, facts=MALLORY)]) == ANN


def test_nodes_that_name_other_owners_hold_other_jobs():
    mine, another = known_jobs(
        [
            record(2, node=2, held=1, as_of=9000, until=9000, facts=replace(MALLORY, end_ms=500)),
            record(held=0),
        ]
    )

    assert (mine.facts, [each.node_id for each in mine.records]) == (ANN, [1])
    assert (another.facts, [each.node_id for each in another.records]) == (
        replace(MALLORY, end_ms=500),
        [2],
    )


def test_who_held_a_job_before_it_existed_holds_another_one():
    early = record(held=-600, until=1, as_of=1, facts=MALLORY)

    assert owners([early, record(2, node=2), record(3, node=3, held=1)]) == {
        ("mallory", "shadow"): [1],
        ("ann", "nlp"): [2, 3],
    }


@pytest.mark.parametrize("account", ["", "shadow"])
def test_another_account_or_none_is_another_owner(account):
    assert owners([record(), record(2, node=2, held=1, account=account)]) == {
        ("ann", "nlp"): [1],
        ("ann", account): [2],
    }


def test_an_id_that_is_used_again_by_another_user_is_another_job_also_on_the_same_node():
    records = [
        record(until=1000),
        record(2, as_of=9000, until=9000, held=500, facts=replace(ANN, user="bob")),
    ]

    assert owners(records) == {("ann", "nlp"): [1], ("bob", "nlp"): [1]}


def test_what_a_node_says_without_a_user_is_of_the_user_whom_it_names():
    assert owners([record(user="", account=""), record(2, as_of=2000)]) == {("ann", "nlp"): [1]}


def test_a_claim_says_whose_only_its_own_nodes_time_is():
    claim, books = record(voice=Voice.CLAIM, held=0, account=""), record(2, node=2, held=1)

    assert owners([claim, books]) == {("ann", ""): [1], ("ann", "nlp"): [2]}


def test_who_speaks_of_another_users_job_without_holding_it_is_not_heard_because_he_holds_his_own():
    mallory = record(2, node=2, held=1, facts=MALLORY)
    lie = record(3, node=2, held=None, as_of=9000, name="pwned", state="CANCELLED")

    assert [job.facts.name for job in known_jobs([record(), mallory, lie])] == ["train", "mine"]


@pytest.mark.parametrize("fact", ["user", "account", "kind"])
def test_a_contradiction_is_shown(fact):
    other = record(2, node=2, held=1, **{fact: "other"})
    records = [record(), other]

    found = contradictions(records, known_jobs(records)[0].facts)

    assert [(claim.node_id, name, value) for claim, name, value in found] == [(2, fact, "other")]


def test_a_label_exists_once_as_the_books_have_it():
    claim = record(
        voice=Voice.CLAIM,
        labels={"slurm_job_partition": "cpu", "slurm_job_qos": "high", "wandb_project": "vision"},
    )
    accounting = record(
        2, node=None, voice=Voice.IMPORT, held=None, labels={"partition": "gpu", "nodes": "1"}
    )

    assert believed([claim]).labels == claim.facts.labels
    assert believed([claim, accounting]).labels == {
        "partition": "gpu",
        "nodes": "1",
        "slurm_job_qos": "high",
        "wandb_project": "vision",
    }


def test_who_names_nobody_contradicts_nothing():
    silent = record(2, node=2, held=1, user="", account="", kind="")

    assert contradictions([record(), silent], ANN) == []


def test_how_it_goes_is_the_newest_word_of_those_who_hold_it():
    done = record(
        2,
        node=2,
        held=1,
        as_of=2000,
        until=2000,
        state="COMPLETED",
        end_ms=1990,
        name="renamed",
        restarts=1,
    )

    facts = believed([record(), done])

    assert (facts.state, facts.end_ms, facts.name, facts.restarts) == (
        "COMPLETED",
        1990,
        "renamed",
        1,
    )


@pytest.mark.parametrize(
    ("as_of", "state"),
    [
        (1000 + GRACE_MS - 1, "RUNNING"),
        (1000 + GRACE_MS, "RUNNING"),
        (1000 + GRACE_MS + 1, "FAILED"),
    ],
)
def test_what_a_former_holder_says_after_his_grace_weighs_no_more_than_at_its_end(as_of, state):
    former = record(as_of=10**9, until=1000, state="RUNNING")
    holder = record(2, node=2, held=1, as_of=as_of, until=as_of, state="FAILED")

    assert believed([former, holder]).state == state


def test_the_last_word_of_the_only_holder_stands_however_late_it_comes():
    assert (
        believed([record(as_of=10**9, until=1000, state="COMPLETED", end_ms=1000)]).state
        == "COMPLETED"
    )


@pytest.mark.parametrize(
    ("until", "state"), [(500 + OUTCOME_LAG_MS, "COMPLETED"), (501 + OUTCOME_LAG_MS, "RUNNING")]
)
def test_an_end_that_another_holder_outlived_is_no_end(until, state):
    ended = record(as_of=10**9, until=10**9, state="COMPLETED", end_ms=500)
    holder = record(2, node=2, held=1, as_of=until, until=until)

    assert believed([ended, holder]).state == state


def test_on_one_node_books_win_over_what_processes_claim():
    claim = record(2, voice=Voice.CLAIM, as_of=9000, until=9000, user="mallory", state="RUNNING")
    books = record(state="COMPLETED")

    facts = believed([books, claim])

    assert (facts.user, facts.state) == ("ann", "COMPLETED")
    assert [value for _, _, value in contradictions([books, claim], facts)] == ["mallory"]


def test_the_books_of_the_cluster_win_over_the_first_holder():
    cluster = record(
        2,
        node=2,
        voice=Voice.CLUSTER,
        held=None,
        user="eve",
        account="bio",
        kind="service",
        labels={"qos": "high"},
    )

    facts = believed([record(labels={"qos": "low", "pool": "a"}), cluster])

    assert (facts.user, facts.account, facts.kind) == ("eve", "bio", "service")
    assert facts.labels == {"qos": "high", "pool": "a"}


def test_an_import_fills_in_what_the_owner_does_not_know_and_no_more():
    accounting = record(
        2,
        node=None,
        voice=Voice.IMPORT,
        held=None,
        as_of=9000,
        account="bio",
        kind="",
        state="FAILED",
        labels={"a": 1},
    )

    facts = believed([record(account=""), accounting])

    assert (facts.user, facts.account, facts.kind, facts.state, facts.labels) == (
        "ann",
        "bio",
        "batch",
        "FAILED",
        {"a": 1},
    )


def test_an_import_of_another_users_job_says_nothing_of_one_that_is_held():
    accounting = record(
        2, node=None, voice=Voice.IMPORT, held=None, as_of=9000, user="eve", state="FAILED"
    )

    assert believed([record(), accounting]) == ANN


def test_an_import_knows_better_than_a_claim():
    accounting = record(2, node=None, voice=Voice.IMPORT, held=None, user="eve", kind="")

    assert believed([record(voice=Voice.CLAIM), accounting]).user == "eve"


def test_an_import_corrects_nothing_that_the_books_of_the_cluster_said_later():
    cluster = record(
        1, voice=Voice.CLUSTER, held=None, as_of=2000, state="COMPLETED", end_ms=1500, user="ann"
    )
    accounting = record(
        2,
        node=None,
        voice=Voice.IMPORT,
        held=None,
        as_of=1999,
        state="FAILED",
        end_ms=1,
        user="eve",
        account="bio",
        kind="",
    )

    facts = believed([cluster, accounting])

    assert (facts.state, facts.end_ms, facts.user, facts.account) == (
        "COMPLETED",
        1500,
        "ann",
        "nlp",
    )


def test_of_two_words_of_a_clusters_books_the_newer_counts():
    old = record(1, voice=Voice.CLUSTER, as_of=1000, account="bio", kind="")
    new = record(2, node=2, voice=Voice.CLUSTER_IMPORT, as_of=2000, account="chem", kind="")

    assert believed([old, new, record(3, node=3)]).account == "chem"


def test_the_books_of_a_cluster_know_the_users_of_an_id_apart():
    first = record(1, node=None, voice=Voice.CLUSTER_IMPORT, held=None, as_of=1000, kind="")
    again = record(
        2, node=None, voice=Voice.CLUSTER_IMPORT, held=None, as_of=9000, user="bob", kind=""
    )
    holders = [
        record(3, until=1000),
        record(4, node=2, held=500, user="bob"),
        record(5, node=3, held=501, user="1007"),
    ]

    assert [job.owner for job in known_jobs([first, again, *holders])] == [
        JobOwner("ann", "nlp"),
        JobOwner("bob", "nlp"),
    ]


def test_a_job_that_nobody_calls_anything_is_batch():
    assert believed([record(voice=Voice.IMPORT, kind="")]).kind == "batch"


RECORDS = draw.lists(
    draw.builds(
        record,
        pk=draw.integers(1, 10**6),
        node=draw.sampled_from([1, 2, 3]),
        voice=draw.sampled_from(list(Voice)),
        as_of=draw.integers(0, 5).map(lambda step: step * GRACE_MS),
        held=draw.one_of(draw.none(), draw.integers(0, 3)),
        until=draw.integers(0, 5).map(lambda step: step * GRACE_MS),
        user=draw.sampled_from(["", "ann", "bob"]),
        account=draw.sampled_from(["", "nlp", "bio"]),
        state=draw.sampled_from(["RUNNING", "COMPLETED"]),
        end_ms=draw.sampled_from([None, 0, 3 * GRACE_MS]),
    ),
    max_size=8,
    unique_by=(lambda each: each.pk, lambda each: (each.node_id, each.voice, each.facts.user)),
)


@settings(max_examples=60, deadline=None)
@given(RECORDS, draw.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter(records, shuffle: random.Random):
    shuffled = list(records)
    shuffle.shuffle(shuffled)

    assert [job.facts for job in known_jobs(shuffled)] == [job.facts for job in known_jobs(records)]


@settings(max_examples=60, deadline=None)
@given(RECORDS, draw.integers(-99, 99), draw.booleans())
def test_no_holder_who_names_another_owner_changes_anything_of_a_job_before_or_after(
    records, minutes, is_first
):
    """Neither whose it is, what it is nor how it goes, whenever it was heard."""
    thief = record(
        0 if is_first else 10**7, node=9, held=minutes, as_of=10**12, until=10**12, facts=MALLORY
    )

    held = [job for job in known_jobs(records) if any(each.is_holder for each in job.records)]
    before = {job.owner: job.facts for job in held}
    after = {job.owner: job.facts for job in known_jobs([*records, thief])}

    assume(
        JobOwner("mallory", "shadow") not in before
        and not any(each.voice.is_cluster for each in records)
    )
    assert {owner: facts for owner, facts in after.items() if owner in before} == before


@settings(max_examples=60, deadline=None)
@given(RECORDS)
def test_without_books_of_a_cluster_each_nodes_books_say_whose_its_time_is(records):
    assume(not any(each.voice.is_cluster for each in records))
    holders = [
        each
        for each in records
        if each.voice == Voice.BOOKS and each.held_at is not None and each.facts.user
    ]

    owners = {each.pk: job.owner for job in known_jobs(records) for each in job.records}

    # an import may know the account of who names none
    assert all(
        owners[each.pk] == JobOwner(each.facts.user, each.facts.account or owners[each.pk].account)
        for each in holders
    )
