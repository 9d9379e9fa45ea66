"""The pages of budgets."""

import re
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.test import Client

from fleetwatch.accounts.models import Membership, Team
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.budgets import outlooks
from fleetwatch.budgets.models import Anomaly, Budget, Outlook, SpendDay
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import to_ms
from fleetwatch.notify.models import Channel
from fleetwatch.notify.wording import about
from tests.costs.factories import set_budget
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.markup import tight
from tests.shared_rows import shared_rows

MIDNIGHT = NOW.replace(hour=0)
HOURS = [2.0] * 24


def shown(answer) -> str:
    """What a page says, without its tags."""
    return " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())


@pytest.fixture(scope="module")
def _four_weeks(django_db_setup, django_db_blocker):
    with shared_rows(django_db_blocker):
        yield spent_for_four_weeks()


def spent_for_four_weeks() -> Team:
    """Team nlp holds a GPU at $2 an hour for four weeks: $936 until 12:00 of the 20th, $1,440 at
    the month's end.
    """
    gpu, job, policy = factories.gpu(factories.node()), factories.job(), factories.policy()
    factories.rate("2.00")
    Entry.objects.bulk_create(
        factories.entry(gpu, hours_ago=ago, held_by=job, by=policy)
        for ago in range(1, 19 * 24 + 13)
    )
    SpendDay.objects.bulk_create(
        SpendDay(
            kind=kind,
            key=key,
            start=MIDNIGHT - timedelta(days=day),
            usd=48,
            wasted_usd=0,
            hours=HOURS,
            wasted_hours=[0.0] * 24,
        )
        for day in range(1, 29)
        for kind, key in (("team", "nlp"), ("fleet", ""))
    )
    outlooks.make(NOW, is_whole=True)
    return job.team


@pytest.fixture
def team(_four_weeks, db) -> Team:
    return deepcopy(_four_weeks)


def test_the_list_says_what_was_spent_and_what_is_expected(viewer, team):
    set_budget(team, NOW.date().replace(day=1), Decimal(1200), repeats=True, now=NOW, by="ann")

    page = viewer.get("/budgets").content.decode()

    assert "$936" in page
    assert "$1,440" in page
    assert "will pass it" in page
    assert "78 %" in page
    assert "Set a budget" not in page


def test_teams_have_their_budget_as_a_bar_and_say_where_there_is_none(viewer, team):
    bare = viewer.get("/teams").content.decode()
    set_budget(team, NOW.date().replace(day=1), Decimal(900), repeats=True, now=NOW, by="ann")

    page = viewer.get("/teams").content.decode()

    assert "No team has a budget." in " ".join(bare.split())
    assert "No team has a budget." not in " ".join(page.split())
    # $936 of $900
    assert "104 % of $900" in " ".join(page.split())
    assert '<svg class="spendbar" role="img" aria-label="$936' in page


def test_without_a_budget_the_page_says_what_to_do(admin, team):
    page = admin.get("/budgets").content.decode()

    assert "No budget set yet." in page
    assert "no budget" in page
    assert "highest risk first" not in page
    assert "jobs without a team" not in page  # the team held all that the fleet spent
    assert "Set a budget" in page


def test_a_budget_is_edited_on_its_own_page_from_what_it_is_now(admin, team):
    set_budget(team, NOW.date().replace(day=1), Decimal(1200), repeats=False, now=NOW, by="ann")

    form = tight(admin.get("/budgets/teams/nlp").content.decode()).split('id="set"')[1]
    form = form.split("</form>")[0]
    answer = admin.post(
        "/budgets/set",
        {"team": "nlp", "own": "on", "month": "2026-11", "amount": "1300", "currency": "USD"},
    )

    assert re.search(r'name="amount"[^>]* value="1200"', form)
    assert re.search(r'name="currency"[^>]* value="USD"', form)
    assert re.search(r'<option value="2026-11" ?>November 2026', form)
    assert "checked" not in form
    assert answer["Location"] == "/budgets/teams/nlp"
    assert Budget.objects.latest("pk").amount == 1300


def test_the_fleets_budget_is_set_on_its_own_page_too(admin, team):
    sent = {"team": "", "own": "on", "month": "2026-11", "amount": "5000"}

    assert 'id="set"' in admin.get("/budgets/fleet").content.decode()
    assert admin.post("/budgets/set", sent)["Location"] == "/budgets/fleet"
    assert Budget.objects.get().team is None


