"""A node that is gone costs nothing after its last window: removed by hand, or elastic by a
rule.
"""

from datetime import date

import pytest

from fleetwatch.ingest.services import RemovalError, bill_silent_nodes, remove_node
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU, Departure
from fleetwatch.inventory.models import Node as NodeRow
from fleetwatch.inventory.silence import add_rule
from fleetwatch.ledger.models import Adjustment
from fleetwatch.ledger.months import closing
from tests.ledger.balance import unbalanced
from tests.ledger.fleet import EMPTY, MINUTE, T0, Sender, a_job, held, hour, post, states
from tests.ledger.test_silent_nodes import HOUR, at, bill_and_post, heard

pytestmark = pytest.mark.django_db


def remove(ms, *, name="n1", reason="sold"):
    remove_node(name, reason=reason, by="ann", now=at(ms))
    post(now=at(ms))


def balanced(ms):
    return unbalanced(hour(-1), hour(30), now=at(ms)) == []


def test_a_node_that_is_removed_is_off_the_bill_as_of_its_last_window():
    heard(60)
    bill_and_post(5 * HOUR)

    remove(5 * HOUR)

    assert states() == {"free": HOUR}
    assert bill_silent_nodes(at(6 * HOUR)) == {"gone": 0, "nodes": 0}
    assert balanced(6 * HOUR)


def test_who_removed_it_when_and_why_is_kept():
    heard(60)

    remove(2 * HOUR, reason="sold to the university")

    said = inventory.newest_departure(NodeRow.objects.get())
    assert (said.by, said.reason, said.at_ms) == (
        "ann",
        "sold to the university",
        int(at(2 * HOUR).timestamp() * 1000),
    )


def test_a_node_that_reports_can_not_be_removed():
    heard(60)

    with pytest.raises(RemovalError, match="reports still"):
        remove(HOUR + 3 * MINUTE - 1)
    remove(HOUR + 3 * MINUTE)


@pytest.mark.parametrize(
    ("name", "reason", "why"),
    [
        ("n2", "sold", "no node"),
        ("n1", "", "1 to 300"),
        ("n1", "x" * 301, "1 to 300"),
        ("n1", "so\x00ld", "1 to 300"),
    ],
)
def test_a_removal_names_a_node_and_a_reason(name, reason, why):
    heard(60)

    with pytest.raises(RemovalError, match=why):
        remove(2 * HOUR, name=name, reason=reason)
    assert not Departure.objects.exists()


def test_a_node_is_removed_once():
    heard(60)
    remove(2 * HOUR)

    with pytest.raises(RemovalError, match="no GPU that is capacity"):
        remove(2 * HOUR)


def test_a_removed_node_comes_back_by_reporting_and_its_absence_costs_nothing():
    sender = Sender()
    heard(60, sender=sender)
    remove(2 * HOUR)

    heard(30, start_ms=4 * HOUR, sender=sender)
    assert (states(), balanced(5 * HOUR)) == ({"free": HOUR + 30 * MINUTE}, True)

    bill_and_post(5 * HOUR + MINUTE)
    assert states() == {"free": HOUR + 30 * MINUTE, "unobserved": 30 * MINUTE}
    assert inventory.newest_departure(NodeRow.objects.get()) is None


def test_what_a_removed_node_sends_late_counts_and_puts_it_on_no_bill():
    sender = Sender()
    heard(60, sender=sender)
    bill_and_post(2 * HOUR)
    remove(2 * HOUR)

    heard(20, start_ms=HOUR, sender=sender, now_ms=2 * HOUR)
    bill_and_post(6 * HOUR)

    assert states() == {"free": HOUR + 20 * MINUTE}
    assert GPU.objects.get().retired_ms is not None
    assert balanced(6 * HOUR)


@pytest.mark.parametrize(
    ("silent_ms", "unobserved_ms"), [(15 * MINUTE - 1, 14 * MINUTE - 1), (15 * MINUTE, 0)]
)
def test_an_elastic_node_is_gone_after_a_quarter_of_an_hour(silent_ms, unobserved_ms):
    add_rule("name", "n*")
    heard(60)
    bill_and_post(HOUR + 10 * MINUTE)

    bill_and_post(HOUR + silent_ms)

    assert states().get("unobserved", 0) == unobserved_ms
    assert balanced(2 * HOUR)


