import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.test import Client

from fleetwatch.accounts.models import ApiToken, AuditEntry, Organisation, User
from fleetwatch.accounts.services import authenticate_api_token, create_api_token
from fleetwatch.costs.models import ExchangeRate, Rate
from fleetwatch.dashboard.forms import changes
from fleetwatch.ingest import tokens
from fleetwatch.ingest.models import AgentToken, EnrollmentToken
from fleetwatch.jobs.models import JobLink
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.telemetry.models import TouchedHour
from tests.dashboard import factories
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db

SECRET = re.compile(r"fw_[A-Za-z0-9_-]{43}")


def text_of(response):
    return response.content.decode()


@pytest.mark.parametrize("action", sorted(changes.CHANGES))
def test_a_stranger_changes_nothing(client, action):
    response = client.post(f"/settings/{action}", {})

    assert response["Location"].startswith("/accounts/login/")


@pytest.mark.parametrize("action", sorted(changes.CHANGES))
def test_a_viewer_changes_nothing(viewer, action):
    assert viewer.post(f"/settings/{action}", {}).status_code == 403


@pytest.mark.parametrize("action", sorted(changes.CHANGES))
def test_a_get_changes_nothing_and_leads_to_the_page_of_the_form(admin, action):
    page = admin.get(f"/settings/{action}", follow=True)

    assert page.status_code == 200
    [(address, _)] = page.redirect_chain
    is_money = action.startswith(("rate", "exchange", "commitment", "region"))
    assert address == "/pricing" if is_money else address.startswith("/settings/")


def test_the_effect_of_a_rate_is_shown_before_it_is_set(admin):
    model = factories.gpu(factories.node()).model
    sent = {"subject": f"model:{model.name}", "usd": "2.49", "do": "look"}

    page = tight(text_of(admin.post("/settings/rate", sent)))

    assert "The last 30 days at the new rate" in page
    assert "No monthly statement would get a new version." in page
    assert '<input type="hidden" name="usd" value="2.49">' in page
    assert not Rate.objects.filter(is_example=False).exists()
    assert admin.post("/settings/rate", sent | {"usd": "x"}).status_code == 422


def test_an_old_address_leads_to_where_its_part_is_now(admin):
    assert admin.get("/settings?edit=7")["Location"] == "/settings/channels?edit=7"
    assert admin.get("/settings/rates/import")["Location"] == "/pricing/import"
    old = admin.get("/settings/rates/calculator?years=4")
    assert old["Location"] == "/pricing/calculator?years=4"
    assert 'id="rates"' in text_of(admin.get("/settings"))  # /settings#rates


@pytest.mark.parametrize("action", sorted(changes.CHANGES))
def test_an_empty_form_is_refused_and_never_breaks(admin, action):
    assert admin.post(f"/settings/{action}", {}).status_code == 422


@pytest.mark.usefixtures("_frozen")
def test_a_form_without_its_csrf_token_is_refused_with_a_page():
    client = Client(enforce_csrf_checks=True)
    client.force_login(factories.user())

    response = client.post("/settings/organisation", {"name": "x", "time_zone": "UTC"})

    assert response.status_code == 403
    assert "This form has expired" in text_of(response)


def test_a_viewer_reads_the_settings_without_buttons(viewer):
    for name in ("general", "agents", "channels", "tokens", "months"):
        page = text_of(viewer.get(f"/settings/{name}"))

        assert "an admin can change them" in page
        assert 'action="/settings/' not in page


def test_a_viewer_reads_the_organisation_as_text(viewer):
    page = tight(text_of(viewer.get("/settings/general")))

    assert "<dt>Time zone</dt><dd>UTC</dd>" in page


def test_settings_say_whether_there_is_single_sign_on(viewer, settings):
    off = in_text(tight(text_of(viewer.get("/settings/general"))))
    settings.OIDC_ISSUER, settings.OIDC_NAME = "https://sso.example", "Keycloak <b>"
    on = in_text(tight(text_of(viewer.get("/settings/general"))))

    assert "Single sign-on off; set FLEETWATCH_OIDC_ISSUER to switch on" in off
    assert "Directory (LDAP) off; set FLEETWATCH_LDAP_URL to switch on" in off
    assert "Single sign-on on: Keycloak &lt;b&gt;" in on