def test_what_is_wrong_with_an_own_budget_is_said_on_its_page(admin, team):
    sent = {"team": "nlp", "own": "on", "month": "2026-11", "amount": "much"}

    answer = admin.post("/budgets/set", sent)
    page = answer.content.decode()

    assert answer.status_code == 422
    assert "A number, please" in page
    assert 'value="much"' in page
    assert "<h1>Budget of nlp</h1>" in page
    assert not Budget.objects.exists()


def test_who_may_not_set_a_budget_is_shown_no_form(viewer, team):
    for address in ("/budgets", "/budgets/teams/nlp", "/budgets/fleet"):
        assert 'id="set"' not in viewer.get(address).content.decode()


def test_why_there_is_no_forecast_is_said_once_for_all_of_that_reason(viewer, team):
    for slug in ("bio", "chem"):
        Team.objects.create(slug=slug)
        of = Team.objects.get(slug=slug)
        set_budget(of, NOW.date().replace(day=1), Decimal(9), repeats=True, now=NOW, by="ann")

    page = tight(viewer.get("/budgets").content.decode())

    reason = "Not enough history for a forecast yet"
    assert page.count(f"{reason}: no full day with costs in the last four weeks.</p>") == 1
    assert f"No forecast of bio, chem. {reason}" in page
    assert "the fleet, then the teams, highest risk first" in page


def test_an_admin_sets_a_budget_and_the_team_page_shows_who_did(admin, team):
    answer = admin.post(
        "/budgets/set",
        {"team": "nlp", "month": "2026-11", "amount": "$1,200.50", "repeats": "on"},
        follow=True,
    )
    page = admin.get("/budgets/teams/nlp").content.decode()

    assert "The budget of nlp for November 2026 is set." in answer.content.decode()
    assert "$1,200.50" in page
    assert "and every month after" in page
    assert Budget.objects.get().created_by == "ann"


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"amount": "much"}, "A number, please"),
        ({"amount": "-5"}, "A budget is above 0"),
        ({"month": "soon"}, "Which month?"),
        ({"month": "2026-10"}, "A budget is for a month from 2026-11"),
        ({"team": "nobody"}, "There is no such team"),
        ({"currency": "EUR"}, "Nobody said what one"),
    ],
)
def test_what_can_not_be_is_said_at_its_field_and_nothing_is_lost(admin, team, sent, says):
    form = {"team": "nlp", "month": "2026-11", "amount": "1200", "currency": "USD"} | sent

    answer = admin.post("/budgets/set", form)

    assert answer.status_code == 422
    assert says in answer.content.decode()
    assert f'value="{form["amount"]}"' in answer.content.decode()
    assert not Budget.objects.exists()


def test_a_viewer_and_a_stranger_set_nothing(viewer, team):
    form = {"team": "nlp", "month": "2026-11", "amount": "1200"}

    assert viewer.post("/budgets/set", form).status_code == 403
    assert Client().post("/budgets/set", form).status_code == 302
    assert Client().get("/budgets").status_code == 302
    assert Client().get("/budgets/teams/nlp").status_code == 302
    assert not Budget.objects.exists()


@pytest.mark.parametrize("slug", ["nobody", "a%00b", "..%2f..%2fetc"])
def test_a_team_that_is_not_there_is_404(viewer, slug):
    assert viewer.get(f"/budgets/teams/{slug}").status_code in (400, 404)
    assert viewer.get(f"/charts/budget?team={slug}").status_code in (400, 404)


def test_the_chart_goes_from_what_was_spent_to_what_is_expected(viewer, team):
    set_budget(team, NOW.date().replace(day=1), Decimal(1200), repeats=True, now=NOW, by="ann")

    traces = {
        trace["name"]: trace for trace in viewer.get("/charts/budget?team=nlp").json()["data"]
    }

    assert traces["Spent"]["x"][0] == "2026-11-01T00:00:00"
    assert (traces["Spent"]["y"][0], traces["Spent"]["y"][-1]) == (0.0, 936.0)
    assert (traces["Expected"]["x"][-1], traces["Expected"]["y"][-1]) == (
        "2026-12-01T00:00:00",
        1440.0,
    )
    assert traces["Expected"]["y"][0] == 936.0
    assert traces["Budget"]["y"] == [1200.0, 1200.0]


