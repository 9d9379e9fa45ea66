"""A session is said to be used by nobody only where it rests for long at the end, or always."""

import pytest

from fleetwatch.diagnosis.cause import Facts, Pauses
from fleetwatch.diagnosis.findings.advice import advise
from fleetwatch.diagnosis.session_uses import LEFT, NEVER, ON_AND_OFF, use_of
from fleetwatch.diagnosis.shell import Place

MINUTE = 60_000
USED = "A session is used on and off, and keeps its GPUs idle between uses."
RESTS = "A script that ended, or a session at rest, keeps its GPUs."


def facts(
    *spans: tuple[float, float],
    worked: float | None,
    may_work: bool = False,
    kind: str = "interactive",
    are_all: bool = False,
) -> Facts:
    """Of a job that was idle in these minutes, and at work last until that one (None: never)."""
    pauses = Pauses(
        tuple((round(low * MINUTE), round(high * MINUTE)) for low, high in spans),
        1800.0,
        idle_gpu_ms=round(sum(high - low for low, high in spans) * MINUTE),
        are_all=are_all,
        worked_ms=None if worked is None else round(worked * MINUTE),
    )
    return Facts(Place("slurm", "7", may_work=may_work), kind=kind, pauses=pauses)


@pytest.mark.parametrize(
    ("end", "use"), [(319, ON_AND_OFF), (319.99, ON_AND_OFF), (320, LEFT), (321, LEFT)]
)
def test_it_is_left_when_it_rests_for_two_hours_at_its_end(end, use):
    assert use_of(facts((10, 71), (200, end), worked=200)) == use


def test_who_came_back_after_a_long_rest_uses_it():
    """It worked again for a minute after it had rested for three hours."""
    assert use_of(facts((10, 190), worked=191)) == ON_AND_OFF
    assert use_of(facts((10, 910), (920, 958), worked=920)) == ON_AND_OFF


def test_a_moment_of_work_in_the_last_two_hours_of_a_pause_leaves_it_used():
    assert use_of(facts((10, 310), worked=190)) == LEFT
    assert use_of(facts((10, 310), worked=191)) == ON_AND_OFF


def test_while_it_may_work_nobody_is_said_to_have_left_it():
    assert use_of(facts((10, 310), worked=10, may_work=True)) == ""


def test_what_did_nothing_else_was_never_used_however_short_it_was():
    assert use_of(facts((0, 31), worked=None, are_all=True)) == NEVER


def test_of_what_nobody_saw_nothing_is_said():
    """Two pauses with a time between them in which nothing was read."""
    assert use_of(facts((0, 31), (90, 300), worked=None)) == ""


def test_whether_somebody_comes_back_after_the_first_rest_is_not_known():
    assert use_of(facts((10, 70), worked=10)) == ""


def test_of_other_jobs_and_of_unknown_pauses_nothing_is_said():
    assert use_of(facts((10, 910), worked=10, kind="batch")) == ""
    assert use_of(facts(worked=10)) == ""
    assert use_of(Facts(kind="interactive")) == ""


def test_the_headline_says_that_nobody_uses_it_only_where_it_was_left():
    assert advise("idle_held", facts((10, 71), (80, 120), worked=80)).sentence == USED
    assert advise("idle_held", facts((10, 310), worked=10)).sentence == (
        "A session that nobody uses any more keeps its GPUs."
    )
    assert advise("idle_held", facts((0, 240), worked=None, are_all=True)).sentence == (
        "A session keeps GPUs that it never used."
    )
    assert advise("idle_held", facts((10, 70), worked=10)).sentence == RESTS
    assert advise("idle_held", Facts(kind="interactive")).sentence == RESTS


def test_a_session_that_is_used_on_and_off_is_not_to_be_ended_now():
    used = advise("idle_held", facts((10, 114), (120, 158), worked=120))
    left = advise("idle_held", facts((10, 71), (80, 320), worked=80))

    assert used.command == ""
    assert used.first.text.startswith("End sessions that are idle for 45 minutes")
    assert [step.text for step in used.steps if step.text.startswith(("Stop", "If"))] == []
    assert left.command == "scancel 7"
    assert left.first.text.startswith("If nobody uses this notebook or shell any more")
