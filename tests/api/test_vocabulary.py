"""The words that OpenAPI lists are those that the rooms below write."""

from typing import get_args

import pytest

from fleetwatch.actions.models import Action, Policy
from fleetwatch.alerts.models import Incident, Notification, Preference, Route, Severity, Silence
from fleetwatch.api import silence_routes, vocabulary
from fleetwatch.budgets import models as budgets
from fleetwatch.budgets import month_end
from fleetwatch.budgets.daily_dollars import METRICS
from fleetwatch.diagnosis.findings.ranked_findings import EXEMPT
from fleetwatch.diagnosis.judgement.rules import CONFIDENCES
from fleetwatch.diagnosis.models import Finding
from fleetwatch.finance import reconciling
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.policy import STATES, TIERS
from fleetwatch.reports import digest, monthly


@pytest.mark.parametrize(
    ("described", "written"),
    [
        (vocabulary.State, STATES),
        (vocabulary.Tier, ("", *TIERS)),
        (vocabulary.JobKind, Job.Kind.values),
        (vocabulary.Confidence, [word for word in CONFIDENCES if word]),
        (vocabulary.FindingConfidence, CONFIDENCES),
        (vocabulary.FindingStatus, (*Finding.Status.values, EXEMPT)),
        (vocabulary.SeriesKind, budgets.KINDS),
        (vocabulary.AnomalyMetric, METRICS),
        (vocabulary.Risk, month_end.RISKS),
        (vocabulary.IncidentState, Incident.State.values),
        (vocabulary.NotificationState, Notification.State.values),
        (vocabulary.RouteKind, Route.Kind.values),
        (vocabulary.NotificationWay, Preference.Way.values),
        (vocabulary.SilenceKind, Silence.Kind.values),
        (
            vocabulary.SilenceState,
            (silence_routes.ACTIVE, silence_routes.PENDING, silence_routes.EXPIRED),
        ),
        (vocabulary.ActionKind, Policy.Kind.values),
        (vocabulary.ActionState, Action.State.values),
        (vocabulary.Severity, Severity.values),
        (vocabulary.Verdict, ("", *Incident.Verdict.values)),
        (vocabulary.ReportKind, (*digest.KINDS, monthly.STATEMENT, monthly.FLEET)),
        (
            vocabulary.DifferenceKind,
            (
                reconciling.MATCHED,
                reconciling.UNMATCHED,
                reconciling.UNBILLED,
                reconciling.COMMITTED,
                reconciling.BOOKED,
            ),
        ),
    ],
)
def test_the_described_words_are_the_written_ones(described, written):
    assert set(get_args(described)) == set(written)