def test_the_chart_is_a_table_too(viewer, team):
    rows = viewer.get("/charts/budget?team=nlp&as=csv").content.decode().splitlines()

    assert rows[0] == "Until (UTC),Spent $,Expected $,Lower end $,Upper end $"
    assert rows[2] == "2026-11-02 00:00,48.0,,,"
    assert rows[-1].startswith("2026-12-01 00:00,,1440.0,")


def test_the_table_of_a_stored_statement_has_no_columns_of_what_is_expected(viewer, team):
    address = f"/charts/budget?team=nlp&until={to_ms(NOW)}&as=csv"

    rows = viewer.get(address).content.decode().splitlines()

    assert rows[0] == "Until (UTC),Spent $"
    assert rows[2] == "2026-11-02 00:00,48.0"


def test_where_there_is_no_forecast_the_chart_goes_on_at_the_run_rate(viewer, team):
    """$48 a day are spent, $936 of the month so far: $1,440 at its end."""
    Outlook.objects.all().delete()

    traces = {each["name"]: each for each in viewer.get("/charts/budget?team=nlp").json()["data"]}
    rows = viewer.get("/charts/budget?team=nlp&as=csv").content.decode().splitlines()

    assert traces["At the run rate"]["y"] == [936.0, 1440.0]
    assert rows[0] == "Until (UTC),Spent $,At the run rate $"
    assert rows[-1] == "2026-12-01 00:00,,1440.0"


def test_unusual_spending_names_what_moved_and_hostile_names_stay_text(viewer, team):
    mover = {"kind": "user", "key": "<b>eve</b>", "label": "<b>eve</b>", "usd": "41.5"}
    Anomaly.objects.create(
        kind="team", key="nlp", metric="wasted", start=NOW - timedelta(hours=9),
        end=NOW - timedelta(hours=5), usd=60, usual_usd=10,
        spreads=7.5, movers=[mover], found_at=NOW,
    )  # fmt: skip

    page = viewer.get("/budgets").content.decode()

    assert "wasted $60.00, usually $10.00" in page
    assert "&lt;b&gt;eve&lt;/b&gt;" in page
    assert "<b>eve</b>" not in page
    assert "+$50.00" in page


@pytest.mark.parametrize(
    ("amount", "kept"),
    [
        ("12,000", Decimal(12000)),
        ("$1,234.50", Decimal("1234.50")),
        ("12,5", None),
        ("1e999999999", None),
    ],
)
def test_a_comma_parts_thousands_and_is_no_decimal_point(admin, team, amount, kept):
    page = admin.post(
        "/budgets/set", {"team": team.slug, "month": f"{NOW:%Y-%m}", "amount": amount}
    )

    assert page.status_code == (302 if kept else 422)
    assert [budget.amount for budget in Budget.objects.all()] == ([kept] if kept else [])


def test_a_budgets_page_says_at_what_share_who_is_alerted(viewer, team):
    set_budget(team, NOW.date().replace(day=1), Decimal(2000), repeats=True, now=NOW, by="ann")
    told = Channel.objects.create(name="finance-alerts", kind="webhook", created_at=NOW)
    Rule.objects.get(condition="budget_spent").channels.add(told)

    page = shown(viewer.get("/budgets/teams/nlp"))

    assert "80 % spent: finance-alerts · rule Budget spent" in page
    assert "100 % expected by the forecast" in page


def test_a_channel_that_only_keeps_messages_alerts_nobody(viewer, team):
    set_budget(team, NOW.date().replace(day=1), Decimal(2000), repeats=True, now=NOW, by="ann")
    log = Channel.objects.create(name="Platform on call", kind="log", created_at=NOW)
    Rule.objects.get(condition="budget_spent").channels.add(log)

    page = shown(viewer.get("/budgets/teams/nlp"))

    assert (
        "80 % spent: an incident opens, and its message is kept here, sent nowhere"
        " (Platform on call); choose a channel · rule Budget spent" in page
    )


