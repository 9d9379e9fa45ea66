"""After how long an idle notebook should end: below the pauses that were seen, by hand."""

from itertools import accumulate
from typing import Any

import pytest

from fleetwatch.diagnosis.cause import Facts, Pauses
from fleetwatch.diagnosis.culling import GOES_ON, culling, timeout
from fleetwatch.diagnosis.findings import advice
from fleetwatch.diagnosis.session_kinds import session_of

MINUTE = 60.0
GRACE_S = 30 * MINUTE  # how long the shipped policy lets a session rest
SETTING = "cull_idle_timeout"


def pauses(*minutes: float, grace_s: float = GRACE_S, gpus: int = 1, **facts: Any) -> Pauses:
    """Of so many minutes each, a minute apart."""
    ends = list(accumulate(minutes, lambda end, length: end + 1 + length, initial=0))[1:]
    spans = [
        (round((end - length) * 60_000), round(end * 60_000))
        for end, length in zip(ends, minutes, strict=True)
    ]
    idle_gpu_ms = round(sum(minutes) * gpus * 60_000)
    return Pauses(tuple(spans), grace_s, **{"idle_gpu_ms": idle_gpu_ms} | facts)


@pytest.mark.parametrize(
    ("longest", "minutes"),
    [
        (34.9, None),  # a server that looks each five minutes might miss it
        (35, None),
        (35.1, 30),
        (40, 30),  # an hour would never have ended it
        (89.9, 30),
        (90, 45),  # half of it
        (119.9, 45),
        (120, 60),
        (6000, 60),
    ],
)
def test_a_notebook_ends_after_half_its_longest_pause(longest, minutes):
    ended_s = timeout(pauses(3, longest, 12))

    assert ended_s == (None if minutes is None else minutes * 60)


def test_a_notebook_may_rest_as_long_as_the_policy_lets_it():
    assert timeout(pauses(70, grace_s=40 * MINUTE)) == 45 * 60
    assert timeout(pauses(600, grace_s=90 * MINUTE)) is None


def test_a_job_without_pauses_gets_no_such_setting():
    assert timeout(pauses()) is None
    assert culling(Facts(kind="interactive")) is None


def test_the_advice_says_what_it_would_have_saved():
    """Of pauses of 40, 33 and 95 minutes the ends after 45 + 5: 45 minutes of 168."""
    step = culling(Facts(kind="interactive", session="jupyter", pauses=pauses(40, 33, 95)))

    assert step is not None
    assert step.text == (
        "Let idle notebooks end by themselves after 45 minutes: of the 2.80 GPU-hours in which this"
        " job was idle that would have saved 0.75 GPU-hours, what is beyond 50 minutes of each pause"
        " (the server looks each 5), had it been started again after each; more where nobody came"
        " back."
    )
    assert "c.MappingKernelManager.cull_idle_timeout = 2700\n" in step.code


@pytest.mark.parametrize(("longest", "settings"), [(35, 0), (40, 1)])
def test_where_no_setting_helps_the_step_is_left_out(longest, settings):
    steps = advice.advise(
        "idle_held", Facts(kind="interactive", session="jupyter", pauses=pauses(longest))
    ).steps

    assert len([step for step in steps if SETTING in step.code]) == settings
    assert len([step for step in steps if "by themselves" in step.text]) == settings


def test_an_editors_session_gets_no_setting_of_jupyter():
    """Two GPUs: of 2 x 95 idle minutes the ends after 45 are 2 x 50."""
    step = culling(
        Facts(kind="interactive", session="vscode", gpus=2, pauses=pauses(95, gpus=2)),
    )

    assert step is not None
    assert step.text == (
        "End sessions that are idle for 45 minutes, or give them a time limit: of the 3.17"
        " GPU-hours in which this job was idle that would have saved 1.67 GPU-hours, what is beyond"
        " 45 minutes of each pause, had it been started again after each; more where nobody came"
        " back."
    )
    assert (step.code, step.detail) == ("", "")
    assert step.saved_gpu_ms == 100 * 60_000
    told = advice.advise("idle_held", Facts(kind="interactive", session="vscode"))
    assert not [each for each in (*told.steps, *told.tell) if "upyter" in each.text + each.code]


def test_what_it_would_have_saved_is_the_sum_of_what_is_beyond_in_the_ledgers_stretches():
    """Beyond 45 of 61, 50, 32, 104, 70, 71, 33, 33 and 38 minutes: 16 + 5 + 59 + 25 + 26."""
    of_ledger = pauses(61, 50, 32, 104, 70, 71, 33, 33, 38)

    step = culling(Facts(kind="interactive", session="vscode", pauses=of_ledger))

    assert step.saved_gpu_ms == 131 * 60_000
    assert step.idle_gpu_ms == 492 * 60_000
    assert (
        "of the 8.20 GPU-hours in which this job was idle that would have saved 2.18" in step.text
    )


def test_of_a_shared_gpu_it_saves_the_jobs_share_and_nothing_that_was_not_observed():
    """Half of what is beyond 45 of 105 minutes."""
    shared = pauses(105, idle_gpu_ms=round(52.5 * 60_000), counted=0.5)

    step = culling(Facts(kind="interactive", session="vscode", pauses=shared))

    assert (step.saved_gpu_ms, step.idle_gpu_ms) == (30 * 60_000, 52.5 * 60_000)


def test_that_a_pause_goes_on_over_a_moment_of_work_is_said_on_the_findings_page():
    step = culling(Facts(kind="interactive", pauses=pauses(95, has_moments=True)))

    assert step.detail == GOES_ON


@pytest.mark.parametrize(
    ("names", "session"),
    [
        (("vscode", "python"), "vscode"),
        (("dev", "/home/ann/.vscode-server/bin/node"), "vscode"),
        (("vscode", "ipykernel_launcher"), "vscode"),  # the editor's own kernel
        (("sweep", "jupyter-lab"), "jupyter"),
        (("notebook-gpu",), "jupyter"),
        (("bash", "python"), ""),
        ((), ""),
    ],
)
def test_what_runs_a_session_is_told_by_its_names(names, session):
    assert session_of(names) == session


def test_what_a_step_does_is_said_without_its_numbers():
    step = culling(Facts(pauses=pauses(180)))

    assert step.what == "End sessions that are idle for 60 minutes, or give them a time limit"
