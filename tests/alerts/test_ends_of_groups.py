"""With which notice of its group the end of an incident is told."""

from datetime import timedelta

import pytest

from fleetwatch.alerts.incidents.incident_history import sends
from fleetwatch.alerts.models import IncidentGroup, Notification
from fleetwatch.notify.models import Channel
from tests.alerts.factories import a_rule, an_incident, at

pytestmark = pytest.mark.django_db


def test_an_end_is_told_when_that_of_the_group_is_and_not_with_a_notice_of_others():
    rule = a_rule()
    group = IncidentGroup.objects.create(rule=rule, key="k", opened_at=at(0))
    first = an_incident(
        rule, "slurm/della/7", group=group, opened_at=at(0), state="resolved", resolved_at=at(20)
    )
    second = an_incident(rule, "slurm/della/8", group=group, opened_at=at(30))
    log = Channel.objects.create(kind="log", name="log", config=b"", created_at=at(0))
    for minutes, kind, shown in (
        (0, "opened", [first.pk]),
        (60, "changed", [second.pk]),
        (90, "resolved", []),
    ):
        Notification.objects.create(
            group=group,
            step=0,
            kind=kind,
            channel=log,
            shown=shown,
            state="held",
            due_at=at(minutes) + timedelta(hours=8),
            created_at=at(minutes),
        )

    assert [send.what for send in sends(first)] == ["resolved", "opened"]
    assert [send.what for send in sends(second)] == ["resolved", "opened"]  # its first notice
