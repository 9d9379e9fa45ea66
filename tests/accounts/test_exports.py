"""Whoever takes a file is in the audit log, with what was in it; whoever looks at a page is not."""

import pytest
from django.test import Client

from fleetwatch.accounts.models import AuditEntry, User
from fleetwatch.accounts.services import create_api_token
from fleetwatch.reports.models import Report
from tests.dashboard.factories import NOW

pytestmark = pytest.mark.django_db
OF_MONTH = {"start": "2026-10-01T00:00:00+00:00", "end": "2026-11-01T00:00:00+00:00"}
OF_DAY = {"start": "2026-11-01T00:00:00+00:00", "end": "2026-11-02T00:00:00+00:00"}
DAY = "from=2026-11-01&to=2026-11-02"


@pytest.fixture
def client(there) -> Client:
    client = Client(REMOTE_ADDR="10.0.0.9")
    client.force_login(there.users["admin"])
    return client


@pytest.fixture
def statement(there) -> Report:
    return Report.objects.latest("pk")


def taken() -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(action__startswith="export.").order_by("pk"))


@pytest.mark.parametrize(
    ("address", "asked", "file"),
    [
        ("/waste.csv", f"group_by=user&team=nlp-research&{DAY}", "fleetwatch-waste-by-user.csv"),
        ("/jobs.csv", f"sort=cost&{DAY}", "fleetwatch-jobs.csv"),
        ("/explain.csv", f"user=ann&{DAY}", "fleetwatch-explained.csv"),
        ("/charts/spend", f"as=csv&{DAY}", "fleetwatch-spend.csv"),
        ("/settings/audit.csv", f"who=bo&{DAY}", "fleetwatch-audit.csv"),
        ("/settings/audit.jsonl", f"kind=rate&{DAY}", "fleetwatch-audit.jsonl"),
    ],
)
def test_who_took_which_file_of_which_time_is_kept(client, address, asked, file):
    answer = client.get(f"{address}?{asked}")

    [entry] = taken()
    assert (entry.at, entry.name, entry.via) == (NOW, "walker-admin", "page")
    assert (entry.address, entry.action, entry.subject) == ("10.0.0.9", "export.file", address)
    size = {"bytes": len(answer.content)}
    assert entry.detail == {"file": file, "asked": asked, **OF_DAY, **size}


@pytest.mark.parametrize("form", ["csv", "xlsx", "focus"])
def test_a_reports_file_is_of_its_month(client, statement, form):
    answer = client.get(f"/reports/{statement.pk}/{form}")

    [entry] = taken()
    assert entry.subject == f"/reports/{statement.pk}/{form}"
    assert entry.detail.items() >= {**OF_MONTH, "bytes": len(answer.content)}.items()


def test_a_whole_report_by_the_api_is_a_file_too(there, statement):
    token = create_api_token(there.users["finance"], scope="read", now=NOW)

    Client().get(f"/api/v1/reports/{statement.pk}", headers={"Authorization": f"Bearer {token}"})

    [entry] = taken()
    assert (entry.name, entry.via, entry.action) == ("walker-finance", "api", "export.report")
    assert entry.detail.items() >= {**OF_MONTH, "token": f"{token[:8]}…"}.items()


def test_twice_is_two_entries(client):
    for _ in range(2):
        client.get("/waste.csv")

    assert len(taken()) == 2


def test_a_long_address_is_cut(client):
    client.get(f"/waste.csv?user={'x' * 600}")

    [entry] = taken()
    assert entry.detail["asked"] == f"user={'x' * 495}"


@pytest.mark.parametrize(
    "address",
    [
        "/waste.csv?group_by=nap",
        "/waste.csv?from=never",
        "/charts/nap?as=csv",
        "/charts/spend",
        "/charts/spend?as=table",
        "/reports/999999/csv",
        "/settings/audit.csv?kind=nap",
        "/settings/audit",
        "/waste",
    ],
)
def test_what_gives_no_file_is_no_entry(client, address):
    client.get(address)

    assert taken() == []


def test_who_may_not_takes_nothing(there):
    client = Client()
    client.force_login(User.objects.get(username="walker-engineer"))

    assert client.get("/settings/audit.csv").status_code == 403
    assert taken() == []
