"""My page of who pays: the month to date, and what waits for a decision."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from fleetwatch.accounts.models import Membership, Team, User
from fleetwatch.reports.models import Report
from fleetwatch.reports.statement_sending import approve
from tests.costs.factories import set_budget
from tests.dashboard import factories
from tests.dashboard.test_me import page
from tests.diagnosis.told import NOW
from tests.reports.factories import a_fleet, computed

pytestmark = pytest.mark.django_db


@pytest.fixture
def fiona(client, _frozen) -> User:
    user = factories.user(role="finance", username="fiona")
    client.force_login(user)
    return user


@pytest.fixture
def held_hour(_frozen):
    """An hour of the 18th that a job of team nlp held, $2."""
    factories.rate("2.00")
    on = factories.gpu(factories.node())
    factories.entry(on, hours_ago=48, held_by=factories.job()).save()


def waiting(client) -> list[tuple[str, int, str]]:
    return [(duty.label, duty.count, duty.note) for duty in client.get("/me").context["duties"]]


def test_budgets_that_are_passed_wait_for_finance(client, fiona, held_hour):
    for of, usd in ((Team.objects.get(), 1), (None, 100)):
        set_budget(of, NOW.date().replace(day=1), Decimal(usd), repeats=True, now=NOW, by="ann")

    assert (
        "Budgets that are passed, or may be by the month’s end",
        1,
        "nlp is over it",
    ) in waiting(client)


def test_who_pays_sees_the_month_first(client, fiona, held_hour):
    set_budget(None, NOW.date().replace(day=1), Decimal(8), repeats=True, now=NOW, by="ann")

    [month] = client.get("/me").context["months"]

    assert (month.spent_usd, month.wasted_usd, month.share) == (2, 0, Decimal("0.25"))
    assert "My month" in page(client)
    assert client.get("/waste?from=now/M&to=now").status_code == 200
    assert '"/waste?from=now/M&amp;to=now"' in page(client)


def test_who_does_not_pay_sees_no_month(viewer):
    assert viewer.get("/me").context["months"] == []


def test_a_lead_sees_the_month_of_the_own_team_alone(client, held_hour):
    nlp, vision = (Team.objects.get_or_create(slug=slug)[0] for slug in ("nlp", "vision"))
    set_budget(nlp, NOW.date().replace(day=1), Decimal(8), repeats=True, now=NOW, by="ann")
    lead = factories.user(role="lead", username="lea")
    Membership.objects.create(team=nlp, user=lead, valid_from=NOW - timedelta(days=1))
    client.force_login(lead)

    [month] = client.get("/me").context["months"]

    assert (month.key, month.budget_usd) == (nlp.slug, 8)
    assert "/waste?from=now/M&amp;to=now&amp;team=nlp" in page(client)
    assert vision.slug not in page(client)


def test_statements_that_nobody_approved_wait_for_finance(client, fiona):
    a_fleet()
    computed(now=NOW)
    label = "Statements of October 2026 not approved"

    [before] = [each for each in waiting(client) if each[0] == label]
    for report in Report.objects.filter(kind="statement"):
        approve(report, now=NOW, by="fiona")

    assert before == (label, 2, "")
    assert label not in page(client)


def test_statements_of_a_month_that_runs_are_told_as_such(client, fiona, held_hour):
    computed("2026-11", now=NOW)

    [line] = [each for each in waiting(client) if each[0].startswith("Statements")]

    assert line[0] == "Statements of November 2026 not approved"
    assert line[2] == "not before it is over, from 1 Dec 2026 on: its last version is approved then"


def test_lines_of_an_invoice_that_differ_and_are_not_booked_wait_for_finance(
    client, fiona, held_hour
):
    file = SimpleUploadedFile("a.csv", b"sku,amount\nstorage,3\n")
    client.post("/reports/2026-11/invoice/import", {"file": file})

    [line] = [each for each in waiting(client) if each[0].startswith("Invoice lines")]

    # $3.00 that the ledger has not, and $2.00 of the ledger that is not on the invoice
    assert line[1:] == (2, "$1.00 together, some more and some less")


def test_without_anything_that_waits_that_is_said(client, fiona):
    assert "Nothing: all that your role decides is decided." in page(client)