def test_a_token_that_never_ends_is_marked(admin):
    create_api_token(User.objects.get(), scope="read", now=factories.NOW, name="grafana")

    page = tight(text_of(admin.get("/settings/tokens")))

    assert '<span class="tag stall-c">never</span>' in page


def test_a_rate_is_set_from_this_hour_on(admin):
    model = factories.gpu(factories.node()).model

    response = admin.post(
        "/settings/rate",
        {"subject": f"model:{model.name}", "usd": "$2.49", "since": "", "source": "contract 7"},
    )

    assert response["Location"] == "/pricing"
    rate = Rate.objects.get()
    assert (rate.price_per_gpu_hour, rate.valid_from, rate.source, rate.is_example) == (
        Decimal("2.49"),
        factories.NOW,
        "contract 7",
        False,
    )


def test_a_rate_of_a_node_can_hold_from_a_day_of_the_organisations_zone(admin):
    Organisation.objects.create(pk=1, time_zone="Europe/Berlin")
    node = factories.node()
    factories.gpu(node)

    admin.post(
        "/settings/rate", {"subject": f"node:{node.name}", "usd": "1", "since": "2026-11-01"}
    )

    assert Rate.objects.get(node=node).valid_from == datetime(2026, 10, 31, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "sentence"),
    [
        (
            "2026-11-01",
            "costs $2.49 per GPU-hour from 2026-11-01 00:00 on; hours before keep their price.",
        ),
        ("beginning", "costs $2.49 per GPU-hour from the beginning. Every page shows it at once."),
    ],
)
def test_the_answer_to_a_rate_says_which_hours_it_changes(admin, since, sentence):
    Organisation.objects.create(pk=1, time_zone="Europe/Berlin")
    model = factories.gpu(factories.node()).model

    page = admin.post(
        "/settings/rate",
        {"subject": f"model:{model.name}", "usd": "2.49", "since": since},
        follow=True,
    ).content.decode()

    assert sentence in page


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("usd", "much", "A number of dollars, please"),
        ("usd", "-1", "dollars"),
        ("usd", "NaN", "dollars"),
        ("usd", "1e9", "dollars"),
        ("since", "yesterday", "A date, please"),
        ("subject", "model:999999", "There is no GPU model &#x27;999999&#x27;"),
        ("subject", "planet:x", "Choose a GPU model, a pool or a node"),
    ],
)
def test_a_wrong_rate_says_what_is_wrong(admin, field, value, sentence):
    model = factories.gpu(factories.node()).model

    response = admin.post(
        "/settings/rate",
        {"subject": f"model:{model.name}", "usd": "2", "since": ""} | {field: value},
    )

    assert response.status_code == 422
    assert sentence in text_of(response)
    assert not Rate.objects.exists()


@pytest.mark.parametrize(
    ("named", "name"),
    [
        ("gpu GPU-node-001-0", "GPU GPU-node-001-0"),
        ("GPU GPU-node-001-0", "GPU GPU-node-001-0"),
        ("pool train", "pool train"),
    ],
)
def test_a_gpu_or_a_pool_is_named_as_the_list_has_it(admin, named, name):
    model = factories.gpu(factories.node()).model

    page = admin.post(
        "/settings/rate",
        {"subject": f"model:{model.name}", "named": named, "usd": "2"},
        follow=True,
    ).content.decode()

    assert f"{name} costs $2.00" in page
    assert f'<td class="name">{name}' in tight(page)


def test_a_models_rate_can_be_for_a_class_and_a_region_of_nodes(admin):
    model = factories.gpu(factories.node()).model

    admin.post(
        "/settings/rate",
        {"subject": f"model:{model.name}", "usd": "2", "node_class": "spot", "region": "eu-1"},
    )

    rate = Rate.objects.get()
    assert (rate.gpu_model, rate.node_class, rate.region, rate.pricing_class) == (
        model,
        "spot",
        "eu-1",
        "spot",
    )
    assert "H100 SXM, spot, eu-1" in text_of(admin.get("/pricing"))


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({"named": "gpu GPU-none"}, "There is no GPU"),
        ({"named": "moon base"}, "Choose a GPU model, a pool or a node"),
        ({"named": "pool a", "region": "eu"}, "Only a GPU model"),
        ({"node_class": "gold"}, "A class is on_demand"),
        ({"region": "x" * 64}, "The name of a region has at most 63"),
    ],
)
def test_a_subject_that_can_not_be_is_said_at_its_field(admin, sent, sentence):
    model = factories.gpu(factories.node()).model

    response = admin.post("/settings/rate", {"subject": f"model:{model.name}", "usd": "2"} | sent)

    assert response.status_code == 422
    assert f'<p class="error" role="alert">{sentence}' in text_of(response)
    assert not Rate.objects.exists()


