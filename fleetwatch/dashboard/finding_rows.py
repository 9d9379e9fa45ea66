"""Findings of jobs as lists show them: each with its words, and whether the reader decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from django.contrib.auth.models import AnonymousUser

from fleetwatch.accounts.models import User
from fleetwatch.dashboard.agreements import Agreement, by_finding
from fleetwatch.dashboard.showing import Context
from fleetwatch.diagnosis.cause import Cause, Step
from fleetwatch.diagnosis.findings import deciding, fixes, noted_facts
from fleetwatch.diagnosis.findings.advice import Advice
from fleetwatch.diagnosis.findings.alternatives import Alternative, in_words
from fleetwatch.diagnosis.findings.fixes import Realised
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.diagnosis.judgement.rules import CONFIDENCES
from fleetwatch.diagnosis.models import Finding


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the inbox with its words; `fixed` is what its fix brought, where one is
    measured.
    """

    line: Line
    cause: Cause
    confidence: str
    sentence: str
    step: Step
    alternatives: list[Alternative]
    fixed: Realised | None
    agreement: Agreement | None  # of what is agreed as not waste
    is_of_latest: bool = False  # the step is of the latest run: others' say something else


def context(
    lines: Sequence[Line],
    reader: User | AnonymousUser,
    now: datetime,
) -> Context:
    """The lines with their words, and which of them the reader may decide about."""
    findings = [line.finding for line in lines]
    of_fixed = [line.finding for line in lines if line.status == Finding.Status.FIXED]
    fixed = fixes.of_findings(of_fixed) if of_fixed else {}
    agreed = by_finding(lines, reader=cast("User", reader), now=now)
    return {
        "lines": [
            _row(line, advice, fixed.get(line.finding.pk), agreed.get(line.finding.pk))
            for line, advice in zip(lines, noted_facts.advice_of(lines), strict=True)
        ],
        "decidable": deciding.decidable(cast("User", reader), findings, now=now),
    }


def _row(line: Line, advice: Advice, fixed: Realised | None, agreement: Agreement | None) -> Row:
    return Row(
        line,
        advice.cause,
        CONFIDENCES[line.caused.confidence],
        advice.sentence,
        advice.first,
        in_words(line.alternatives, line.job.kind),
        fixed,
        agreement,
    )
