"""Closing a month on the settings page."""

import re
from datetime import date, timedelta

import pytest

from fleetwatch.costs.mapping.mappings import add_rule
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, Terms
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.models import ClosedMonth
from fleetwatch.ledger.months import closing
from tests.dashboard import factories

pytestmark = pytest.mark.django_db

HOUR = factories.NOW - timedelta(days=45)
MONTH = f"{HOUR:%Y-%m}"


@pytest.fixture
def _spent():
    factories.entry(factories.gpu(factories.node()), hours_ago=45 * 24).save()


@pytest.mark.usefixtures("_spent")
def test_an_admin_closes_a_month_and_the_page_says_who(admin):
    response = admin.post("/settings/month", {"month": MONTH, "reason": "<b>invoice 7</b>"})

    assert response["Location"] == "/settings/months"
    assert ClosedMonth.objects.get().month == date(HOUR.year, HOUR.month, 1)
    page = admin.get("/settings/months").content.decode()
    assert f"{HOUR:%B %Y}" in page
    assert "&lt;b&gt;invoice 7&lt;/b&gt;" in page


@pytest.mark.usefixtures("_spent")
def test_what_is_left_to_do_stands_above_the_closing(admin):
    text = " ".join(re.sub("<[^>]*>", " ", admin.get("/settings/months").content.decode()).split())

    assert f"Before {HOUR:%B %Y} is closed" in text
    assert "done Every hour is posted" in text
    assert "done Every job’s dollars have a team" in text
    assert "open The invoice is imported, and its differences are booked : no invoice" in text
    assert "open Every team’s statement is approved : none is computed" in text


@pytest.mark.usefixtures("_spent")
def test_dollars_without_a_project_are_to_be_looked_at_where_a_rule_names_any(admin):
    """One job is mapped to a project, the other to none."""
    factories.rate("2.00")
    gpu = GPU.objects.get()
    for user, ago in (("ann", 45 * 24 - 1), ("bob", 45 * 24 - 2)):
        job = factories.job(f"slurm/della/{ago}", team="nlp", user=user)
        factories.entry(gpu, hours_ago=ago, held_by=job).save()
    add_rule(
        Terms(Conditions(user="ann"), Gives(project="Apollo"), valid_from=HOUR, valid_to=None),
        by="ann",
        now=HOUR,
    )

    text = " ".join(re.sub("<[^>]*>", " ", admin.get("/settings/months").content.decode()).split())

    assert "open Every job’s dollars have a project : $2.00 of jobs without a project" in text
    assert "until now" not in text
    assert "have a cost centre" not in text
    assert "Advice only" in text


def test_of_a_month_that_runs_dollars_without_a_team_count_until_now(admin):
    factories.rate("2.00")
    gpu = factories.gpu(factories.node())
    factories.entry(gpu, hours_ago=2, held_by=factories.job(team="")).save()

    text = " ".join(re.sub("<[^>]*>", " ", admin.get("/settings/months").content.decode()).split())

    assert "$2.00 of jobs without a team until now" in text


@pytest.mark.parametrize(
    ("month", "says"),
    [
        ("2026-13", "Expected a month like 2026-10"),
        ("9999-12", "Expected a month like 2026-10"),
        ("0001-01", "Expected a month like 2026-10"),
        ("1999-01", "The ledger has no hour of 1999-01"),
    ],
)
def test_a_month_that_cannot_be_closed_is_refused_beside_its_field(admin, month, says):
    response = admin.post("/settings/month", {"month": month})

    assert response.status_code == 422
    assert says in response.content.decode()
    assert not ClosedMonth.objects.exists()


def test_what_breaks_while_a_month_is_closed_is_no_sentence_for_people(admin, monkeypatch):
    def broken(*_, **__):
        raise ValueError("spans overlap")

    monkeypatch.setattr(closing, "close_month", broken)

    with pytest.raises(ValueError, match="spans overlap"):
        admin.post("/settings/month", {"month": MONTH})


@pytest.mark.usefixtures("_spent")
def test_the_time_zone_stays_once_a_month_is_closed(admin):
    admin.post("/settings/month", {"month": MONTH})

    response = admin.post("/settings/organisation", {"name": "ACME", "time_zone": "Asia/Kolkata"})

    assert response.status_code == 422
    assert "the time zone stays" in response.content.decode()
    assert (
        admin.post("/settings/organisation", {"name": "ACME", "time_zone": "UTC"}).status_code
        == 302
    )
