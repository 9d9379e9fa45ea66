"""A team's month on its page: what it says, and what finance and the team's lead do about it."""

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from html import unescape

import pytest
import time_machine
from django.test import Client

from fleetwatch.accounts import people
from fleetwatch.accounts.models import Organisation, Team
from fleetwatch.budgets.models import Outlook
from fleetwatch.budgets.selectors import line
from fleetwatch.dashboard import numbers
from fleetwatch.dashboard.report_pages import burn_of
from fleetwatch.diagnosis.models import Finding, Fix
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import Interval, to_ms
from fleetwatch.notify.models import Delivery
from fleetwatch.reports import download, monthly
from fleetwatch.reports.models import Report, StatementApproval, StatementRecipient
from fleetwatch.reports.team_months import rate_lines
from tests.costs.factories import HOUR_MS
from tests.dashboard import factories
from tests.dashboard.test_reports import text
from tests.diagnosis import told
from tests.markup import in_text, tight
from tests.notify.factories import email_channel
from tests.reports.factories import OCTOBER, a_fleet, computed
from tests.reports.test_budgeted import a_budget, an_outlook
from tests.reports.test_download import sheets

pytestmark = pytest.mark.django_db

PAGE = "/teams/nlp/2026-10"


@pytest.fixture
def october(_frozen):
    a_fleet()
    computed("2026-09", now=factories.NOW)
    computed(now=factories.NOW)


def client_of(role, *, team=""):
    user = factories.user(role=role, username=f"{role}-{team}")
    if team:
        people.join(user, Team.objects.get(slug=team), since=OCTOBER)
    client = Client()
    client.force_login(user)
    return client


def test_a_stored_month_is_not_live_and_the_one_that_runs_is(october):
    client = client_of("finance")

    stored = client.get(PAGE).content.decode()
    running = client.get(f"/teams/nlp/{factories.NOW:%Y-%m}").content.decode()

    assert "data-version" not in stored
    assert "data-as-of" not in stored
    assert "data-version" in running
    assert "data-as-of" in running


def test_cost_and_waste_of_a_month_lead_to_how_they_came_about(october):
    client = client_of("finance")
    link = re.compile(r'href="(/explain[^"]+)"')

    of_team = link.findall(client.get(PAGE).content.decode())

    assert (
        of_team
        == ["/explain?from=2026-10-01T00:00:00Z&amp;to=2026-11-01T00:00:00Z&amp;team=nlp"] * 2
    )
    assert "$9" in client.get(unescape(of_team[0])).content.decode()


def test_a_month_that_is_computed_again_is_live_until_it_is_done(october):
    monthly.ask("2026-10", now=factories.NOW, by="lee")

    assert "data-version" in client_of("finance").get(PAGE).content.decode()


def test_a_month_says_its_lines_its_rates_its_trend_and_who_shares_what(october):
    page = text(client_of("finance").get(PAGE))

    assert "$9.00" in page
    assert "H100 2.0000 $4.00 $8.00 = 2.0000 h × $4.00" in page
    assert "Total 3.0000 $9.00" in page
    assert "September 2026 $8.00" in page
    assert "+13 %" in page  # 9 ÷ 8 = 1.125
    assert "free capacity is a separate line" in page
    assert "not approved yet" in page


def test_the_printed_statement_has_hours_x_rate_beside_the_amount_of_each_model(october):
    statement = Report.objects.get(subject="nlp", start=OCTOBER)

    page = text(client_of("finance").get(f"/reports/{statement.pk}/print"))

    assert "H100 2.0000 $4.00 $8.00 = 2.0000 h × $4.00" in page
    assert "L4 1.0000 $1.00 $1.00 = 1.0000 h × $1.00" in page


def test_a_product_of_rounded_hours_that_is_a_cent_beside_the_amount_is_about_it(october):
    statement = Report.objects.get(subject="nlp", start=OCTOBER)
    line = next(line for line in statement.content["lines"] if line["gpu_model"] == "H100")
    for each in (line, statement.content["total"]):
        each["cost_usd"] = f"{Decimal(each['cost_usd']) + Decimal('0.01')}"
    statement.save()

    page = text(client_of("finance").get(f"/reports/{statement.pk}/print"))

    assert "$8.01 ≈ 2.0000 h × $4.00" in page
    assert "$1.00 = 1.0000 h × $1.00" in page