def test_a_pool_with_a_hostile_name_is_text(admin):
    factories.gpu(factories.node())
    Rate.objects.create(
        pool="<script>alert(1)</script>",
        price_per_gpu_hour=1,
        valid_from=factories.NOW,
        created_at=factories.NOW,
    )

    assert "pool &lt;script&gt;" in text_of(admin.get("/pricing"))


def test_a_price_in_another_currency_needs_an_exchange_rate_and_is_shown_in_its_own(admin):
    model = factories.gpu(factories.node()).model
    price = {"subject": f"model:{model.name}", "usd": "2.50", "currency": "eur"}

    refused = admin.post("/settings/rate", price)
    assert (
        refused.status_code,
        "Nobody said what one &#x27;EUR&#x27; is in dollars" in text_of(refused),
    ) == (422, True)
    told = admin.post(
        "/settings/exchange", {"currency": "EUR", "usd": "1.1", "since": "beginning"}, follow=True
    )
    assert "One EUR is $1.1 from the beginning" in text_of(told)
    page = text_of(admin.post("/settings/rate", price, follow=True))
    assert "H100 SXM costs 2.50 EUR per GPU-hour" in page
    assert "<b>2.50 EUR</b>" in page
    kept = admin.post("/settings/exchange-withdraw", {"id": ExchangeRate.objects.get().pk})
    assert (kept.status_code, "Prices in EUR need it" in text_of(kept)) == (422, True)


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({"currency": "EURO"}, "A currency has three letters"),
        ({"usd": "much"}, "A number of dollars"),
        ({"since": "soon"}, "A date, please"),
    ],
)
def test_a_wrong_exchange_rate_is_said_at_its_field(admin, sent, sentence):
    factories.gpu(factories.node())

    response = admin.post("/settings/exchange", {"currency": "EUR", "usd": "1.1"} | sent)

    assert response.status_code == 422
    assert f'<p class="error" role="alert">{sentence}' in text_of(response)


def test_a_withdrawn_rate_is_gone(admin):
    rate = factories.rate()

    admin.post("/settings/rate-withdraw", {"id": rate.pk})

    assert not Rate.objects.exists()


def test_an_example_price_is_badged_until_the_users_own(admin):
    factories.gpu(factories.node())
    factories.rate(is_example=True)

    assert "list price, set yours" in text_of(admin.get("/pricing"))


def test_the_install_command_carries_a_token_that_works_and_is_shown_once(admin, settings):
    settings.PUBLIC_URL = "https://fleet.example.com"

    response = admin.post("/settings/enrollment", {"uses": "3", "days": "2"})

    page = text_of(response)
    secret = SECRET.search(page).group()
    assert (
        "curl -fsSL https://fleet.example.com/agent/install.sh | { echo"
        f" FLEETWATCH_TOKEN={secret}; cat; }} | sudo sh -s -- --server https://fleet.example.com"
        in page
    )
    assert "no-store" in response["Cache-Control"]
    assert tokens.enroll(secret, "gpu-07", factories.NOW)
    assert EnrollmentToken.objects.get().uses_left == 2
    assert not SECRET.search(text_of(admin.get("/settings/agents")))


@pytest.mark.parametrize(
    ("uses", "days"), [("0", "1"), ("1001", "1"), ("1", "0"), ("1", "367"), ("x", "1"), ("²", "1")]
)
def test_an_enrolment_token_out_of_range_is_refused(admin, uses, days):
    assert admin.post("/settings/enrollment", {"uses": uses, "days": days}).status_code == 422
    assert not EnrollmentToken.objects.exists()


