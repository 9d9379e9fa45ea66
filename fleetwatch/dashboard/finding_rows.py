"""Findings of jobs as lists show them: each with its words, and whether the reader decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import cast

from django.contrib.auth.models import AnonymousUser

from fleetwatch.accounts.models import User
from fleetwatch.dashboard.showing import Context
from fleetwatch.dashboard.step_savings import part_of, share_of
from fleetwatch.diagnosis.cause import Cause, Step
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.findings import deciding, noted_facts
from fleetwatch.diagnosis.findings.advice import Advice
from fleetwatch.diagnosis.findings.alternatives import Alternative, in_words
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.diagnosis.judgement.rules import CONFIDENCES


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the inbox with its words; what it could save is what its `costed` step alone
    saves, where one was measured.
    """

    line: Line
    cause: Cause
    confidence: str
    sentence: str
    step: Step
    costed: Step
    alternatives: list[Alternative]

    @property
    def share(self) -> Fraction | None:
        return share_of(self.costed, self.line.caused.saving)

    @property
    def saving(self) -> Saving:
        return part_of(self.line.caused.saving, self.share)


def context(lines: Sequence[Line], reader: User | AnonymousUser, now: datetime) -> Context:
    """The lines with their words, and which of them the reader may decide about."""
    findings = [line.finding for line in lines]
    return {
        "lines": list(map(_row, lines, noted_facts.advice_of(lines))),
        "decidable": deciding.decidable(cast("User", reader), findings, now=now),
    }


def _row(line: Line, advice: Advice) -> Row:
    return Row(
        line,
        advice.cause,
        CONFIDENCES[line.caused.confidence],
        advice.sentence,
        advice.first,
        advice.costed,
        in_words(line.alternatives, line.job.kind),
    )
