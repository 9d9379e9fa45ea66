"""Findings of jobs as lists show them: each with its words, and whether the reader decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from django.contrib.auth.models import AnonymousUser

from fleetwatch.accounts.models import User
from fleetwatch.dashboard.showing import Context
from fleetwatch.diagnosis.cause import Cause, Step
from fleetwatch.diagnosis.causes import of_kind
from fleetwatch.diagnosis.findings import advice, deciding, evidence
from fleetwatch.diagnosis.findings.alternatives import Alternative, in_words
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.diagnosis.judgement.rules import CONFIDENCES


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the inbox with its words."""

    line: Line
    cause: Cause
    confidence: str
    step: Step
    alternatives: list[Alternative]


def context(lines: Sequence[Line], reader: User | AnonymousUser, now: datetime) -> Context:
    """The lines with their words, and which of them the reader may decide about."""
    findings = [line.finding for line in lines]
    return {
        "lines": [_row(line) for line in lines],
        "decidable": deciding.decidable(cast("User", reader), findings, now=now),
    }


def _row(line: Line) -> Row:
    job = line.job
    cause = of_kind(line.finding.cause, job.kind)
    place = evidence.place_of(job, may_work=line.may_work)
    return Row(
        line,
        cause,
        CONFIDENCES[line.caused.confidence],
        advice.first_step(cause, place),
        in_words(line.alternatives, job.kind),
    )