def test_paper_has_why_it_was_wasted_the_months_and_the_curve(october):
    statement = Report.objects.get(subject="nlp", start=OCTOBER)

    answer = client_of("finance").get(f"/reports/{statement.pk}/print")

    page = text(answer)
    assert "Why it was wasted" in page
    assert "in the waste report" not in page  # a link says nothing there
    assert answer.context["wasted_ms"] == sum(
        line.cause.group.totals.wasted_ms for line in answer.context["waste_lines"]
    )
    assert "Month by month" in page
    assert "September 2026 $8.00" in page
    burn = answer.context["burn"]
    assert burn.words.endswith("$9.00")
    assert burn.points[-2].place == "28 Oct"
    assert burn.limit is None


def test_paper_leaves_out_what_is_no_part_of_its_version(october):
    """After it was computed half of what was wasted turned out not to be."""
    statement = Report.objects.get(subject="nlp", start=OCTOBER)
    Entry.objects.filter(state="idle").delete()

    page = text(client_of("finance").get(f"/reports/{statement.pk}/print"))

    assert "What is done about it" not in page
    assert "as diagnosed now" not in page
    assert ", most by" not in page
    assert "in the waste report" not in page
    assert "no part of version" not in page


def test_the_curve_on_paper_has_the_budgets_line(october):
    nlp, of_october = Team.objects.get(slug="nlp"), Interval(OCTOBER, OCTOBER + timedelta(days=31))

    burn = burn_of(nlp, of_october, budget_usd=Decimal(18))["burn"]

    # $9 are half of it
    assert burn.limit.label == "budget $18.00"
    assert (burn.limit.y, burn.points[-1].y) == (30, 90)


def test_each_figure_of_a_rate_line_names_itself_where_columns_are_stacked(october):
    page = tight(client_of("finance").get("/teams/nlp/2026-10").content.decode())

    part = page.split('id="rate-lines"')[1].split("</section>")[0]
    assert '<table class="stacked">' in part
    # of H100, of L4 and, of the cost, of both
    assert part.count('data-label="Per GPU-hour"') == 2
    assert part.count('data-label="Cost"') == 3


def test_a_model_with_several_rates_is_priced_at_their_average():
    lines = [
        {
            "gpu_model": "H100", "gpu_ms": HOUR_MS, "priced_ms": HOUR_MS,
            "usd_per_gpu_hour": Decimal(usd), "cost_usd": Decimal(usd),
        }
        for usd in (4, 5)
    ]  # fmt: skip

    [line] = rate_lines(lines)

    assert (line.least_usd, line.most_usd, line.usd_per_gpu_hour) == (4, 5, Decimal("4.5"))


def test_a_team_leads_to_its_newest_month_and_an_unknown_one_is_nowhere(october):
    finance = client_of("finance")

    assert finance.get("/teams/nlp")["Location"] == PAGE
    assert finance.get("/teams/ghosts").status_code == 404
    unknown = finance.get("/teams/nlp/2019-01")
    assert unknown.status_code == 404
    assert "There is no statement of January 2019" in unknown.content.decode()
    assert finance.get("/teams/nlp/2026-99").status_code == 404
    assert "is not computed yet" in text(finance.get("/teams/nlp/2026-11"))
    Team.objects.create(slug="new")
    assert "is not computed yet" in text(finance.get("/teams/new", follow=True))


def test_on_the_first_of_a_month_a_team_without_a_statement_leads_to_the_month_before(october):
    Team.objects.create(slug="new")
    finance = client_of("finance")

    with time_machine.travel(datetime(2026, 12, 1, 4, tzinfo=UTC), tick=False):
        assert finance.get("/teams/new")["Location"] == "/teams/new/2026-11"
    with time_machine.travel(datetime(2026, 12, 2, 4, tzinfo=UTC), tick=False):
        assert finance.get("/teams/new")["Location"] == "/teams/new/2026-12"


def test_of_a_month_before_anything_was_recorded_there_is_no_statement_and_it_says_since_when(
    october,
):
    finance = client_of("finance")

    before, to_come = (
        in_text(tight(finance.get(f"/teams/nlp/{month}").content.decode()))
        for month in ("2019-01", "2026-12")
    )

    assert "no statement of January 2019 Nothing is recorded before 1 Sep 2026." in before
    assert "FleetWatch has no day of that month that is over." in to_come


