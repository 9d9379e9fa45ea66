"""The page of all teams: it sums to the fleet, and says of each why it wastes and who is in it."""

from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.models import Membership, Team
from fleetwatch.diagnosis.models import Finding
from fleetwatch.ledger.models import Entry
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.diagnosis import told
from tests.markup import in_text, tight
from tests.reports.test_budgeted import a_budget, an_outlook


def spent(*lines: tuple[int, str, str]) -> None:
    """Hours of a GPU at $2 each, of (hours ago, team or "" for a free GPU, state)."""
    gpu, policy = factories.gpu(factories.node(), hours=24 * 60), factories.policy()
    factories.rate("2.00")
    teams = {team for _, team, _ in lines if team}
    jobs = {team: factories.job(f"slurm/della/{team}", team=team) for team in teams}
    Entry.objects.bulk_create(
        factories.entry(gpu, hours_ago=ago, held_by=jobs.get(team), state=state, by=policy)
        for ago, team, state in lines
    )


def words(client, path: str = "/teams") -> str:
    return " ".join(client.get(path).content.decode().split())


def hours_since(moment: datetime) -> int:
    return (NOW - moment) // timedelta(hours=1)


def test_teams_and_what_is_no_teams_sum_to_the_fleet(admin):
    spent((5, "nlp", "useful"), (4, "nlp", "useful"), (3, "vision", "idle"), (2, "", "free"))

    shown = admin.get("/teams").context

    assert [(row.team.slug, row.line.spent_usd) for row in shown["rows"]] == [
        ("nlp", 4),
        ("vision", 2),
    ]
    assert shown["no_team"].spent_usd == 2
    assert shown["fleet"].spent_usd == 8


def test_where_no_team_has_a_budget_a_sentence_says_so_and_no_column_stands_empty(admin):
    spent((5, "nlp", "useful"))

    page = words(admin)

    assert "No team has a budget." in page
    assert 'href="/budgets#set"' in page
    assert "Of its budget" not in page


def test_a_month_is_compared_with_the_same_days_of_the_month_before(admin):
    october = hours_since(datetime(2026, 10, 1, tzinfo=NOW.tzinfo))
    late_october = hours_since(datetime(2026, 10, 25, tzinfo=NOW.tzinfo))
    spent(
        *((october, "nlp", "useful"), (late_october, "nlp", "useful")),
        *((5, "nlp", "useful"), (4, "nlp", "useful"), (3, "", "free")),
    )

    shown = admin.get("/teams").context

    # until 20 November, 12:00: $2 by 20 October, 12:00, $4 now; the 25th is not reached yet
    assert shown["before"].end == datetime(2026, 10, 20, 12, tzinfo=NOW.tzinfo)
    assert [row.change.change_usd for row in shown["rows"]] == [Decimal(2)]
    assert shown["no_team_change"].change_usd == 2
    assert shown["fleet_change"].change_usd == 4


def test_a_month_before_that_is_not_all_known_is_compared_with_nothing(admin):
    second_of_october = hours_since(datetime(2026, 10, 2, tzinfo=NOW.tzinfo))
    spent((second_of_october, "nlp", "useful"), (5, "nlp", "useful"))

    page = words(admin)

    assert "No change against the month before: figures begin on" in page
    assert 'data-label="Change"' not in page


def test_a_teams_largest_cause_leads_to_its_findings(admin):
    spent((5, "nlp", "idle"), (4, "vision", "useful"))
    job = told.job("slurm/della/nlp")
    start = NOW - timedelta(hours=5)
    told.cause("idle_held", of=job, on=factories.GPU.objects.get(), start=start)
    told.cause(
        "overprovisioned_gpus",
        of=job,
        on=told.gpu(1),
        start=start,
        waste="underused_ms",
        hours=3,
    )

    page = words(admin)

    # what is potential is no waste of the headline, however much it is
    assert (
        "/findings?team=nlp&amp;cause=idle_held&amp;from=now%2FM&amp;to=now&amp;status=all" in page
    )
    assert "findings?team=vision" not in page


def idles_agreed_and_open(team: str = "nlp") -> None:
    """At $2 the team wasted four hours by one cause, of which three are of a job that is agreed as
    not waste, and two by another, which nobody decided about.
    """
    gpu, policy = factories.gpu(factories.node(), hours=24 * 60), factories.policy()
    factories.rate("2.00")
    for number, code, hours, status in (
        (1, "overprovisioned_gpus", (9, 8, 7), "dismissed"),
        (2, "overprovisioned_gpus", (6,), "open"),
        (3, "idle_held", (5, 4), "open"),
    ):
        job = factories.job(f"slurm/della/{number}", team=team, name=f"job-{number}")
        for ago in hours:
            factories.entry(gpu, hours_ago=ago, held_by=job, state="idle", by=policy).save()
            told.cause(code, of=job, on=gpu, start=NOW - timedelta(hours=ago))
        told.finding(job, code, status=status)


def test_what_is_agreed_as_not_waste_is_in_no_largest_cause(admin):
    """$8 by one cause and $4 by another: without the $6 that are agreed the other is larger."""
    idles_agreed_and_open()

    shown = admin.get("/teams")

    [row] = shown.context["rows"]
    assert (row.cause.key, row.cause.totals.wasted_usd) == ("idle_held", 4)
    assert row.agreed_usd == 6
    assert shown.context["fleet_agreed_usd"] == 6
    page = in_text(tight(shown.content.decode()))
    assert page.count("$6.00 of it agreed as not waste") == 2  # nlp's and the fleet's


def test_where_all_of_the_waste_is_agreed_no_cause_is_the_largest(admin):
    idles_agreed_and_open()
    Finding.objects.update(status="dismissed")

    [row] = admin.get("/teams").context["rows"]

    assert (row.cause, row.agreed_usd) == (None, 12)


def test_a_team_whose_month_is_recorded_in_part_says_so_at_its_month_end(admin):
    """As /budgets marks it: within its budget only as far as days are known."""
    gpu = factories.gpu(factories.node())
    factories.rate("2.00")
    factories.entry(gpu, hours_ago=48, held_by=factories.job(team="nlp")).save()
    a_budget(2400, month=date(2026, 11, 1))
    an_outlook("nlp", 1.0)

    page = in_text(tight(admin.get("/teams").content.decode()))

    assert "days missing" in in_text(tight(admin.get("/budgets").content.decode()))
    assert "of budget days missing" in page


def test_a_team_without_log_ins_leads_to_where_they_are_assigned(admin):
    spent((5, "nlp", "useful"))

    empty = words(admin)
    member = factories.user(role="engineer", username="vera")
    Membership.objects.create(user=member, team=Team.objects.get(), valid_from=NOW)
    filled = words(admin)

    assert '<th scope="col">Log-ins assigned</th>' in empty
    assert '<span class="nowrap">none: <a' in empty
    assert 'href="/settings/people"' in empty
    assert '<span class="nowrap">none: <a' not in filled
    assert "name a lead</a>" in filled
    assert "1 log-in " in filled


@pytest.mark.parametrize("role", ["engineer", "finance"])
def test_who_may_not_assign_people_is_led_nowhere(client, admin, role):
    spent((5, "nlp", "useful"))
    client.force_login(factories.user(role=role, username="vera"))

    assert '<span class="faint">none</span>' in words(client)