@pytest.mark.parametrize(
    ("kind", "pattern", "is_elastic"),
    [
        ("name", "n1", True),
        ("name", "spot-*", False),
        ("label", "pool=sp?t", True),
        ("label", "pool=reserved", False),
        ("cluster", "del*", True),
        ("cluster", "other", False),
    ],
)
def test_a_rule_is_on_the_name_a_label_or_the_cluster_of_its_jobs(kind, pattern, is_elastic):
    add_rule(kind, pattern)
    heard(60, node_labels={"pool": "spot"}, jobs=[a_job("slurm/della/7")], allocations=[held()])

    assert bill_silent_nodes(at(2 * HOUR))["gone"] == is_elastic


def test_what_an_elastic_node_was_away_costs_nothing_when_it_is_back():
    add_rule("name", "n1")
    sender = Sender()
    heard(60, sender=sender)
    bill_and_post(2 * HOUR)

    heard(60, start_ms=3 * HOUR, sender=sender)

    assert states() == {"free": 2 * HOUR}
    assert GPU.objects.get().retired_ms is None
    assert balanced(5 * HOUR)


def test_an_elastic_node_is_gone_at_once_when_its_agent_shuts_down_in_order():
    add_rule("name", "n1")
    heard(60, agent={"stopping": True})

    assert bill_silent_nodes(at(HOUR + MINUTE)) == {"gone": 1, "nodes": 0}

    assert Departure.objects.get().reason == "its agent shut down in order"


def test_an_agent_that_is_stopped_ends_no_capacity_of_a_node_that_stays():
    heard(60, agent={"stopping": True})

    bill_and_post(HOUR + 31 * MINUTE)

    assert states() == {"free": HOUR, "unobserved": 30 * MINUTE}


def test_the_silence_of_a_closed_month_is_taken_off_by_adjustments():
    night = 10 * 24 * HOUR + 17 * HOUR  # 23:00 of the 30th of November
    heard(30, start_ms=night)
    bill_and_post(night + 26 * HOUR)
    closing.close_month(date(2026, 11, 1), by="ann", now=at(night + 26 * HOUR))

    remove(night + 27 * HOUR)

    # the half hour of November is adjusted, December's day is no entry any more
    assert states("n1", "state", "reason") == {
        ("free", ""): 30 * MINUTE,
        ("unobserved", "silent"): 30 * MINUTE,
    }
    assert list(Adjustment.objects.values_list("state", "gpu_ms")) == [("unobserved", -30 * MINUTE)]
    assert unbalanced(at(night), at(night + 30 * HOUR), now=at(night + 27 * HOUR)) == []


def test_an_agent_that_was_only_restarted_leaves_no_hole_in_an_elastic_node():
    add_rule("name", "n1")
    sender = Sender()
    heard(60, sender=sender, agent={"stopping": True})
    bill_and_post(HOUR + MINUTE)

    heard(60, start_ms=HOUR + 5 * MINUTE, sender=sender)

    assert states() == {"free": 2 * HOUR, "unobserved": 5 * MINUTE}
    assert balanced(3 * HOUR)


def test_a_gpu_that_fell_silent_before_its_node_was_gone_is_capacity_until_then():
    both = Sender(gpus=2)
    post(both.batch(T0, *[EMPTY] * 30), now=at(30 * MINUTE))
    alone = Sender(gpus=1, sequence=1)
    heard(30, start_ms=30 * MINUTE, sender=alone)

    remove(2 * HOUR)

    assert states("n1", "gpu__index", "state") == {
        (0, "free"): HOUR,
        (1, "free"): 30 * MINUTE,
        (1, "unobserved"): 30 * MINUTE,
    }
    assert balanced(3 * HOUR)


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [("colour", "red"), ("name", ""), ("label", "pool"), ("label", "=spot"), ("name", "x" * 254)],
)
def test_a_rule_that_could_match_nothing_is_refused(kind, pattern):
    with pytest.raises(ValueError, match="a rule|a pattern|a label"):
        add_rule(kind, pattern)
