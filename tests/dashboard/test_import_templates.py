"""Files to begin with, of what can be imported."""

from zoneinfo import ZoneInfo

import pytest

from fleetwatch.accounts.models import Team
from fleetwatch.costs.rates import rate_csv
from fleetwatch.dashboard.views.imports import PEOPLE, RATES, RULES
from tests.dashboard import factories

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        ("/pricing/import", RATES),
        ("/settings/mappings/import", RULES),
        ("/settings/people/import", PEOPLE),
    ],
)
def test_a_template_has_all_columns_and_a_line_that_could_be_imported(admin, page, kind):
    factories.gpu(factories.node())
    Team.objects.create(slug="vision", name="Vision")

    template = admin.get(f"{page}.csv").content.decode()
    shown = admin.post(page, {"text": template})

    assert tuple(template.splitlines()[0].split(",")) == kind.columns
    assert f'href="{page}.csv"' in admin.get(page).content.decode()
    assert "refused" not in shown.context, shown.context["refused"].faults
    assert shown.context["dry_run"].would.set == 1


def test_a_template_is_for_who_may_import(client):
    client.force_login(factories.user(role="engineer"))

    assert client.get("/settings/people/import.csv").status_code == 403


def test_the_page_of_rates_has_a_line_of_each_kind_that_can_be_read_and_says_what_both_classes_are(
    admin,
):
    page = admin.get("/pricing/import").content.decode()

    rows, faults = rate_csv.read(RATES.examples_csv.encode(), ZoneInfo("UTC"))

    assert [row.kind for row in rows] == ["gpu_model", "node", "pool"]
    assert not faults
    assert ",gpu-07,,,,,1.80," in page
    assert "it narrows nothing" in " ".join(page.split())
    assert 'aria-label="Settings"' in page
