"""The rate book's pages: imports by admins, looked at before they are done."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from fleetwatch.costs.models import Commitment, MappingRule, Rate
from fleetwatch.costs.rates.rate_csv import FORM
from fleetwatch.finance.committing import commit
from fleetwatch.inventory.models import GPUModel
from fleetwatch.ledger.models import Entry
from tests.dashboard import factories
from tests.markup import tight

pytestmark = pytest.mark.django_db

PAGES = ["/pricing/import", "/pricing/calculator", "/settings/mappings/import"]
SERVER = {
    "server_usd": "$280,320",
    "gpus_per_server": "8",
    "years": "4",
    "gpu_w": "600",
    "host_w": "1600",
    "pue": "1.25",
    "usd_per_kwh": "0.10",
}
MONTHLY = {
    "rack_usd_per_month": "584",
    "network_usd_per_month": "292",
    "staff_usd_per_month": "146",
}
FILE = "gpu_model,price,valid_from\nH100 SXM,3,2026-11-01\n"


def text_of(response):
    return response.content.decode()


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_stranger_is_sent_to_the_log_in(client, page, method):
    assert getattr(client, method)(page)["Location"].startswith("/accounts/login/")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_viewer_is_refused(viewer, page, method):
    assert getattr(viewer, method)(page).status_code == 403


def test_a_file_is_shown_in_dollars_and_set_by_the_next_step(admin):
    gpu = factories.gpu(factories.node())
    factories.rate("2.00")
    factories.entry(gpu, hours_ago=48, held_by=factories.job(team="nlp")).save()

    shown = admin.post("/pricing/import", {"file": SimpleUploadedFile("rates.csv", FILE.encode())})

    assert shown.status_code == 200
    assert "$1.00" in text_of(shown)
    assert "Set 1 rate<" in tight(text_of(shown))
    assert Rate.objects.count() == 1
    done = admin.post(
        "/pricing/import", {"do": "import", "text": shown.context["text"]}, follow=True
    )
    assert "1 rate was set; 0 stood already." in text_of(done)
    assert Rate.objects.count() == 2


def test_a_rate_of_what_nobody_has_is_doubted_before_it_is_set_and_when(admin):
    GPUModel.objects.get_or_create(name="H100 SMX")
    text = "gpu_model,pool,price,valid_from\nH100 SMX,,2,2026-11-01\n,trian,1,2026-11-01\n"

    shown = text_of(admin.post("/pricing/import", {"text": text}))

    assert (
        "Line 2: No GPU of the model H100 SMX is known. Line 3: No node of the pool trian is known."
        in shown
    )
    assert "Set 2 rates<" in tight(shown)
    done = admin.post("/settings/rate", {"subject": "model:H100 SMX", "usd": "2"}, follow=True)
    assert "No GPU of the model H100 SMX is known." in text_of(done)


def test_a_file_of_mapping_rules_is_shown_by_the_lines_that_it_moves_and_set_by_the_next_step(
    admin,
):
    gpu = factories.gpu(factories.node())
    factories.rate("2.00")
    factories.entry(gpu, hours_ago=48, held_by=factories.job(user="ann", team="nlp")).save()
    sent = {"text": "user,team,project,valid_from\nann,vision,Apollo,beginning\n"}

    shown = admin.post("/settings/mappings/import", sent)

    assert [
        (each.owner, each.label, each.difference_usd) for each in shown.context["dry_run"].changes
    ][:2] == [
        ("team", "nlp", -2),
        ("team", "vision", 2),
    ]
    assert "Set 1 rule<" in tight(text_of(shown))
    assert not MappingRule.objects.exists()
    done = admin.post(
        "/settings/mappings/import", {"do": "import", "text": shown.context["text"]}, follow=True
    )
    assert "1 rule was set; 0 stood already." in text_of(done)
    assert MappingRule.objects.get().created_by == "ann"


def test_bad_lines_are_listed_and_the_text_stays(admin):
    response = admin.post(
        "/pricing/import", {"text": "gpu_model,price,valid_from\n<b>,x,2026-11-01\n"}
    )

    assert response.status_code == 422
    assert '<td class="num">2</td><td><code>price</code></td>' in tight(text_of(response))
    assert "&lt;b&gt;,x" in text_of(response)
    assert "<b>,x" not in text_of(response)


def test_a_file_that_is_too_large_is_refused_and_not_repeated(admin):
    file = SimpleUploadedFile("rates.csv", b"x" * (FORM.max_bytes + 1))

    response = admin.post("/pricing/import", {"file": file})

    assert response.status_code == 422
    assert "larger than 1,000,000 bytes" in text_of(response)
    assert len(response.content) < 100_000


def test_what_can_no_longer_be_set_is_said_by_the_second_step_too(admin):
    response = admin.post(
        "/pricing/import",
        {"do": "import", "text": "node,price,valid_from\nmoon,1,beginning\n"},
    )

    assert response.status_code == 422
    assert "There is no node" in text_of(response)


def test_the_calculator_shows_every_part_and_sets_nothing(admin):
    factories.gpu(factories.node())

    page = text_of(admin.get("/pricing/calculator", SERVER | MONTHLY))

    for amount in ("$1.000000", "$0.100000", "$0.050000", "$0.025000"):
        assert f'title="{amount}"' in page
    assert '<b title="$1.275000">$1.28</b>' in page
    assert "600 W a GPU (assumed)" in page
    assert not Rate.objects.exists()


def test_an_owned_hour_stands_beside_the_rate_the_contract_and_a_used_hour(admin):
    """Jobs held the GPU in one of two recorded hours."""
    factories.rate("2.00")
    gpu = factories.gpu(factories.node(), hours=96)
    factories.entry(gpu, hours_ago=48, held_by=factories.job(team="nlp")).save()
    factories.entry(gpu, hours_ago=47, state="free").save()
    terms = Commitment(
        name="2026-17",
        gpu_model=gpu.model,
        gpus=2,
        valid_from=factories.NOW - timedelta(days=1),
        price_per_gpu_hour=Decimal("1.50"),
    )
    commit(terms, now=factories.NOW)

    owned = admin.get("/pricing/calculator", SERVER | MONTHLY).context["owned"]

    assert owned.usd_per_used_hour == 2 * owned.usd
    assert owned.rate.least_usd == 2
    assert [(each.name, each.usd_per_gpu_hour) for each in owned.contracts] == [
        ("2026-17", Decimal("1.50"))
    ]


def test_what_was_worked_out_is_booked_with_its_parts(admin):
    model = factories.gpu(factories.node()).model

    page = text_of(
        admin.post(
            "/pricing/calculator",
            SERVER | MONTHLY | {"gpu_model": model.name, "since": "2026-11-01"},
            follow=True,
        )
    )

    rate = Rate.objects.get()
    assert (
        rate.gpu_model,
        f"{rate.price_per_gpu_hour:f}",
        rate.pricing_class,
        rate.node_class,
    ) == (model, "1.275000", "owned", "")
    assert [part["name"] for part in rate.components] == [
        "capital",
        "energy",
        "rack",
        "network",
        "staff",
    ]
    assert "costs $1.28 per GPU-hour as owned" in page
    assert "$280,320 a server ÷ 8 GPUs ÷ 4 years" in page


def test_empty_watts_are_the_measured_ones(admin):
    gpu = factories.gpu(factories.node())
    entry = factories.entry(gpu, hours_ago=48)
    entry.energy_j = 3_600 * 512.5
    entry.save()

    page = text_of(admin.get("/pricing/calculator", SERVER | MONTHLY | {"gpu_w": ""}))

    assert "measured: 512.5 W per GPU" in page
    assert "(512.5 W a GPU (measured)" in page


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({"gpu_w": ""}, "The energy of this model was not measured"),
        ({"server_usd": ""}, "Enter a number."),
        ({"server_usd": "1e99"}, "A number from 0 to 100,000,000, please."),
        ({"server_usd": "NaN"}, "A number from 0 to 100,000,000, please."),
        ({"years": "0"}, "A number from 0.1 to 30, please."),
        ({"gpus_per_server": "2.5"}, "A whole number, please."),
        ({"pue": "0.9"}, "A number from 1 to 5, please."),
        ({"usd_per_kwh": "<b>"}, "A number from 0 to 100, please."),
        ({"since": "soon"}, "A date, please"),
        ({"gpu_model": "Voodoo2"}, "There is no GPU model &#x27;Voodoo2&#x27; in the fleet."),
        ({"node_class": "gold"}, "A class is"),
        (
            {"server_usd": "100000000", "gpus_per_server": "1", "years": "0.1"},
            "A GPU-hour costs 0 to 10000 dollars",
        ),
    ],
)
def test_what_can_not_be_worked_out_or_booked_is_said_at_its_field(admin, sent, sentence):
    factories.gpu(factories.node())

    response = admin.post("/pricing/calculator", SERVER | MONTHLY | sent)

    assert response.status_code == 422
    assert sentence in text_of(response)
    assert "<b>&quot;" not in text_of(response)
    assert not Rate.objects.exists()


def test_without_gpus_there_is_nothing_to_work_out(admin):
    assert "No GPU yet" in text_of(admin.get("/pricing/calculator", SERVER))


def test_free_capacity_is_spread_on_the_waste_page_only_when_asked_for(admin):
    gpu = factories.gpu(factories.node())
    factories.rate("2.00")
    factories.entry(gpu, hours_ago=3, held_by=factories.job(team="nlp")).save()
    factories.entry(gpu, hours_ago=2, state="free").save()

    assert "With free" not in text_of(admin.get("/waste?group_by=team"))
    page = text_of(admin.get("/waste?group_by=team&free=proportional"))
    assert "With free" in page
    assert '<span title="$4.000000">$4.00</span>' in page
    # what it was and what it is with free capacity, summed: 1 h held and 1 h free at $2 are $4
    # either way
    together = page[page.index("Total") :]
    assert together.count('<span title="$4.000000">$4.00</span>') == 2
    for query in ("group=team&free=<b>", "group=node&free=even"):
        assert "With free" not in text_of(admin.get(f"/waste?{query}"))


def test_a_node_tells_its_energy_price_and_carbon_once_its_region_is_set(admin):
    gpu = factories.gpu(factories.node())
    entry = factories.entry(gpu, hours_ago=3)
    assert 'id="energy"' not in text_of(admin.get("/nodes/node-001"))
    entry.save()
    assert "Energy was not measured here" in text_of(admin.get("/nodes/node-001"))
    entry.energy_j = 3_600_000.0
    entry.save()

    assert "no price per kWh is set" in text_of(admin.get("/nodes/node-001"))
    admin.post(
        "/settings/region",
        {
            "region": "",
            "pue": "1.25",
            "usd_per_kwh": "0.20",
            "g_per_kwh": "400",
            "source": "<b>meter</b>",
            "since": "beginning",
        },
    )
    page = text_of(admin.get("/nodes/node-001"))
    assert "1.25 kWh" in page
    assert "500 g CO₂e, 400 g a kWh (&lt;b&gt;meter&lt;/b&gt;)" in page
    assert "$0.25" in page


def test_a_job_and_the_waste_page_tell_what_was_drawn_and_what_of_it_is_not_known(admin):
    gpu, job = factories.gpu(factories.node()), factories.job()
    used, idle, stalled = (
        factories.entry(gpu, hours_ago=ago, state=state, held_by=job)
        for ago, state in ((3, "useful"), (2, "idle"), (1, "stalled"))
    )
    used.energy_j, idle.energy_j = 7_200_000.0, 3_600_000.0
    Entry.objects.bulk_create([used, idle, stalled])
    admin.post(
        "/settings/region",
        {"region": "", "pue": "1.5", "usd_per_kwh": "0.20", "since": "beginning"},
    )

    of_job = text_of(admin.get(f"/jobs/{job.key}"))
    wasted = text_of(admin.get("/waste"))

    assert "4.50 kWh" in of_job
    assert "$0.90" in of_job
    assert "1.50 kWh" in wasted
    assert "$0.30" in wasted
    assert "the grid is not known" in wasted
    assert re.search("read in 50.?% of the time", wasted)
    of_idle = text_of(admin.get("/waste?state=idle"))
    assert "drawn by idle GPUs" in of_idle
    assert "1.50 kWh" in of_idle
    assert "kWh" not in text_of(admin.get("/waste?state=useful"))


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({"pue": "0.5"}, "A number from 1 to 5"),
        ({"g_per_kwh": "x"}, "A number, please"),
        ({"pue": ""}, "The energy at the meter"),
    ],
)
def test_a_region_that_can_not_be_is_said_at_its_field(admin, sent, sentence):
    response = admin.post("/settings/region", {"region": "eu", "pue": "1.3"} | sent)

    assert response.status_code == 422


@pytest.mark.parametrize(
    ("field", "typed"), [("usd_per_kwh", "0,12"), ("years", "2,5"), ("pue", "1,3")]
)
def test_a_decimal_comma_is_asked_about_and_never_left_out(admin, field, typed):
    factories.gpu(factories.node())

    page = admin.get("/pricing/calculator", SERVER | MONTHLY | {field: typed})

    assert page.status_code == 422
    assert set(page.context["errors"]) == {field}


@pytest.mark.parametrize("amount", ["1e999999999", "1e-999999999", "NaN", "1_0", "3,2"])
def test_what_is_no_amount_is_told_beside_its_field(admin, amount):
    factories.gpu(factories.node())
    sent = {
        "rate": {"subject": "gpu_model:H100 SXM"},
        "exchange": {"currency": "EUR"},
        "commitment": {"gpu_model": "H100 SXM", "gpus": "2"},
    }

    for action, fields in sent.items():
        page = admin.post(f"/settings/{action}", fields | {"name": "contract 17", "usd": amount})
        assert (page.status_code, set(page.context["errors"])) == (422, {"usd"})
    page = admin.post("/settings/region", {"region": "eu", "pue": "1.3", "usd_per_kwh": amount})
    assert (page.status_code, set(page.context["errors"])) == (422, {"usd_per_kwh"})


def test_a_rate_that_begins_within_a_day_says_its_hour(admin):
    factories.gpu(factories.node())
    file = b"gpu_model,price,valid_from,valid_to\nH100 SXM,3,2026-11-01T13:00Z,2026-11-05\n"
    admin.post("/pricing/import", {"do": "import", "text": file.decode()})

    assert "from 1 Nov 2026, 13:00 to 5 Nov 2026" in tight(text_of(admin.get("/pricing")))
