"""My page of who pays: the month to date, and what waits for a decision."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from fleetwatch.accounts.models import Membership, Team, User
from fleetwatch.costs.models import Commitment
from fleetwatch.dashboard import duties
from fleetwatch.diagnosis.models import Finding
from fleetwatch.finance.committing import commit
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.notify.models import Channel
from fleetwatch.reports.models import Report
from fleetwatch.reports.statement_sending import add_recipient, approve
from tests.alerts.factories import a_rule, an_incident
from tests.costs.factories import an_entry, set_budget
from tests.dashboard import factories
from tests.dashboard.test_me import page
from tests.diagnosis import told
from tests.diagnosis.told import NOW
from tests.markup import tight
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
    assert "<h1>My page</h1>" in page(client)
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


def test_statements_that_reach_nobody_wait_for_finance_with_where_a_recipient_is_added(
    client, fiona, monkeypatch
):
    a_fleet()
    computed(now=NOW)
    nlp, vision = (Team.objects.get(slug=slug) for slug in ("nlp", "vision"))
    mail = Channel.objects.create(name="mail", kind="email", is_enabled=False, created_at=NOW)
    log = Channel.objects.create(name="kept", kind="log", created_at=NOW)
    add_recipient(nlp, mail, "cfo@example.org", now=NOW, by="fiona")

    def reaches_nobody():
        waits = client.get("/me").context["duties"]
        return [each.places for each in waits if each.label.endswith("reaches nobody")]

    to = "/2026-10#recipients"
    assert reaches_nobody() == [
        [
            ("NLP: its channel is switched off", f"/teams/nlp{to}"),
            ("VISION: no recipient", f"/teams/vision{to}"),
        ]
    ]
    assert f'href="/teams/vision{to}"' in page(client)
    with monkeypatch.context() as few:
        few.setattr(duties, "MAX_NAMED", 1)
        assert reaches_nobody()[0][1:] == [("and 1 more", "/reports#statements")]
    add_recipient(vision, log, "", now=NOW, by="fiona")
    Channel.objects.filter(pk=mail.pk).update(is_enabled=True)
    assert reaches_nobody() == [
        [("VISION: kept here, sent nowhere", f"/teams/vision{to}")],
    ]
    for address in ("/reports", f"/teams/vision{to}"):
        assert "kept here, sent nowhere" in client.get(address).content.decode()
    add_recipient(vision, mail, "vision@example.org", now=NOW, by="fiona")
    assert reaches_nobody() == []


def test_statements_of_a_month_that_runs_wait_for_nobody(client, fiona, held_hour):
    computed("2026-11", now=NOW)

    assert [each for each in waiting(client) if each[0].startswith("Statements")] == []


def test_lines_of_an_invoice_that_differ_and_are_not_booked_wait_for_finance(
    client, fiona, held_hour
):
    file = SimpleUploadedFile("a.csv", b"sku,amount\nstorage,3\n")
    client.post("/reports/2026-11/invoice/import", {"file": file})

    [line] = [each for each in waiting(client) if each[0].startswith("Invoice lines")]

    # $3.00 that the ledger has not, and $2.00 of the ledger that is not on the invoice
    assert line[1:] == (2, "$1.00 together, some more and some less")


def test_what_the_fleets_report_has_already_waits_for_nobody(client, fiona, held_hour):
    """A commitment of $1.50 an hour paid for a GPU that was not there."""
    terms = Commitment(
        name="2026-17",
        gpu_model=GPU.objects.get().model,
        gpus=1,
        valid_from=NOW.replace(day=1, hour=0),
        price_per_gpu_hour=Decimal("1.50"),
    )
    commit(terms, now=NOW)
    file = SimpleUploadedFile("a.csv", b"sku,amount\nstorage,3\n")
    client.post("/reports/2026-11/invoice/import", {"file": file})

    [line] = [each for each in waiting(client) if each[0].startswith("Invoice lines")]

    assert line[1:] == (2, "$1.00 together, some more and some less")
    # the closing of the month counts the same
    assert "2 open, $1.00 together" in client.get("/settings/months").content.decode()


def test_without_anything_that_waits_that_is_said(client, fiona):
    assert "Nothing: all that your role decides is decided." in page(client)


@pytest.fixture
def lea(client, _frozen) -> User:
    """The lead of nlp. Each of two teams has an hour at $2.40 wasted, of which half to all could
    be saved: only nlp's is hers.
    """
    told.rate("2.40")
    user = factories.user(role="lead", username="lea")
    for number, slug in enumerate(("nlp", "vision")):
        of = factories.job(f"slurm/della/7{number}", name=f"job-{slug}", user="ann", team=slug)
        told.cause(of=of, on=told.gpu(number), start=NOW - timedelta(hours=2))
        told.finding(of)
    nlp = Team.objects.get(slug="nlp")
    Membership.objects.create(team=nlp, user=user, valid_from=NOW - timedelta(days=1))
    client.force_login(user)
    return user


def test_what_the_own_team_has_to_decide_waits_for_its_lead(client, lea):
    [open_findings] = client.get("/me").context["duties"]
    Finding.objects.filter(job__name="job-nlp").update(status="accepted")
    [accepted] = client.get("/me").context["duties"]

    assert (open_findings.label, open_findings.count) == ("Open findings of nlp", 1)
    assert (open_findings.saving.low_usd, open_findings.saving.high_usd) == (
        Decimal("1.20"),
        Decimal("2.40"),
    )
    assert accepted.label == "Findings of nlp accepted, still to do"
    [row] = client.get(accepted.url).context["patterns"]
    assert row.pattern.job_name == "job-nlp"


def test_a_lead_sees_who_of_the_team_wastes_most_with_the_findings_of_each(client, lea):
    own = Job.objects.get(name="job-nlp")
    an_entry(told.gpu(), "idle", job=own, start=NOW - timedelta(hours=2), tier="certain")

    page = tight(client.get("/me").content.decode())

    assert "<h2>Who wasted most in nlp</h2>" in page
    assert "Who wasted most in vision" not in page
    assert page.count("team=nlp&amp;user=ann") == 1


def test_a_lead_sees_each_persons_waste_against_as_long_before(client, lea):
    """$7.20 in the last day and $2.40 in the day before, which was recorded from its start on."""
    own = Job.objects.get(name="job-nlp")
    for hours_ago in (2, 3, 4, 30, 49):
        start = NOW - timedelta(hours=hours_ago)
        an_entry(told.gpu(), "idle", job=own, start=start, tier="certain")

    [of_team] = client.get("/me?range=24h").context["led_people"]
    [person] = of_team.people

    assert (of_team.totals.wasted_usd, of_team.change.before_usd) == (
        Decimal("7.20"),
        Decimal("2.40"),
    )
    assert person.change.change_usd == Decimal("4.80")
    assert "No fix of nlp was measured in Q4 2026 yet." in page(client)


def test_against_what_was_not_recorded_a_lead_reads_no_change(client, lea):
    own = Job.objects.get(name="job-nlp")
    an_entry(told.gpu(), "idle", job=own, start=NOW - timedelta(hours=2), tier="certain")

    [of_team] = client.get("/me?range=24h").context["led_people"]

    assert (of_team.change, of_team.people[0].change) == (None, None)
    assert "in as long before" not in page(client, "/me?range=24h")


@pytest.mark.usefixtures("_frozen")
def test_who_runs_the_fleet_sees_its_health_and_what_fires(client):
    an_incident(a_rule(), "slurm/della/7", opened_at=NOW)
    client.force_login(factories.user(role="operator", username="otto"))

    seen = page(client)

    assert "<h1>My page</h1>" in seen
    assert "1 firing incident<" in seen
    assert 'aria-label="Fleet health"' in seen


def test_who_runs_no_fleet_sees_what_fires_of_the_own_alone(viewer):
    an_incident(a_rule(), "slurm/della/7", opened_at=NOW)

    assert "firing incident" not in page(viewer)


def test_a_leads_statement_waits_until_it_is_approved_and_others_do_not(client, lea):
    a_fleet()
    computed(now=NOW)
    label = "nlp’s statement of October 2026 not approved"

    [before] = [duty for duty in client.get("/me").context["duties"] if duty.label == label]
    approve(Report.objects.get(kind="statement", subject="nlp"), now=NOW, by="lea")

    assert (before.count, before.url) == (1, "/teams/nlp/2026-10")
    assert client.get(before.url).status_code == 200
    assert "statement of October" not in page(client)


def test_incidents_of_the_own_team_wait_for_its_lead(client, lea):
    rule = a_rule()
    for slug in ("nlp", "vision"):
        an_incident(rule, slug, opened_at=NOW, team=Team.objects.get(slug=slug))

    waits = [duty for duty in client.get("/me").context["duties"] if "Incidents" in duty.label]

    assert [(duty.label, duty.count, duty.url) for duty in waits] == [
        ("Incidents of nlp firing that nobody acknowledged", 1, "/alerts?team=nlp")
    ]


def test_a_lead_is_led_to_what_is_the_teams(client, lea):
    card = page(client).split('id="duties"')[1].split("</section>")[0]

    assert re.findall(r'class="button quiet" href="([^"]+)"', card) == [
        "/teams/nlp",
        "/costs?team=nlp&amp;from=now/M&amp;to=now&amp;group_by=user",
        "/budgets/teams/nlp",
        "/overview",
        "/findings",
    ]


def test_what_an_invoice_bills_above_contract_waits_for_finance(client, fiona, held_hour):
    """An hour of a GPU is billed at $3, and its contract says $1.50."""
    terms = Commitment(
        name="2026-17",
        gpu_model=GPU.objects.get().model,
        gpus=1,
        valid_from=NOW.replace(day=1, hour=0),
        price_per_gpu_hour=Decimal("1.50"),
    )
    commit(terms, now=NOW)
    file = SimpleUploadedFile("a.csv", b"gpu_model,gpu_hours,amount\nH100 SXM,1,3\n")
    client.post("/reports/2026-11/invoice/import", {"file": file})

    [line] = [each for each in waiting(client) if "above contract" in each[0]]

    assert line == (
        "Invoice lines of November 2026 billed above contract",
        1,
        "$1.50 to ask the issuer for",
    )


@pytest.mark.usefixtures("_frozen")
def test_a_lead_reads_on_the_overview_first_how_the_own_team_stands(client, held_hour):
    """nlp spent $2 of $1; vision is another's."""
    nlp, _ = (Team.objects.get_or_create(slug=slug)[0] for slug in ("nlp", "vision"))
    set_budget(nlp, NOW.date().replace(day=1), Decimal(1), repeats=True, now=NOW, by="ann")
    lead = factories.user(role="lead", username="lea")
    Membership.objects.create(team=nlp, user=lead, valid_from=NOW - timedelta(days=1))
    client.force_login(lead)

    part = client.get("/changes", headers={"HX-Request": "true"})
    seen = tight(part.content.decode())

    assert 'href="/budgets/teams/nlp">nlp</a></b>:' in seen
    assert "200 % of its budget used, is over it" in seen
    assert part.context["pressing"] == []


def test_budgets_that_are_passed_are_named_on_the_overview(client, fiona, held_hour):
    set_budget(
        Team.objects.get(), NOW.date().replace(day=1), Decimal(1), repeats=True, now=NOW, by="ann"
    )

    part = client.get("/changes", headers={"HX-Request": "true"})

    assert [line.label for line in part.context["pressing"]] == ["nlp"]
    assert 'href="/budgets/teams/nlp"' in part.content.decode()


def test_what_waits_for_a_lead_stands_on_the_overview_too_and_for_nobody_else(client, lea):
    text = " ".join(client.get("/overview").content.decode().split())
    client.force_login(factories.user(role="admin", username="root"))

    assert "<b>Waits for you:</b>" in text
    assert "Open findings of nlp" in text
    assert "Waits for you" not in client.get("/overview").content.decode()


def test_a_lead_narrows_the_inbox_to_the_own_team(client, lea):
    every, team = (
        client.get(f"/findings?{asked}").content.decode() for asked in ("status=open", "team=nlp")
    )

    assert 'aria-current="true">nlp<' in tight(team)
    assert 'aria-current="true">Everybody’s<' in tight(every)
