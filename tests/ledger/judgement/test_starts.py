"""A job's start: quiet time that begins with an observed allocation and ends in activity."""

import pytest

from fleetwatch.ledger.policy import Policy
from tests.ledger.factories import (
    BUSY,
    EMPTY,
    HOUR,
    MINUTE,
    QUIET,
    T0,
    Held,
    Node,
    Reported,
    W,
    row,
    totals,
)


def starting(windows, *, held_from=T0 + HOUR, kind="batch", **node):
    return Node(windows, holdings=[Held([(held_from, T0 + 4 * HOUR)], kind=kind)], **node).judge()


def test_a_quiet_run_that_begins_with_the_allocation_and_ends_in_activity_is_starting():
    windows = row((EMPTY, HOUR), (QUIET, 5 * MINUTE), (BUSY, 3 * HOUR - 5 * MINUTE))

    assert totals(starting(windows)) == {
        "free": HOUR,
        "starting": 5 * MINUTE,
        "useful": 3 * HOUR - 5 * MINUTE,
    }


@pytest.mark.parametrize(
    ("kind", "grace"), [("interactive", 10 * MINUTE), ("service", 30 * MINUTE)]
)
def test_starting_lasts_up_to_the_grace_of_its_kind_and_is_stalled_then(kind, grace):
    quiet = grace + 5 * MINUTE
    windows = row((EMPTY, HOUR), (QUIET, quiet), (BUSY, 3 * HOUR - quiet))

    found = totals(starting(windows, kind=kind))

    assert (found["starting"], found["stalled"]) == (grace, 5 * MINUTE)


def test_the_grace_may_end_inside_a_window():
    windows = row((EMPTY, HOUR), (QUIET, 5 * MINUTE), (BUSY, 3 * HOUR - 5 * MINUTE))

    found = totals(starting(windows, policy=Policy(grace_batch_s=123.456)))

    assert (found["starting"], found["stalled"]) == (123_456, 5 * MINUTE - 123_456)


def test_a_start_that_reaches_t_idle_is_idle_from_its_start():
    windows = row((EMPTY, HOUR), (QUIET, 15 * MINUTE), (BUSY, 3 * HOUR - 15 * MINUTE))

    assert totals(starting(windows)) == {
        "free": HOUR,
        "idle": 15 * MINUTE,
        "useful": 3 * HOUR - 15 * MINUTE,
    }


@pytest.mark.parametrize(("missing", "state"), [(0, "starting"), (3, "starting"), (4, "stalled")])
def test_a_start_is_observed_only_when_a_window_follows_within_three(missing, state):
    windows = row(
        (EMPTY, HOUR),
        (None, missing * W),
        (QUIET, 5 * MINUTE),
        (BUSY, 3 * HOUR - 5 * MINUTE - missing * W),
    )

    assert totals(starting(windows))[state] == 5 * MINUTE


def test_an_allocation_from_before_capacity_is_no_observed_start():
    windows = row((QUIET, 5 * MINUTE), (BUSY, 4 * HOUR - 5 * MINUTE))

    assert totals(starting(windows, held_from=T0 - 1))["stalled"] == 5 * MINUTE
    assert totals(starting(windows, held_from=T0))["starting"] == 5 * MINUTE


def test_a_start_that_ends_with_its_job_was_a_stall():
    windows = row((EMPTY, HOUR), (QUIET, 5 * MINUTE), (EMPTY, 3 * HOUR - 5 * MINUTE))

    judged = Node(windows, holdings=[Held([(T0 + HOUR, T0 + HOUR + 5 * MINUTE)])]).judge()

    assert totals(judged) == {"free": 4 * HOUR - 5 * MINUTE, "stalled": 5 * MINUTE}


def test_an_open_start_is_starting_up_to_the_grace():
    windows = row((EMPTY, HOUR), (QUIET, 14 * MINUTE))
    ends = T0 + HOUR + 14 * MINUTE

    judged = Node(windows, holdings=[Held([(T0 + HOUR, ends)])], end_ms=ends).judge()

    assert totals(judged) == {"free": HOUR, "starting": 14 * MINUTE}


def test_an_open_run_elsewhere_is_stalled_until_it_is_idle():
    ends = T0 + HOUR + 14 * MINUTE

    judged = Node(row((BUSY, HOUR), (QUIET, 14 * MINUTE)), end_ms=ends).judge()

    assert totals(judged) == {"useful": HOUR, "stalled": 14 * MINUTE}


def test_a_hold_that_goes_on_after_an_outage_of_telemetry_does_not_start_again():
    windows = row(
        (BUSY, HOUR), (None, 10 * MINUTE), (QUIET, 5 * MINUTE), (BUSY, 3 * HOUR - 15 * MINUTE)
    )
    spans = [(T0, T0 + HOUR), (T0 + HOUR + 10 * MINUTE, T0 + 4 * HOUR)]

    judged = Node(windows, holdings=[Held(spans)], sources=[Reported(spans)]).judge()

    assert totals(judged) == {
        "useful": 4 * HOUR - 15 * MINUTE,
        "unobserved": 10 * MINUTE,
        "stalled": 5 * MINUTE,
    }