def test_a_share_that_was_reached_says_when_and_leads_to_its_incident(viewer, team):
    set_budget(team, NOW.date().replace(day=1), Decimal(1000), repeats=True, now=NOW, by="ann")
    since_ms = to_ms(NOW - timedelta(days=2))
    incident = Incident.objects.create(
        rule=Rule.objects.get(condition="budget_spent"), subject="teams/nlp", team=team,
        since_ms=since_ms, fired_ms=since_ms, until_ms=to_ms(NOW), opened_at=NOW, updated_at=NOW,
    )  # fmt: skip

    answer = viewer.get("/budgets/teams/nlp")

    assert "rule Budget spent · reached Wed 18 Nov, 12:00, incident" in shown(answer)
    assert f'href="/incidents/{incident.pk}"' in answer.content.decode()


def test_a_share_that_is_reached_for_too_short_says_when_its_incident_opens(viewer, team):
    set_budget(team, NOW.date().replace(day=1), Decimal(1000), repeats=True, now=NOW, by="ann")
    Incident.objects.create(
        rule=Rule.objects.get(condition="budget_forecast"), subject="teams/nlp", team=team,
        since_ms=to_ms(NOW - timedelta(minutes=20)), until_ms=to_ms(NOW), state="pending",
        opened_at=NOW, updated_at=NOW,
    )  # fmt: skip

    page = shown(viewer.get("/budgets/teams/nlp"))

    assert (
        "rule Budget forecast · beyond since Fri 20 Nov, 11:40, opens Fri 20 Nov, 12:40 if" in page
    )
    assert "20 min of 1 h counted" in page
    assert "reached" not in page


def test_a_budget_that_is_passed_says_first_since_when_what_drives_it_and_its_incident(
    viewer, team
):
    """At $48 a day $900 are spent after 18 3/4 days."""
    set_budget(team, NOW.date().replace(day=1), Decimal(900), repeats=True, now=NOW, by="ann")
    since_ms = to_ms(NOW - timedelta(hours=18))
    incident = Incident.objects.create(
        rule=Rule.objects.get(condition="budget_spent"), subject="teams/nlp", team=team,
        since_ms=since_ms, fired_ms=since_ms, until_ms=to_ms(NOW), opened_at=NOW, updated_at=NOW,
    )  # fmt: skip

    answer = viewer.get("/budgets/teams/nlp")

    first = tight(answer.content.decode()).partition('id="passed"')[2].partition("</section>")[0]
    told = re.sub(r"<[^>]*>", " ", first)
    assert "Over its budget since Thu 19 Nov, 18:00" in " ".join(told.split())
    assert "over budget, incident" in " ".join(told.split())
    assert f'href="/incidents/{incident.pk}"' in first
    for address in ("/costs?team=nlp&amp;group_by=user", "/costs?team=nlp&amp;group_by=job"):
        assert address in first
        assert viewer.get(address.replace("&amp;", "&")).status_code == 200
    assert first.index("People") < first.index("Jobs")
    assert '<dl class="kpis">' in answer.content.decode().partition('id="passed"')[2]


@pytest.mark.parametrize(("amount", "says"), [(1200, "Passes its budget on"), (2000, "")])
def test_a_budget_that_is_forecast_to_be_passed_says_the_day_and_one_that_is_kept_nothing(
    viewer, team, amount, says
):
    """At $2 an hour $1,200 are spent at the 25th's end, and more an hour later."""
    set_budget(team, NOW.date().replace(day=1), Decimal(amount), repeats=True, now=NOW, by="ann")

    answer = viewer.get("/budgets/teams/nlp")

    assert ('id="passed"' in answer.content.decode()) == bool(says)
    assert says in shown(answer)
    if says:
        passed = answer.context["passed"]
        assert (passed.is_over, passed.at) == (False, None)
        assert passed.expected_at == datetime(2026, 11, 26, 1, tzinfo=UTC)


def test_the_charts_table_says_that_it_is_of_the_month(viewer, team):
    page = shown(viewer.get("/charts/budget?team=nlp&as=table"))

    assert "1–30 Nov 2026; empty means not known" in page
    assert "last 7 days" not in page.lower().partition("1–30 nov 2026")[2]