def test_finance_and_the_teams_lead_decide_and_nobody_else(october):
    sent = {"version": "1", "note": "agrees"}

    for other in (client_of("engineer", team="nlp"), client_of("lead", team="vision")):
        assert other.post(f"{PAGE}/do/approve", sent).status_code == 403
        assert "Approve and send" not in text(other.get(PAGE))
    lead = client_of("lead", team="nlp")
    answer = lead.post(f"{PAGE}/do/approve", sent)

    assert answer["Location"] == PAGE
    assert "approved by lead-nlp" in text(lead.get(PAGE))
    assert client_of("finance").post(f"{PAGE}/do/approve", sent).status_code == 422
    assert lead.post(f"{PAGE}/do/approve", {"version": "7"}).status_code == 422
    assert StatementApproval.objects.get().approved_by == "lead-nlp"


@pytest.mark.usefixtures("_frozen")
def test_a_month_that_runs_says_from_when_on_it_can_be_approved():
    gpu = factories.gpu(factories.node())
    factories.rate("2.00")
    factories.entry(gpu, hours_ago=48, held_by=factories.job(team="nlp")).save()
    Team.objects.get_or_create(slug="nlp")
    computed("2026-11", now=factories.NOW)
    finance = client_of("finance")
    page = "/teams/nlp/2026-11"

    assert "To be approved from 1 Dec 2026 on" in text(finance.get(page))
    assert finance.post(f"{page}/do/approve", {"version": "1"}).status_code == 422
    assert not StatementApproval.objects.exists()


def test_a_list_is_kept_and_the_statement_sent_now(october):
    channel = email_channel(25)
    finance = client_of("finance")
    assert finance.post(f"{PAGE}/do/send").status_code == 422  # nobody is on the list

    finance.post(f"{PAGE}/do/add-recipient", {"channel": channel.pk, "address": "cfo@example.org"})
    finance.post(f"{PAGE}/do/send")

    assert Delivery.objects.get().address == "cfo@example.org"
    assert "mail , cfo@example.org" in text(finance.get(PAGE))
    assert finance.post(f"{PAGE}/do/add-recipient", {"channel": "x"}).status_code == 422
    number = StatementRecipient.objects.get().pk
    finance.post(f"{PAGE}/do/drop-recipient", {"id": number})
    assert not StatementRecipient.objects.exists()


def test_who_sees_own_teams_alone_finds_the_others_nowhere(october):
    organisation = Organisation.objects.first() or Organisation()
    organisation.others_shown = "teams"
    organisation.save()
    lead = client_of("lead", team="nlp")

    assert "$9.00" in text(lead.get(PAGE))
    assert lead.get("/teams/vision/2026-10").status_code == 404
    assert lead.post("/teams/vision/2026-10/do/send").status_code == 404


def test_a_running_computation_shows_how_far_it_is_and_is_stopped(october):
    finance = client_of("finance")
    finance.post("/reports/compute", {"month": "2026-11"})

    assert "waiting for a worker" in text(finance.get("/teams/nlp/2026-11"))
    finance.post("/reports/stop", {"month": "2026-11"})

    assert "stopped by finance-" in text(finance.get("/reports"))
    assert client_of("engineer").post("/reports/stop", {"month": "2026-11"}).status_code == 403


def test_the_glossary_is_searched_by_words_and_by_what_they_mean(viewer):
    words = re.findall(
        r"<td><b>([^<]+)</b></td>", tight(viewer.get("/docs/glossary?q=back-test").content.decode())
    )
    nothing = viewer.get("/docs/glossary?q=zzz").content.decode()

    assert "Back-test" in words
    assert len(words) < 10
    assert "No word here" in nothing


def test_the_glossary_explains_each_word_once(viewer):
    page = viewer.get("/docs/glossary").content.decode()

    assert page.count('id="gpu-hour"') == 1
    assert "Certain, probable, potential" in page


def test_statements_and_what_no_team_had_sum_to_the_fleet_with_waste_and_change(october):
    """October: nlp $9 of which $4 idle, vision $4, no team $6; September: nlp $8."""
    shown = client_of("finance").get("/reports").context

    rows = [*shown["statements"], shown["no_team"], shown["fleet"]]
    assert [row.cost_usd for row in rows] == [9, 4, 6, 19]
    assert [row.wasted_usd for row in rows] == [4, 0, 0, 4]
    assert [row.change.change_usd for row in rows] == [1, 4, 6, 11]


@pytest.mark.usefixtures("_frozen")
def test_a_month_after_nothing_has_no_change():
    a_fleet()
    computed("2026-09", now=factories.NOW)

    page = text(client_of("finance").get("/reports"))

    assert "; no month before to compare with" in page
    assert "Against the month before" not in page


