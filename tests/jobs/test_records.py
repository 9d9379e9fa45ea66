"""What is believed of a job, from what nodes and imports say of it."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as draw

from fleetwatch.jobs.records import GRACE_MS, OUTCOME_LAG_MS, Facts, Record, Voice, believed, contradictions

AT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
ANN = Facts(user="ann", account="nlp", kind="batch", state="RUNNING", name="train")
MALLORY = Facts(user="mallory", account="shadow", kind="service", state="COMPLETED", name="mine", labels={"project": "shadow"})


def record(pk=1, *, node=1, voice=Voice.BOOKS, as_of=1000, held=0, until=1000, facts=ANN, **said):
    """A record; `held` is how many minutes after AT the hub first heard that its node holds the job, None = never."""
    held_at = None if held is None else AT + timedelta(minutes=held)
    return Record(pk, node, voice, (as_of, 0, 0), replace(facts, **said), held_at, None if held is None else until)


def test_who_never_held_a_job_says_nothing_of_it():
    assert believed([record(held=None)]) is None
    assert believed([record(), record(2, node=2, held=None, as_of=9000, facts=MALLORY)]) == ANN


def test_the_first_holder_says_whose_it_is_also_where_another_speaks_later():
    facts = believed([record(held=0), record(2, node=2, held=1, as_of=9000, until=9000, facts=MALLORY)])

    assert (facts.user, facts.account, facts.kind, facts.labels) == ("ann", "nlp", "batch", {})


def test_a_holder_who_contradicts_the_owner_is_believed_in_nothing():
    facts = believed([record(held=0), record(2, node=2, held=1, as_of=9000, until=9000, facts=replace(MALLORY, end_ms=500))])

    assert facts == ANN


@pytest.mark.parametrize("fact", ["user", "account", "kind"])
def test_a_contradiction_is_shown(fact):
    other = record(2, node=2, held=1, **{fact: "other"})
    records = [record(), other]

    told = contradictions(records, believed(records))

    assert [(one.record.node_id, one.fact, one.value) for one in told] == [(2, fact, "other")]


def test_a_label_exists_once_as_the_books_have_it():
    claim = record(voice=Voice.CLAIM, labels={"slurm_job_partition": "cpu", "slurm_job_qos": "high", "wandb_project": "vision"})
    accounting = record(2, node=None, voice=Voice.IMPORT, held=None, labels={"partition": "gpu", "nodes": "1"})

    assert believed([claim]).labels == claim.facts.labels
    assert believed([claim, accounting]).labels == {"partition": "gpu", "nodes": "1", "slurm_job_qos": "high", "wandb_project": "vision"}


def test_who_names_nobody_contradicts_nothing_and_is_no_reason_to_look_elsewhere():
    silent = record(account="", labels={})
    other = record(2, node=2, held=1, account="shadow", labels={"project": "shadow"})

    facts = believed([silent, other])

    assert (facts.account, facts.labels) == ("", {})
    assert contradictions([other, silent], believed([other])) == []


def test_how_it_goes_is_the_newest_word_of_those_who_hold_it():
    done = record(2, node=2, held=1, as_of=2000, until=2000, state="COMPLETED", end_ms=1990, name="renamed", restarts=1)

    facts = believed([record(), done])

    assert (facts.state, facts.end_ms, facts.name, facts.restarts) == ("COMPLETED", 1990, "renamed", 1)


@pytest.mark.parametrize(
    ("as_of", "state"), [(1000 + GRACE_MS - 1, "RUNNING"), (1000 + GRACE_MS, "RUNNING"), (1000 + GRACE_MS + 1, "FAILED")]
)
def test_what_a_former_holder_says_after_his_grace_weighs_no_more_than_at_its_end(as_of, state):
    former = record(as_of=10**9, until=1000, state="RUNNING")
    holder = record(2, node=2, held=1, as_of=as_of, until=as_of, state="FAILED")

    assert believed([former, holder]).state == state


def test_the_last_word_of_the_only_holder_stands_however_late_it_comes():
    assert believed([record(as_of=10**9, until=1000, state="COMPLETED", end_ms=1000)]).state == "COMPLETED"


@pytest.mark.parametrize(("until", "state"), [(500 + OUTCOME_LAG_MS, "COMPLETED"), (501 + OUTCOME_LAG_MS, "RUNNING")])
def test_an_end_that_another_holder_outlived_is_no_end(until, state):
    ended = record(as_of=10**9, until=10**9, state="COMPLETED", end_ms=500)
    holder = record(2, node=2, held=1, as_of=until, until=until)

    assert believed([ended, holder]).state == state


def test_on_one_node_books_win_over_what_processes_claim():
    claim = record(2, voice=Voice.CLAIM, as_of=9000, until=9000, user="mallory", state="RUNNING")
    books = record(state="COMPLETED")

    facts = believed([books, claim])

    assert (facts.user, facts.state) == ("ann", "COMPLETED")
    assert [told.value for told in contradictions([books, claim], facts)] == ["mallory"]


def test_books_of_another_node_do_not_take_a_job_from_who_holds_it_by_its_processes():
    claim = record(voice=Voice.CLAIM, held=0)
    books = record(2, node=2, held=1, as_of=9000, until=9000, facts=MALLORY)

    assert believed([claim, books]) == ANN


def test_the_books_of_the_cluster_win_over_the_first_holder():
    cluster = record(2, node=2, voice=Voice.CLUSTER, held=None, user="eve", account="bio", kind="service", labels={"qos": "high"})

    facts = believed([record(labels={"qos": "low", "pool": "a"}), cluster])

    assert (facts.user, facts.account, facts.kind) == ("eve", "bio", "service")
    assert facts.labels == {"qos": "high", "pool": "a"}


def test_an_import_fills_in_what_the_owner_does_not_know_and_no_more():
    accounting = record(
        2, node=None, voice=Voice.IMPORT, held=None, as_of=9000, user="eve", account="bio", kind="", state="FAILED", labels={"a": 1}
    )

    facts = believed([record(account=""), accounting])

    assert (facts.user, facts.account, facts.kind, facts.state, facts.labels) == ("ann", "bio", "batch", "FAILED", {"a": 1})


def test_an_import_knows_better_than_a_claim():
    accounting = record(2, node=None, voice=Voice.IMPORT, held=None, user="eve", kind="")

    assert believed([record(voice=Voice.CLAIM), accounting]).user == "eve"


def test_an_import_corrects_nothing_that_the_books_of_the_cluster_said_later():
    cluster = record(1, voice=Voice.CLUSTER, held=None, as_of=2000, state="COMPLETED", end_ms=1500, user="ann")
    accounting = record(
        2, node=None, voice=Voice.IMPORT, held=None, as_of=1999, state="FAILED", end_ms=1, user="eve", account="bio", kind=""
    )

    facts = believed([cluster, accounting])

    assert (facts.state, facts.end_ms, facts.user, facts.account) == ("COMPLETED", 1500, "ann", "nlp")


def test_of_two_words_of_a_clusters_books_the_newer_counts():
    old = record(1, voice=Voice.CLUSTER, as_of=1000, user="eve", kind="")
    new = record(2, node=2, voice=Voice.CLUSTER_IMPORT, as_of=2000, user="bob", kind="")

    assert believed([old, new]).user == "bob"


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
        user=draw.sampled_from(["", "ann", "mallory"]),
        state=draw.sampled_from(["RUNNING", "COMPLETED"]),
        end_ms=draw.sampled_from([None, 0, 3 * GRACE_MS]),
    ),
    max_size=8,
    unique_by=(lambda each: each.pk, lambda each: (each.node_id, each.voice)),
)


@settings(max_examples=300, deadline=None)
@given(RECORDS, draw.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter(records, shuffle: random.Random):
    shuffled = list(records)
    shuffle.shuffle(shuffled)

    assert believed(shuffled) == believed(records)


@settings(max_examples=300, deadline=None)
@given(RECORDS)
def test_whose_a_job_is_no_later_holder_changes(records):
    """Neither user, account, kind nor labels, whoever else said something before."""
    assume(any(each.is_holder for each in records))
    thief = record(10**7, node=9, held=99, as_of=10**12, until=10**12, facts=MALLORY)

    before, after = believed(records), believed([*records, thief])

    assert (after.user, after.account, after.kind, after.labels) == (before.user, before.account, before.kind, before.labels)


def test_a_holder_who_names_no_user_says_nothing_of_how_another_users_job_goes():
    nameless = record(2, node=2, held=1, as_of=9000, until=9000, user="", account="", name="pwned", state="CANCELLED", restarts=7)

    facts = believed([record(), nameless])

    assert (facts.name, facts.state, facts.restarts) == (ANN.name, ANN.state, ANN.restarts)
