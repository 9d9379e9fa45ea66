"""Whatever becomes of the telemetry (lost, late, doubled) and however often evaluators run: nobody
is told one step twice, nothing twice at one moment, and nobody in his quiet hours.
"""

from collections import Counter
from datetime import time

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetwatch.alerts.incidents.incident_actions import Action, act
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.messaging.heard_today import can_edit
from fleetwatch.alerts.models import Incident, Notification
from fleetwatch.notify.models import Delivery
from tests.alerts import people
from tests.alerts.factories import a_rule, at, ran
from tests.costs.factories import a_gpu, a_job

PART = 15  # minutes of telemetry at a time
QUIET = (time(11), time(14))  # UTC
REACHED = ("sent", "digested")

# of each GPU what it did in a part, and how many parts late that came: None never did
parts = st.tuples(
    st.sampled_from(["quiet", "quiet", "quiet", "active", "unobserved"]),
    st.sampled_from([0, 0, 0, 1, 3, None]),
)
# then what a person does, and how many evaluators run
moments = st.tuples(
    parts,
    parts,
    st.sampled_from(["", "", "", "", "ack", "snooze", "fixed"]),
    st.sampled_from([1, 1, 2, 3]),
)


@pytest.mark.django_db
@settings(max_examples=5)
@given(st.lists(moments, min_size=4, max_size=20))
def test_nobody_is_told_twice_or_woken(day):
    with transaction.atomic():
        play(day)
        check()
        transaction.set_rollback(True)


def play(day) -> None:
    a_rule(minutes=30, escalate_minutes=60, remind_minutes=120)
    people.app()
    ana = people.person()
    people.prefers(ana, quiet_from=QUIET[0], quiet_until=QUIET[1], daily_cap=4)
    people.route("team", people.mail("nlp"), of=people.team("nlp", ana))
    people.route("operators", people.webhook("ops"))
    lanes = [lane(index) for index in range(2)]
    due: list[tuple[int, int, str, int]] = []
    for number, (*each, deed, evaluators) in enumerate(day):
        due += [
            (number + late, index, condition, number)
            for index, (condition, late) in enumerate(each)
            if late is not None
        ]
        for arrival in [arrival for arrival in due if arrival[0] == number]:
            arrive(lanes, arrival)
        now = at((number + 1) * PART)
        for _ in range(evaluators):
            announcing.run(now)
        do(deed, ana, now)


def lane(index: int):
    """A GPU and the job that holds it."""
    gpu = a_gpu(node="node-014", index=index)
    return gpu, a_job(key=f"slurm/della/{index}", user="ana", scheduler="slurm", cluster="della")


def arrive(lanes, arrival) -> None:
    """The part, once however often it is sent."""
    _, index, condition, number = arrival
    gpu, job = lanes[index]
    ran(gpu, condition, number * PART, (number + 1) * PART, job=job)


def do(deed: str, ana, now) -> None:
    incident = Incident.objects.filter(state__in=("firing", "acknowledged")).first()
    if deed and incident is not None:
        act(incident.pk, Action(deed), by=ana, now=now)


def check() -> None:
    reached = Notification.objects.filter(state__in=REACHED)
    steps = Counter(
        reached.filter(kind__in=("opened", "resolved")).values_list(
            "group", "kind", "channel", "address"
        )
    )
    assert max(steps.values(), default=1) == 1, steps
    moments = Counter(
        (row.channel_id, row.address, row.thread, row.created_at)
        for row in Delivery.objects.select_related("channel")
        # a message that stands is edited: nobody hears of that
        if not ("/changed/" in row.key and can_edit(row.channel))
    )
    assert max(moments.values(), default=1) == 1, moments
    woken = [
        (row.key, row.created_at)
        for row in Delivery.objects.exclude(address="")
        if QUIET[0] <= row.created_at.time() < QUIET[1]
    ]
    assert woken == []
    over = Notification.objects.filter(kind="resolved", state__in=REACHED)
    assert all(row.group.closed_at is not None for row in over.select_related("group"))
