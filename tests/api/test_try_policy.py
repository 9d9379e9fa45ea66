"""What another policy would have said, by command and API: nothing is stored, both sides sum to the
same.
"""

import json
from io import StringIO

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.test import Client

from fleetwatch.accounts.models import User
from fleetwatch.accounts.services import create_api_token
from fleetwatch.finance import policy_trial
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.models import Entry
from fleetwatch.ledger.models import Policy as PolicyRow
from tests.costs.factories import a_rate
from tests.ledger.fleet import BUSY, MINUTE, NOW, QUIET, T0, Sender, a_job, held, ledger, post
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@pytest.fixture
def user(db):
    """Whose token `api` sends: who may try policies."""
    return User.objects.create(username="olga", role=User.Role.OPERATOR)


ADDRESS = "/api/v1/ledger/try-policy?from=2026-11-20T06:00Z&to=2026-11-20T07:00Z"
STRICT = {"thresholds": {"idle_batch_s": 300}}


@pytest.fixture(autouse=True)
def at_midnight():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture(scope="module")
def _posted_hour(django_db_setup, django_db_blocker):
    with shared_rows(django_db_blocker):
        with time_machine.travel(NOW, tick=False):
            quiet_in_the_end = (*[BUSY] * 50, *[QUIET] * 10)
            post(Sender().batch(T0, *quiet_in_the_end, jobs=[a_job()], allocations=[held()]))
            a_rate("3.60", gpu=GPU.objects.get())
        yield


@pytest.fixture(autouse=True)
def _posted(_posted_hour, db):
    """Of a job's hour."""


def ask(client, body, address=ADDRESS):
    return client.post(address, json.dumps(body), content_type="application/json")


def test_ten_quiet_minutes_would_be_idle_and_nothing_is_stored(api):
    before = ledger()

    answer = ask(api, STRICT).json()

    rows = {
        (row["state"], row["tier"]): (
            row["is_gpu_ms"],
            row["would_be_gpu_ms"],
            row["is_usd"],
            row["more_usd"],
        )
        for row in answer["rows"]
    }
    assert rows == {
        ("useful", ""): (50 * MINUTE, 50 * MINUTE, 3.0, 0.0),
        ("stalled", "probable"): (10 * MINUTE, 0, 0.6, -0.6),
        ("idle", "certain"): (0, 10 * MINUTE, 0.0, 0.6),
    }
    assert ledger() == before
    assert PolicyRow.objects.count() == 1
    assert set(Entry.objects.values_list("policy__version", flat=True)) == {1}


@pytest.mark.parametrize(("group_by", "group"), [("job", "slurm/della/7"), ("team", "(unmapped)")])
def test_it_is_grouped(api, group_by, group):
    rows = ask(api, STRICT, f"{ADDRESS}&group_by={group_by}").json()["rows"]

    assert {row["group"] for row in rows} == {group}


@pytest.mark.parametrize(
    ("body", "address", "field"),
    [
        ({"thresholds": {"idle": 1}}, ADDRESS, "thresholds"),
        ({"thresholds": {"idle_batch_s": -1}}, ADDRESS, "thresholds"),
        ({"thresholds": {"idle_service_s": 90000}}, ADDRESS, "from"),
        ({"thresholds": {str(number): 1 for number in range(101)}}, ADDRESS, "thresholds"),
        ({}, ADDRESS, "thresholds"),
        (STRICT, f"{ADDRESS}&group_by=mood", "group_by"),
        (STRICT, "/api/v1/ledger/try-policy?from=2026-01-01&to=2026-01-02", "from"),
    ],
)
def test_what_cannot_be_tried_says_why(api, body, address, field):
    answer = ask(api, body, address)

    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_too_many_gpu_hours_are_refused_before_any_is_judged(api, monkeypatch):
    monkeypatch.setattr(policy_trial, "MAX_GPU_HOURS", 0.99)

    assert "1 GPU-hours are more than 1 at once" in ask(api, STRICT).json()["error"]


@pytest.mark.parametrize(
    ("role", "token_role", "status"),
    [
        ("engineer", "", 403),
        ("lead", "", 403),
        ("admin", "engineer", 403),  # a token for less than its user may
        ("operator", "", 200),
        ("finance", "", 200),
        ("admin", "", 200),
    ],
)
def test_it_is_asked_by_operators_and_finance_alone_also_with_a_read_token(
    role, token_role, status
):
    user = User.objects.create(username=f"of-{role}", role=role)
    token = create_api_token(user, scope="read", now=NOW, role=token_role)

    answer = ask(Client(headers={"Authorization": f"Bearer {token}"}), STRICT)

    assert answer.status_code == status
    assert ("rows" in answer.json()) == (status == 200)


def test_a_stranger_gets_401():
    assert ask(Client(), STRICT).status_code == 401


def test_the_command_prints_both_sides(tmp_path):
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"idle_batch_s": 300}))
    out = StringIO()

    call_command(
        "try_policy",
        str(file),
        "--from",
        "2026-11-20T06:00",
        "--to",
        "2026-11-20T07:00",
        stdout=out,
    )

    assert [line.split() for line in out.getvalue().splitlines()[1:]] == [
        ["useful", "0.833", "0.833", "+0.000", "3.00", "3.00", "+0.00"],
        ["stalled", "probable", "0.167", "0.000", "-0.167", "0.60", "0.00", "-0.60"],
        ["idle", "certain", "0.000", "0.167", "+0.167", "0.00", "0.60", "+0.60"],
    ]


@pytest.mark.parametrize(
    "arguments",
    [["nowhere.json"], ["idle=1"], ["idle_batch_s=300", "--from", "soon"], ["idle_batch_s=1e9"]],
)
def test_the_command_refuses_in_one_line(arguments):
    with pytest.raises(CommandError):
        call_command("try_policy", *arguments)