def test_where_nodes_enrolled_from_is_shown_and_a_new_network_is_marked(admin):
    secret = tokens.create_enrollment_token(factories.NOW, uses=3, ttl=timedelta(days=1))
    tokens.enroll(secret, "gpu-07", factories.NOW, address="10.1.2.3")
    tokens.enroll(secret, "gpu-08", factories.NOW, address="198.51.100.7")
    tokens.create_agent_token("gpu-09", factories.NOW)

    page = admin.get("/settings/agents").content.decode()

    rows = [
        " ".join(re.sub("<[^>]*>", " ", row).split())
        for row in re.findall("<tr>.*?</tr>", page, re.DOTALL)
    ]
    (newest,) = [row for row in rows if row.startswith("gpu-08 198.51.100.7")]
    (first,) = [row for row in rows if row.startswith("gpu-07 10.1.2.3")]
    assert newest.startswith("gpu-08 198.51.100.7 new network ")
    assert newest.endswith(f"{secret[:8]}…")
    assert "new network" not in first
    by_node = {row.split()[0]: row for row in rows if "Revoke for good" in row}
    assert "198.51.100.7 new network" in by_node["gpu-08"]
    assert "10.1.2.3" in by_node["gpu-07"]
    assert "by hand or command line" in by_node["gpu-09"]


def test_an_agent_token_speaks_for_its_node_until_it_is_revoked(admin):
    secret = SECRET.search(text_of(admin.post("/settings/agent-token", {"node": "gpu-07"}))).group()
    assert tokens.agent_token(secret, factories.NOW).node.name == "gpu-07"

    admin.post("/settings/agent-token-revoke", {"id": AgentToken.objects.get().pk})

    with pytest.raises(tokens.UnknownTokenError):
        tokens.agent_token(secret, factories.NOW)


def test_an_api_token_is_the_users_own_and_can_be_revoked(admin):
    secret = SECRET.search(text_of(admin.post("/settings/api-token", {"name": "grafana"}))).group()
    assert authenticate_api_token(secret, factories.NOW).username == "ann"

    admin.post("/settings/api-token-revoke", {"id": ApiToken.objects.get().pk})

    assert authenticate_api_token(secret, factories.NOW) is None


@pytest.mark.parametrize("kind", ["agent-token", "enrollment", "api-token"])
def test_a_token_that_is_not_there_is_not_called_revoked(admin, kind):
    assert admin.post(f"/settings/{kind}-revoke", {"id": 999}).status_code == 404


def test_another_zone_has_every_hour_posted_again(admin):
    node = factories.node()
    factories.gpu(node, first_ms=to_ms(factories.NOW) - 2 * HOUR_MS, last_ms=to_ms(factories.NOW))

    admin.post("/settings/organisation", {"name": "Lab", "time_zone": "Asia/Kolkata"})

    assert Organisation.objects.get().time_zone == "Asia/Kolkata"
    assert TouchedHour.objects.filter(node_id=node.pk).count() == 2


def test_a_zone_that_is_none_is_refused(admin):
    response = admin.post(
        "/settings/organisation", {"name": "Lab", "time_zone": "../../etc/passwd"}
    )

    assert response.status_code == 422
    assert "An IANA name, please" in text_of(response)


def test_an_admin_gives_a_token_rights_and_takes_them_back(admin):
    tokens.create_agent_token("gpu-07", factories.NOW)
    token = AgentToken.objects.get()

    admin.post(
        "/settings/agent-token-rights", {"id": token.pk, "speaks_for": "della", "may_import": "on"}
    )
    page = text_of(admin.get("/settings/agents"))
    token.refresh_from_db()
    given = (token.may_import, token.speaks_for)
    admin.post("/settings/agent-token-rights", {"id": token.pk, "speaks_for": ""})
    token.refresh_from_db()

    assert given == (True, "della")
    assert "speaks for della and imports accounting</div>" in page
    assert (token.may_import, token.speaks_for) == (False, "")