def test_a_rule_that_does_not_watch_the_team_is_not_said_to_alert_anybody(viewer, team):
    set_budget(team, NOW.date().replace(day=1), Decimal(2000), repeats=True, now=NOW, by="ann")
    others = [{"label": "team", "values": ["vision"], "is_not": False}]
    Rule.objects.filter(condition__startswith="budget").update(matchers=others)

    assert "Nobody: no rule that is on watches it." in shown(viewer.get("/budgets/teams/nlp"))


@pytest.mark.usefixtures("_frozen")
@pytest.mark.parametrize(
    ("role", "link"), [("admin", True), ("finance", False), ("engineer", False)]
)
def test_a_spent_budget_that_no_rule_watches_says_that_nobody_hears_of_it(client, team, role, link):
    set_budget(team, NOW.date().replace(day=1), Decimal(900), repeats=True, now=NOW, by="ann")
    Rule.objects.filter(condition="budget_spent").update(is_enabled=False)
    rule = Rule.objects.get(condition="budget_spent")
    client.force_login(factories.user(role=role, username=role))
    says = "nobody hears of it: the rule Budget spent is off"

    both = [client.get(address) for address in ("/budgets", "/budgets/teams/nlp")]

    assert [shown(page).count(says) for page in both] == [1, 2]
    leads = [f'href="/alerts/rules/{rule.pk}"' in page.content.decode() for page in both]
    assert leads == [link, link]


@pytest.mark.parametrize(("usd", "is_on"), [(900, True), (2000, False)])
def test_a_budget_that_is_watched_or_kept_says_nothing_of_who_hears_of_it(viewer, team, usd, is_on):
    set_budget(team, NOW.date().replace(day=1), Decimal(usd), repeats=True, now=NOW, by="ann")
    Rule.objects.filter(condition="budget_spent").update(is_enabled=is_on)

    assert "nobody hears of it" not in shown(viewer.get("/budgets"))


def test_a_month_recorded_in_part_says_so_and_is_never_within(viewer, team):
    Entry.objects.filter(start__lt=MIDNIGHT - timedelta(days=9)).delete()
    set_budget(team, NOW.date().replace(day=1), Decimal(2000), repeats=True, now=NOW, by="ann")

    one, every, teams = (
        shown(viewer.get(place)) for place in ("/budgets/teams/nlp", "/budgets", "/teams")
    )

    assert "days missing unknown: 1–10 Nov not recorded" in one
    assert one.count("1–10 Nov not recorded") == 2  # beside what is spent, and the risk
    # $2 an hour, 30 days of 24
    assert "At the mean of what is recorded, $48.00 a day, a full month costs $1,440." in one
    assert "a full month costs" not in every
    assert "days missing 1–10 Nov unknown" in every
    assert "Since 11 Nov, % of budget" in every
    assert "Nothing of November before 11 Nov 2026 is recorded." in every
    assert "Spent since 11 Nov 2026, and expected by the month’s end" in every
    assert (
        "before 11 Nov 2026 is not recorded, so more of each budget is used than is shown" in teams
    )
    assert "within" not in one + every


def test_of_a_month_recorded_in_part_the_next_one_is_said_to_pass_the_budget(viewer, team):
    """At $2 an hour $720 are spent after 15 days."""
    Entry.objects.filter(start__lt=MIDNIGHT - timedelta(days=9)).delete()
    set_budget(team, NOW.date().replace(day=1), Decimal(720), repeats=True, now=NOW, by="ann")

    answer = viewer.get("/budgets/teams/nlp")

    assert answer.context["full_month"].passes_at == datetime(2026, 12, 16, tzinfo=UTC)
    assert "from next month on the budget would be passed, first on 16 Dec" in shown(answer)


def test_of_a_month_that_is_recorded_whole_no_full_month_is_said(viewer, team):
    assert "a full month costs" not in shown(viewer.get("/budgets/teams/nlp"))


def test_lines_that_are_forecast_otherwise_than_the_fleet_say_why_they_do_not_add_up(viewer, team):
    together = shown(viewer.get("/budgets"))
    Outlook.objects.filter(kind="fleet").update(usd_per_hour=[[3.0] * 24] * 7)

    apart = shown(viewer.get("/budgets"))

    assert "need not add up" not in together
    assert "come to $1,440 expected, the fleet’s own line is $1," in apart
    assert "each is forecast from its own days, so they need not add up" in apart