def test_what_nobody_approved_or_gets_leads_who_may_to_where_it_is_mended(october):
    page = client_of("finance").get("/reports").content.decode()
    engineers = client_of("engineer").get("/reports").content.decode()

    assert f'href="{PAGE}#decide"' in page
    assert f'href="{PAGE}#recipients"' in page
    assert "#decide" not in engineers


def test_a_statement_says_why_it_was_wasted_and_what_is_done_about_it(october):
    """nlp's hour at $4 on the H100 idled, of which half to all could have been saved."""
    train = Job.objects.get(name="train")
    on = GPU.objects.get(model__name="H100")
    entry = Entry.objects.filter(gpu=on, job=train, start__gte=OCTOBER).first()
    told.cause(of=train, on=on, start=entry.start)
    found = told.finding(train, first_ms=to_ms(entry.start), last_ms=to_ms(entry.start) + HOUR_MS)

    page = client_of("finance").get(PAGE)
    Finding.objects.filter(pk=found.pk).update(status="accepted")
    after = client_of("lead", team="nlp").get(PAGE)

    assert [(line.cause.group.key, line.wasted_usd) for line in page.context["waste_lines"]] == [
        ("idle_held", Decimal("4.00"))
    ]
    assert "A script that ended, or a session at rest, keeps its GPUs." in text(page)
    assert "Open nobody decided yet, or snoozed 1 $2.00–4.00" in text(page)
    assert "Accepted still to do 1 $2.00–4.00" in text(after)


def test_what_fixes_of_the_team_were_measured_to_save_is_on_its_statement(october):
    moment = {
        "at": OCTOBER,
        "was_noticed": True,
        "runs_before": 3,
        "runs_after": 9,
        "saved_low_ms": 0,
        "saved_high_ms": 0,
    }
    for cause, user, name, outcome in (
        ("idle_held", "ann", "train", "improved"),
        ("data_starved", "ann", "train", "regressed"),
        ("idle_held", "eve", "of vision", "improved"),
    ):
        Fix.objects.create(cause=cause, user=user, job_name=name, outcome=outcome, **moment)

    page = client_of("finance").get(PAGE)

    assert "2 1 came back" in text(page)
    assert "came back 3 runs before, 9 since" in text(page)
    assert (page.context["fixes_count"], len(page.context["fixes"])) == (2, 2)


def test_a_statement_leads_to_the_teams_budget_and_to_its_costs_in_these_days(october):
    page = client_of("finance").get(PAGE).content.decode()

    assert 'href="/budgets/teams/nlp"' in page
    [costs] = re.findall(r'href="(/costs[?][^"]+)"', page)
    assert "team=nlp" in costs
    assert client_of("lead", team="nlp").get(unescape(costs)).status_code == 200


@pytest.mark.usefixtures("_frozen")
def test_a_statement_expects_what_its_version_did_and_under_it_what_budgets_do_now():
    """A dollar an hour to come, when the version was computed; half a dollar now."""
    gpu = factories.gpu(factories.node())
    factories.rate("2.00")
    factories.entry(gpu, hours_ago=48, held_by=factories.job(team="nlp")).save()
    a_budget(240, month=date(2026, 11, 1))
    an_outlook("nlp", 1.0)
    computed("2026-11", now=factories.NOW)
    Outlook.objects.all().delete()
    an_outlook("nlp", 0.5)
    finance = client_of("finance")

    answer = finance.get("/teams/nlp/2026-11")

    now_usd = line(Team.objects.get(slug="nlp"), factories.NOW).end.end.expected_usd
    assert now_usd < 240
    assert numbers.about(now_usd) in text(finance.get("/budgets"))
    of_version, as_of_now = text(answer).split("for the whole month")[1].split("Now, Fri 20 Nov")
    expected_usd = Decimal(Report.objects.get(subject="nlp").content["budget"]["expected_usd"])
    assert "expected as of the end of 19 Nov will pass it" in of_version
    assert numbers.about(expected_usd) in of_version
    assert "days missing" in as_of_now
    assert numbers.about(now_usd) in as_of_now
    assert numbers.about(now_usd) not in of_version


@pytest.mark.usefixtures("_frozen")
def test_a_statement_of_a_month_that_runs_says_up_to_when_and_what_it_is_by_now():
    """$2 two days ago, which it has, and $2 an hour ago, which it has not."""
    gpu = factories.gpu(factories.node())
    factories.rate("2.00")
    held = factories.job(team="nlp")
    for hours_ago in (48, 1):
        factories.entry(gpu, hours_ago=hours_ago, held_by=held).save()
    computed("2026-11", now=factories.NOW)
    finance = client_of("finance")

    page = text(finance.get("/teams/nlp/2026-11"))

    assert "November 2026 cost $2.00 up to the end of 19 Nov;" in page
    assert "What came after 19 Nov is not in it: by now it is $4.00 , as Budgets has it." in page
    assert "Statements have whole days alone" in text(finance.get("/teams"))


