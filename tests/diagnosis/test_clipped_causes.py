"""Causes of a part of an hour sum to what the ledger says was wasted in it."""

from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.diagnosis.selectors import CAUSED_STATES, findings, waste_by_cause
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Scope
from fleetwatch.lib.intervals import Interval, to_ms
from tests.costs.factories import a_run, an_entry
from tests.diagnosis.told import NOW, cause, finding, gpu, job, rate

pytestmark = pytest.mark.django_db

MINUTE = 60_000
HOUR_MS = 60 * MINUTE
START = NOW - timedelta(hours=2)


def minutes(first, last):
    return Interval(START + timedelta(minutes=first), START + timedelta(minutes=last))


@pytest.fixture
def wasted():
    """An hour of a held GPU: 20 minutes useful, then 40 idle, of which idle_held explains all and
    half could be saved.
    """
    rate("3.00")
    on, of = gpu(), job()
    an_entry(on, "useful", 20 * MINUTE, start=START, job=of)
    an_entry(on, "idle", 40 * MINUTE, start=START, job=of, tier="certain")
    for first, last, state in ((0, 20, "useful"), (20, 60, "idle")):
        ms = (last - first) * MINUTE
        a_run(
            on,
            start_ms=to_ms(START) + first * MINUTE,
            end_ms=to_ms(START) + last * MINUTE,
            job=of,
            state_ms={state: ms},
        )
    row = cause(of=of, on=on, start=START, hours=40 / 60, low=0.5, high=1.0)
    row.held_ms = HOUR_MS
    row.save()
    finding(of)
    return row


@pytest.mark.parametrize(
    ("first", "last", "idle"),
    [(0, 60, 40), (30, 60, 30), (10, 30, 10), (0, 21, 1), (-60, 50, 30), (59, 120, 1)],
)
def test_causes_of_a_part_are_the_ledgers_waste_in_it(wasted, first, last, idle):
    found = waste_by_cause(minutes(first, last))

    assert [(group.key, group.totals.states["idle"]) for group in found.lines] == [
        ("idle_held", idle * MINUTE)
    ]
    assert found.totals == costs.totals(minutes(first, last), scope=Scope(states=CAUSED_STATES))
    assert found.totals.waste_usd["certain"] == Decimal(idle) * 3 / 60


def test_a_part_without_waste_has_no_cause(wasted):
    assert waste_by_cause(minutes(0, 20)).lines == []
    assert len(findings(minutes(0, 20), now=NOW)) == 0


def test_what_could_be_saved_is_that_of_the_part(wasted):
    saving = findings(minutes(40, 60), now=NOW).lines.whole().saving

    assert (saving.low_ms, saving.high_ms) == (10 * MINUTE, 20 * MINUTE)


def test_two_causes_share_the_part_and_leave_no_millisecond(wasted):
    wasted.idle_certain_ms = wasted.low_ms = wasted.high_ms = 13 * MINUTE + 7
    wasted.save()
    other = cause("data_starved", of=wasted.job, on=wasted.gpu, start=START, hours=1)
    other.idle_certain_ms = 40 * MINUTE - wasted.idle_certain_ms
    other.low_ms = other.high_ms = 0
    other.save()

    found = waste_by_cause(minutes(20.00005, 59.99995))

    assert {group.key for group in found.lines} == {"idle_held", "data_starved"}
    assert (
        sum(group.totals.states["idle"] for group in found.lines)
        == found.totals.states["idle"]
        == 40 * MINUTE - 6
    )


def test_what_causes_do_not_explain_stays_undetermined(wasted):
    wasted.idle_certain_ms = wasted.low_ms = wasted.high_ms = 10 * MINUTE
    wasted.save()

    found = {
        group.key: group.totals.states["idle"] for group in waste_by_cause(minutes(40, 60)).lines
    }

    assert found == {"idle_held": 5 * MINUTE, "undetermined": 15 * MINUTE}