def test_lines_at_the_run_rate_are_in_what_does_not_add_up_and_teams_say_so_too(viewer, team):
    Outlook.objects.filter(kind="fleet").update(usd_per_hour=[[3.0] * 24] * 7)
    Outlook.objects.filter(kind="team").delete()

    for place in ("/budgets", "/teams"):
        assert "come to $1,440 expected, the fleet’s own line is $1," in shown(viewer.get(place))


def test_without_a_forecast_a_month_at_the_rate_of_the_last_days_is_shown(viewer, team):
    Outlook.objects.all().delete()

    one, every, teams = (
        shown(viewer.get(place)) for place in ("/budgets/teams/nlp", "/budgets", "/teams")
    )

    # $48 a day, 30 days
    assert "Month’s end at this rate" in one
    assert "the mean of the last 7 full days: a run rate, no forecast" in one
    assert "$1,440 at the run rate" in every
    assert "$1,440 at the run rate" in teams


def test_a_budget_that_the_run_rate_passes_is_said_so_where_no_forecast_does(viewer, team):
    Outlook.objects.all().delete()
    set_budget(team, NOW.date().replace(day=1), Decimal(1400), repeats=True, now=NOW, by="ann")

    one, every = (shown(viewer.get(place)) for place in ("/budgets/teams/nlp", "/budgets"))

    assert "passed at the run rate" in one
    assert "$1,440 103 % at the run rate" in every
    assert "passed at the run rate" in every


def test_what_the_teams_budgets_leave_of_the_fleets_is_for_what_is_no_teams(viewer, team):
    month = NOW.date().replace(day=1)
    for of, amount in ((None, 3000), (team, 2000)):
        set_budget(of, month, Decimal(amount), repeats=True, now=NOW, by="ann")

    fleet = shown(viewer.get("/budgets/fleet"))

    assert "teams’ budgets add to $2,000: $1,000 left for what is no team’s" in fleet


@pytest.mark.parametrize(("left", "is_over"), [(19, True), (21, False)])
def test_what_is_no_teams_and_passes_what_is_left_for_it_says_so(viewer, team, left, is_over):
    """Ten hours at $2 that nobody held."""
    gpu, policy = factories.gpu(factories.node("node-002")), factories.policy()
    Entry.objects.bulk_create(
        factories.entry(gpu, hours_ago=ago, state="free", by=policy) for ago in range(1, 11)
    )
    month = NOW.date().replace(day=1)
    for of, amount in ((None, 2000 + left), (team, 2000)):
        set_budget(of, month, Decimal(amount), repeats=True, now=NOW, by="ann")

    assert ("over what is left for it" in shown(viewer.get("/budgets"))) == is_over


def test_what_was_spent_leads_to_how_it_came_about(viewer, team):
    page = viewer.get(f"/budgets/teams/{team.slug}").content.decode()

    assert f'href="/explain?from=now/M&amp;to=now&amp;team={team.slug}"' in page


def test_the_table_of_budgets_says_what_it_is_ordered_by(admin):
    set_budget(None, NOW.date().replace(day=1), Decimal(8), repeats=True, now=NOW, by="ann")

    page = admin.get("/budgets").content.decode()

    assert 'aria-sort="descending" title="highest risk first">Risk ↓</th>' in page


@pytest.mark.usefixtures("_frozen")
def test_a_lead_reads_of_the_own_budget_its_range_who_set_it_and_who_changes_it(client, team):
    set_budget(team, NOW.date().replace(day=1), Decimal(1200), repeats=True, now=NOW, by="ann")
    lead = factories.user(role="lead", username="lea")
    Membership.objects.create(team=team, user=lead, valid_from=NOW - timedelta(days=1))
    client.force_login(lead)

    answer = client.get("/me")

    [month] = answer.context["months"]
    low, high = (about(usd) for usd in (month.end.end.low_usd, month.end.end.high_usd))
    assert f"$1,440 expected at its end ({low} to {high})" in shown(answer)
    assert "set by ann, 20 Nov 2026" in shown(answer)
    assert f'href="/budgets/teams/{team.slug}#set"' in answer.content.decode()