@pytest.mark.usefixtures("_frozen")
def test_a_statement_says_what_is_agreed_of_its_causes_its_jobs_and_of_all():
    """Of $8 by one cause two days ago $6 are agreed, so that another one with $4 is the largest of
    the rest.
    """
    gpu = factories.gpu(factories.node(), hours=24 * 3)
    factories.rate("2.00")
    for number, code, hours, status in (
        (1, "overprovisioned_gpus", (40, 39, 38), "dismissed"),
        (2, "overprovisioned_gpus", (37,), "open"),
        (3, "idle_held", (36, 35), "open"),
    ):
        job = factories.job(f"slurm/della/{number}", team="nlp", name=f"job-{number}")
        for ago in hours:
            factories.entry(gpu, hours_ago=ago, held_by=job, state="idle").save()
            told.cause(code, of=job, on=gpu, start=factories.NOW - timedelta(hours=ago))
        told.finding(job, code, status=status)
    computed("2026-11", now=factories.NOW)

    shown = client_of("finance").get("/teams/nlp/2026-11")
    page = text(shown)
    by_cause = page.split("Why it was wasted")[1].split("What is done about it")[0]
    done = page.split("What is done about it")[1].split("Fixed")[0]

    assert "most by “Idle: still held” without what is agreed as not waste" in page
    assert "$8.00 $6.00 of it agreed as not waste" in by_cause
    assert by_cause.count("agreed as not waste") == 1
    assert "Agreed as not waste left out of what could have been saved 1 $6.00" in done
    assert page.count("$6.00 of its waste agreed as not waste") == 1


@pytest.mark.usefixtures("_frozen")
def test_a_statement_with_nothing_agreed_says_nothing_of_it():
    gpu = factories.gpu(factories.node(), hours=24 * 3)
    factories.rate("2.00")
    job = factories.job(team="nlp")
    factories.entry(gpu, hours_ago=40, held_by=job, state="idle").save()
    told.cause(of=job, on=gpu, start=factories.NOW - timedelta(hours=40))
    told.finding(job)
    computed("2026-11", now=factories.NOW)

    page = text(client_of("finance").get("/teams/nlp/2026-11"))

    assert "most by “Idle: still held”;" in page or "most by “Idle: still held”." in page
    assert "greed as not waste" not in page


@pytest.mark.usefixtures("_frozen")
def test_paper_and_excel_of_a_version_expect_what_it_did():
    """$2 spent, and a dollar an hour to come; later there is no forecast."""
    gpu = factories.gpu(factories.node())
    factories.rate("2.00")
    factories.entry(gpu, hours_ago=48, held_by=factories.job(team="nlp")).save()
    a_budget(240, month=date(2026, 11, 1))
    an_outlook("nlp", 1.0)
    computed("2026-11", now=factories.NOW)
    Outlook.objects.all().delete()
    finance = client_of("finance")
    report = Report.objects.get(subject="nlp")

    places = (f"/reports/{report.pk}/print", f"/reports/{report.pk}")
    pages = [text(finance.get(place)) for place in places]
    _, row = sheets(download.xlsx(report))["Budget"]

    expected_usd = Decimal(report.content["budget"]["expected_usd"])
    assert expected_usd > 240
    for page in pages:
        assert "expected as of the end of 19 Nov will pass it" in page
        assert numbers.about(expected_usd) in page
    assert expected_usd in row


@pytest.mark.usefixtures("_frozen")
def test_an_older_version_of_a_month_that_runs_expects_what_it_did():
    gpu = factories.gpu(factories.node())
    factories.rate("2.00")
    factories.entry(gpu, hours_ago=48, held_by=factories.job(team="nlp")).save()
    a_budget(240, month=date(2026, 11, 1))
    computed("2026-11", now=factories.NOW)
    an_outlook("nlp", 1.0)
    computed("2026-11", now=factories.NOW)
    older, _ = Report.objects.filter(subject="nlp").order_by("version")

    page = text(client_of("finance").get(f"/reports/{older.pk}/print"))

    assert "will pass it" not in page
    assert "$254" not in page
