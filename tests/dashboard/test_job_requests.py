"""What a job asked for beside what it held."""

import pytest

from fleetwatch.dashboard.job_requests import (
    NOT_KEPT,
    NOT_SAID,
    notes,
    other_labels,
    request_lines,
)
from fleetwatch.jobs.models import Job

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("limit", "shown"), [("90", "1 h 30 min"), ("", "–"), ("nan", "–"), ("9" * 40, "–")]
)
def test_what_was_not_said_is_a_dash_with_why(limit, shown):
    job = Job(
        labels={"requested_gpus": "4", "requested_cpus": "32", "time_limit_minutes": limit},
        start_ms=0,
    )

    gpus, time, cpus, memory = request_lines(job, gpus=2, now_ms=2 * HOUR_MS)

    assert (gpus.requested, gpus.used, gpus.why) == ("4", "2", "")
    assert (time.requested, time.used) == (shown, "2 h")
    assert (cpus.requested, cpus.used, cpus.why) == ("32", "–", NOT_KEPT)
    assert (memory.requested, memory.why) == ("–", NOT_SAID)
    assert not memory.is_known


def test_why_there_are_dashes_is_said_once():
    lines = request_lines(Job(labels={"requested_cpus": "32"}), gpus=2, now_ms=2 * HOUR_MS)

    assert notes(lines, is_submit_known=False) == [
        "Not reported by its scheduler: GPUs, time limit, memory, when it was submitted.",
        "Use is not kept per job: CPUs.",
    ]
    assert notes(lines, is_submit_known=True)[0].endswith(": GPUs, time limit, memory.")
    assert [line.name for line in lines if line.is_known] == ["GPUs", "CPUs"]


def test_what_was_used_is_shown_though_nobody_said_what_was_asked_for():
    lines = request_lines(Job(labels={}, start_ms=0), gpus=2, now_ms=2 * HOUR_MS)

    known = [(line.name, line.requested, line.used) for line in lines if line.is_known]
    assert known == [("GPUs", "–", "2"), ("Time limit", "–", "2 h")]


def test_labels_that_have_a_line_are_not_listed_again():
    labels = {"requested_gpus": "2", "partition": "h100", "time_limit_minutes": "60"}

    assert other_labels(Job(labels=labels)) == [("partition", "h100")]
