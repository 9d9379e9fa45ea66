"""Who sees what is of the own teams alone has their statements, and no others'."""

import pytest

from fleetwatch.accounts.models import OthersShown, Team, User
from fleetwatch.accounts.people import join
from fleetwatch.accounts.services import create_api_token
from tests.accounts.others import shown
from tests.reports.factories import NOW, a_fleet, computed, newest
from tests.shared_rows import shared_rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]
LIMITED = [OthersShown.OWN_TEAMS, OthersShown.PSEUDONYMS]


@pytest.fixture(scope="module")
def _computed_month(django_db_setup, django_db_blocker):
    with shared_rows(django_db_blocker):
        a_fleet()
        computed()
        yield


@pytest.fixture(params=LIMITED)
def lead(request, _computed_month, db) -> User:
    """Of nlp, where others are not seen."""
    shown(request.param)
    user = User.objects.create(username="lea", role="lead")
    join(user, Team.objects.get(slug="nlp"), since=NOW)
    return user


def test_the_own_teams_months_are_listed_with_their_files(lead, client):
    client.force_login(lead)

    page = client.get("/reports").content.decode()

    assert 'href="/teams/nlp/2026-10"' in page
    assert "$9.00" in page
    assert 'href="/teams/vision/' not in page
    assert "$19" not in page  # what the fleet cost


def test_the_own_statement_opens_in_every_form_and_names_no_report_of_the_fleet(lead, client):
    client.force_login(lead)
    own = f"/reports/{newest('nlp').pk}"

    pages = [client.get(f"{own}{form}") for form in ("", "/print", "/csv", "/xlsx", "/focus")]

    assert [page.status_code for page in pages] == [200] * 5
    assert f'href="/reports/{newest().pk}"' not in pages[0].content.decode()
    assert "vision" not in "".join(page.content.decode("latin-1") for page in pages[:3])


@pytest.mark.parametrize("form", ["", "/print", "/csv", "/xlsx", "/focus"])
@pytest.mark.parametrize("subject", ["vision", "(none)", ""])
def test_others_statements_and_the_fleets_report_are_not_there(lead, client, subject, form):
    client.force_login(lead)

    assert client.get(f"/reports/{newest(subject).pk}{form}").status_code == 404


def test_the_api_has_the_own_statements_alone(lead, client):
    token = create_api_token(lead, scope="read", now=NOW)
    bearer = {"Authorization": f"Bearer {token}"}
    period = {"from": "2026-10-01T00:00:00Z", "to": "2026-11-01T00:00:00Z"}

    rows = client.get("/api/v1/reports", period, headers=bearer).json()["rows"]
    own = client.get(f"/api/v1/reports/{newest('nlp').pk}", headers=bearer)
    others = client.get(f"/api/v1/reports/{newest().pk}", headers=bearer)

    assert {row["subject"] for row in rows} == {"nlp"}
    assert (own.status_code, others.status_code) == (200, 404)
