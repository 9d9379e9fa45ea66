import pytest

from fleetwatch.reports.models import Invoice
from tests.dashboard import factories, fleet

pytestmark = pytest.mark.django_db

PAGES = (
    "/",
    "/recoverable",
    "/worst",
    "/wasters",
    "/changes",
    "/fleet",
    "/fleet?metric=power",
    "/nodes/node-001",
    "/gpus/GPU-node-001-0",
    "/jobs",
    "/jobs/slurm/della/1000",
    "/waste",
    "/waste?group_by=job",
    "/waste?group_by=cause",
    "/costs?group_by=user",
    "/costs?group_by=state",
    "/costs.csv",
    "/charts/costs?as=table",
    "/findings",
    "/findings?status=all&cause=hung&team=nlp&user=ann&assignee=ann",
    "/causes",
    "/causes/checkpoint_stall",
    "/causes/no_telemetry",
    "/waste.csv",
    "/status",
    "/search?q=node",
    "/docs/states",
    "/settings",
    "/settings/general",
    "/pricing",
    "/welcome",
    "/welcome/waiting",
    "/charts/spend",
    "/charts/spend?as=table",
    "/charts/spend?as=csv",
    "/charts/fleet",
    "/charts/fleet?metric=memory",
    "/charts/gpu-util?gpu=GPU-node-001-0",
)


@pytest.mark.parametrize("address", PAGES)
def test_a_stranger_is_sent_to_the_log_in(client, address):
    response = client.get(address)

    assert response.status_code == 302
    assert response["Location"].startswith("/accounts/login/?next=")


PARTS = ("/recoverable", "/worst", "/wasters", "/changes")


def _get(client, address):
    """A page; of a part what the page that shows it is given."""
    return client.get(address, headers={"HX-Request": "true"} if address in PARTS else {})


@pytest.mark.parametrize(
    ("part", "page"),
    [
        ("/wasters?from=now-7d&team=nlp", "/waste?from=now-7d&team=nlp&group_by=user"),
        ("/wasters", "/waste?group_by=user"),
        ("/recoverable?from=now-7d&team=nlp", "/overview?from=now-7d&team=nlp"),
        ("/worst", "/overview"),
        ("/changes?team=nlp", "/overview?team=nlp"),
    ],
)
def test_a_part_that_is_opened_by_itself_leads_to_its_page(admin, part, page):
    fleet.make(nodes=1, gpus=1, hours=1)

    assert admin.get(part)["Location"] == page


@pytest.mark.parametrize(
    ("typed", "page"),
    [
        ("/commitments?unit=hours", "/pricing?unit=hours#commitments"),
        ("/invoices", "/reports/2026-11/invoice"),
    ],
)
def test_likely_addresses_lead_to_where_it_stands(admin, typed, page):
    assert admin.get(typed)["Location"] == page


def test_the_address_of_invoices_leads_to_the_newest_month_with_one(admin):
    for month in ("2026-08", "2026-09"):
        Invoice.objects.create(
            month=month, imported_at=factories.NOW, digest=month, usd_per_unit=1, rows=1
        )

    assert admin.get("/invoices")["Location"] == "/reports/2026-09/invoice"


def test_every_page_answers(admin):
    fleet.make(nodes=2, gpus=2, hours=48)

    assert {address: _get(admin, address).status_code for address in PAGES} == dict.fromkeys(
        PAGES, 200
    )


@pytest.mark.parametrize("address", ["/", "/fleet", "/waste"])
def test_without_a_gpu_the_welcome_is_shown(admin, address):
    response = admin.get(address)

    assert response["Location"] == "/welcome"


def test_without_a_gpu_an_engineer_is_at_home_on_the_own_page(admin):
    admins = admin.get("/welcome").content.decode()
    admin.force_login(factories.user(role="engineer", username="vera"))
    engineers = admin.get("/welcome").content.decode()

    assert admin.get("/")["Location"] == "/me"
    assert "Which jobs are yours?" in admin.get("/me").content.decode()
    for step in ("Set your prices", "Load the demo", "Show the install command"):
        assert (step in admins, step in engineers) == (True, False)
    assert "Claim your jobs" in engineers


def test_budgets_of_an_empty_hub_have_pages_too(admin):
    assert admin.get("/budgets").status_code == 200
    assert admin.get("/budgets/fleet").status_code == 200
    assert admin.get("/charts/budget").json()["data"] == []
