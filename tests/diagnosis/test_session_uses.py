"""A session is said to be used by nobody only where it rests for long at the end, or always."""

from typing import Any

import pytest

from fleetwatch.diagnosis.cause import Facts, Pauses
from fleetwatch.diagnosis.findings.advice import advise
from fleetwatch.diagnosis.session_uses import LEFT, NEVER, ON_AND_OFF, use_of
from fleetwatch.diagnosis.shell import Place

MINUTE = 60_000
USED = "A session is used on and off, and keeps its GPUs idle between uses."


def facts(*minutes: float, may_work: bool = False, kind: str = "interactive", **of: Any) -> Facts:
    """Of a job that was idle for so many minutes each time."""
    spans = tuple((at * 10**8, at * 10**8 + round(m * MINUTE)) for at, m in enumerate(minutes))
    pauses = Pauses(spans, 1800.0, idle_gpu_ms=round(sum(minutes) * MINUTE), **of)
    return Facts(Place("slurm", "7", may_work=may_work), kind=kind, pauses=pauses)


@pytest.mark.parametrize(
    ("last", "use"), [(119, ON_AND_OFF), (119.99, ON_AND_OFF), (120, LEFT), (121, LEFT)]
)
def test_it_is_left_when_it_rests_for_two_hours_at_its_end(last, use):
    assert use_of(facts(61, 33, last)) == use


def test_a_long_rest_before_it_was_used_again_is_between_uses():
    assert use_of(facts(900, 38)) == ON_AND_OFF
    assert use_of(facts(900, may_work=True)) == ON_AND_OFF


def test_what_did_nothing_else_was_never_used_however_short_it_was():
    assert use_of(facts(31, are_all=True)) == NEVER


def test_without_a_pause_that_the_ledger_calls_idle_it_is_used():
    assert use_of(facts()) == ON_AND_OFF


def test_of_other_jobs_and_of_unknown_pauses_nothing_is_said():
    assert use_of(facts(900, kind="batch")) == ""
    assert use_of(Facts(kind="interactive")) == ""


def test_the_headline_says_that_nobody_uses_it_only_where_it_was_left():
    assert advise("idle_held", facts(61, 33, 38)).sentence == USED
    assert advise("idle_held", facts(61, 240)).sentence == (
        "A session that nobody uses any more keeps its GPUs."
    )
    assert advise("idle_held", facts(240, are_all=True)).sentence == (
        "A session keeps GPUs that it never used."
    )
    assert advise("idle_held", Facts(kind="interactive")).sentence == (
        "A script that ended, or a session at rest, keeps its GPUs."
    )


def test_a_session_that_is_used_on_and_off_is_not_to_be_ended_now():
    used = advise("idle_held", facts(61, 104, 38))
    left = advise("idle_held", facts(61, 240))

    assert used.command == ""
    assert used.first.text.startswith("End sessions that are idle for 45 minutes")
    assert [step.text for step in used.steps if step.text.startswith(("Stop", "If"))] == []
    assert left.command == "scancel 7"
    assert left.first.text.startswith("If nobody uses this notebook or shell any more")
