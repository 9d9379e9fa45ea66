"""`manage.py set_policy`: a new version of the policy, and what it judges."""

from datetime import date
from io import StringIO

import pytest
import time_machine
from django.core.management import CommandError, call_command

from fleetwatch.ledger import services
from fleetwatch.ledger.changed_policy import changed
from fleetwatch.ledger.models import ClosedMonth
from fleetwatch.ledger.models import Policy as PolicyRow
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.selectors import current_policy
from tests.ledger.fleet import (
    BUSY,
    MINUTE,
    NOW,
    QUIET,
    START,
    T0,
    Sender,
    a_job,
    held,
    post,
    states,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _at_noon():
    with time_machine.travel(NOW, tick=False):
        yield


def command(*arguments):
    out = StringIO()
    call_command("set_policy", *arguments, stdout=out)
    return out.getvalue().splitlines()


def test_the_named_thresholds_change_and_what_is_kept_is_judged_again():
    post(Sender().batch(T0, *[BUSY] * 50, *[QUIET] * 10, jobs=[a_job()], allocations=[held()]))

    said = command("idle_batch_s=300", "--repost-from", "2026-11-20")
    services.post(NOW, 100)

    assert said == [
        "policy 2 is in force",
        "7 hours since 2026-11-20 00:00 UTC will be judged by it",
    ]
    assert states() == {"useful": 50 * MINUTE, "idle": 10 * MINUTE}
    assert current_policy()[1] == Policy(idle_batch_s=300)


def test_without_a_day_nothing_is_judged_again():
    post(Sender().batch(T0, *[BUSY] * 50, *[QUIET] * 10, jobs=[a_job()], allocations=[held()]))

    assert command("idle_batch_s=300") == ["policy 2 is in force"]
    assert services.post(NOW, 100)["hours"] == 0


def test_a_closed_month_keeps_its_policy_and_no_version_is_made():
    policy_id, _ = current_policy()
    ClosedMonth.objects.create(
        month=date(2026, 11, 1), start=START, end=START, policy_id=policy_id, closed_at=NOW,
        closed_by="ann"
    )  # fmt: skip

    with pytest.raises(CommandError, match="months before 2026-11-20 06:00 UTC are closed"):
        command("idle_batch_s=300", "--repost-from", "2026-11-20")
    assert PolicyRow.objects.count() == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["idle=300"], "'idle=300' is no KEY=VALUE of a policy; there is idle_batch_s"),
        (["idle_batch_s"], "is no KEY=VALUE"),
        (["idle_batch_s=soon"], "expected a number, not 'soon'"),
        (["idle_batch_s=nan"], "expected a number, not 'nan'"),
        (["idle_batch_s=-1"], "expected a number not below 0"),
        (["idle_batch_s=900"], "that is the policy in force already"),
        (["idle_service_s=90000"], "reaches farther than the columns"),
        (["idle_batch_s=300", "--repost-from", "yesterday"], "expected a day like 2026-11-01"),
        (["idle_batch_s=300", "--repost-from", "2026-02-31"], "expected a day like 2026-11-01"),
    ],
)
def test_what_no_policy_can_say_is_refused_in_one_line(arguments, says):
    current_policy()

    with pytest.raises(CommandError, match=says):
        command(*arguments)
    assert PolicyRow.objects.count() == 1


def test_other_thresholds_stay():
    assert changed(Policy(quiet_max=0.03), ["idle_batch_s=300"]) == Policy(
        quiet_max=0.03, idle_batch_s=300
    )