def test_a_cluster_with_a_slash_is_refused_at_its_field(admin):
    tokens.create_agent_token("gpu-07", factories.NOW)
    token = AgentToken.objects.get()

    answer = admin.post("/settings/agent-token-rights", {"id": token.pk, "speaks_for": "a/b"})

    assert answer.status_code == 422
    assert "a cluster&#x27;s name has 1 to 128 characters" in text_of(answer)
    assert AgentToken.objects.get().speaks_for == ""


def test_a_viewer_sees_no_token_of_a_node(viewer):
    secret = tokens.create_enrollment_token(factories.NOW, uses=3, ttl=timedelta(days=1))
    tokens.enroll(secret, "gpu-07", factories.NOW, address="10.1.2.3")
    hints = [each.objects.get().hint for each in (AgentToken, EnrollmentToken)]

    for address in ("/settings/agents", "/agents/gpu-07"):
        page = text_of(viewer.get(address))
        assert "gpu-07" in page or address == "/settings/agents"
        for hidden in (*hints, "10.1.2.3", "Last used", "agent-token-rights"):
            assert hidden not in page


def test_who_manages_no_tokens_sees_the_own_alone(client, viewer):
    vera, nora = (
        factories.User.objects.get(username="vera"),
        factories.user(role="operator", username="nora"),
    )
    for user in (vera, nora):
        create_api_token(user, scope="read", now=factories.NOW, name=f"script of {user.username}")

    seen = {}
    for user in (vera, nora, factories.user(username="chief")):
        client.force_login(user)
        shown = client.get("/settings/tokens").context["api_tokens"]
        seen[user.username] = {token.name for token in shown}

    assert seen == {
        "vera": {"script of vera"},
        "nora": {"script of nora"},
        "chief": {"script of vera", "script of nora"},
    }


@pytest.mark.parametrize(
    ("since", "begins"),
    [("2026-11-19T14:00Z", "2026-11-19T14:00Z"), ("2026-11-19T15:00+01:00", "2026-11-19T14:00Z")],
)
def test_a_rate_begins_at_a_time_as_in_a_file(admin, since, begins):
    model = factories.gpu(factories.node()).model

    answer = admin.post(
        "/settings/rate", {"subject": f"model:{model.name}", "usd": "2", "since": since}
    )

    assert answer.status_code == 302
    assert Rate.objects.get().valid_from == datetime.fromisoformat(begins)


@pytest.mark.parametrize(
    ("since", "sentence"),
    [
        ("2026-11-19T14:30Z", "A rate changes on a full UTC hour"),
        ("2026-11-19T14:00", "A date, please, like 2026-11-01, or a time like"),
    ],
)
def test_a_time_that_no_rate_can_begin_at_is_said(admin, since, sentence):
    model = factories.gpu(factories.node()).model

    answer = admin.post(
        "/settings/rate", {"subject": f"model:{model.name}", "usd": "2", "since": since}
    )

    assert answer.status_code == 422
    assert sentence in text_of(answer)


def test_a_link_stands_on_the_page_of_a_job_and_its_template_in_the_audit_log(admin):
    factories.job(name='"><b>')
    sent = {"title": "Logs", "template": "https://logs.example/{name}"}

    refused = admin.post("/settings/link", sent | {"template": "javascript:alert(1)"})
    admin.post("/settings/link", sent)
    page = tight(text_of(admin.get("/jobs/slurm/della/4711")))

    assert refused.status_code == 422
    assert "A whole address, please" in text_of(refused)
    link = '<a href="https://logs.example/%22%3E%3Cb%3E" target="_blank" rel="noopener noreferrer">'
    assert f"{link}Logs" in page
    set_link = AuditEntry.objects.get(action="link.set")
    assert (set_link.subject, set_link.detail) == ("Logs", {"template": sent["template"]})

    admin.post("/settings/link-remove", {"id": JobLink.objects.get().pk})

    assert "logs.example" not in text_of(admin.get("/jobs/slurm/della/4711"))


@pytest.mark.parametrize(("of", "is_old"), [("2025-11-19", True), ("2025-11-20", False)])
def test_a_price_whose_source_is_older_than_a_year_is_flagged(admin, of, is_old):
    factories.gpu(factories.node())
    factories.rate("2.00")
    Rate.objects.update(source_date=of)

    assert ("older than a year" in text_of(admin.get("/pricing"))) is is_old
