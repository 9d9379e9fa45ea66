"""An incident of a budget says what is left, and where the month's dollars went."""

from datetime import timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import msgspec
import pytest

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.visibility import Sight, seeing
from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.measuring.month_drivers import with_drivers
from fleetwatch.alerts.messaging.group_news import Reader, read_news
from fleetwatch.alerts.models import Incident, IncidentGroup, Rule
from fleetwatch.diagnosis.causes import title
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.alerts.factories import an_incident
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import breach
from tests.diagnosis.told import cause, finding
from tests.markup import in_text, tight

UTC = ZoneInfo("UTC")
FACTS = {"spent_usd": "840.00", "budget_usd": "1000.00"}


def budget_incident(subject: str, **fields) -> Incident:
    told = breach(
        subject, kind="budget", name="NLP", has_cost=False, cost_usd=None, labels={}, facts=FACTS
    )
    rule = Rule.objects.get(condition="budget_spent")
    usual = {"opened_at": NOW - timedelta(minutes=30), "facts": msgspec.to_builtins(told)}
    return an_incident(rule, subject, **(usual | fields))


@pytest.fixture
def spending() -> None:
    """At $2 an hour each, of this month: ann's job 10 hours, of which 2 stalled for one cause;
    bob's 5; and 3 hours that no job held.
    """
    factories.rate("2.00")
    on = factories.node()
    ann = factories.job("slurm/della/1", user="ann", team="nlp")
    bob = factories.job("slurm/della/2", name="eval", user="bob", team="nlp")
    first = factories.gpu(on)
    second = factories.gpu(on, index=1)
    hours = [factories.entry(first, hours_ago=ago, held_by=ann) for ago in range(3, 11)]
    hours += [factories.entry(first, hours_ago=a, state="stalled", held_by=ann) for a in (1, 2)]
    hours += [factories.entry(second, hours_ago=ago, held_by=bob) for ago in range(1, 6)]
    hours += [factories.entry(second, hours_ago=ago, state="free") for ago in range(6, 9)]
    Entry.objects.bulk_create(hours)


def drivers(client, incident: Incident):
    return client.get(f"/incidents/{incident.pk}").context["drivers"]


def lines(client, incident: Incident) -> list[tuple[str, str, Decimal]]:
    return [(line.kind, line.name, line.usd) for line in drivers(client, incident).lines]


def test_the_fleets_names_its_largest_teams_and_jobs(admin, spending):
    told = lines(admin, budget_incident("fleet"))

    assert ("team", "nlp", Decimal(30)) in told
    assert [(name, usd) for kind, name, usd in told if kind == "job"] == [
        ("train", Decimal(20)),
        ("eval", Decimal(10)),
    ]
    assert [usd for kind, _, usd in told if kind == "cause of waste"] == [Decimal(4)]


def test_a_teams_names_its_people_and_each_leads_to_a_page_of_the_same_time(admin, spending):
    told = drivers(admin, budget_incident("teams/nlp"))

    people = [line for line in told.lines if line.kind == "person"]
    assert told.usd == 30
    assert [(line.name, line.usd) for line in people] == [("ann", 20), ("bob", 10)]
    assert people[0].share == Decimal(20) / 30
    assert "team=nlp&group_by=job&user=ann&from=" in people[0].address
    for line in told.lines:
        assert admin.get(line.address).status_code == 200


def test_each_kind_has_the_sum_of_all_of_it(admin, spending):
    """Of the team: $30 that its people and their jobs took, of which $4 were wasted."""
    kinds = drivers(admin, budget_incident("teams/nlp")).kinds

    assert [(kind.title, kind.usd) for kind in kinds] == [
        ("People", 30),
        ("Jobs", 30),
        ("Causes of waste", 4),
    ]


def test_the_kinds_of_the_fleet_say_what_of_the_month_is_of_none_of_them(admin, spending):
    """Three hours at $2 that no job held."""
    told = drivers(admin, budget_incident("fleet"))

    assert [(kind.rest, kind.rest_usd) for kind in told.kinds if kind.has_rest] == [
        ("Free and no team", 6),
        ("Free: held by no job", 6),
    ]
    assert not any(kind.has_rest for kind in drivers(admin, budget_incident("teams/nlp")).kinds)


def test_the_jobs_that_run_and_waste_are_named_with_their_last_hour(admin, spending):
    """Ann's stalled; bob's wastes nothing."""
    Job.objects.filter(key="slurm/della/1").update(state="RUNNING", end_ms=None)
    Job.objects.filter(key="slurm/della/2").update(state="RUNNING", end_ms=None)

    page = in_text(admin.get(f"/incidents/{budget_incident('teams/nlp').pk}").content.decode())

    assert "these wasted most in the last hour: train $2.00 of $2.00 ." in page
    assert "Most was spent by ann : $20.00 , 67 % of the month." in page


def test_a_job_that_people_decided_about_is_none_of_them(admin, spending):
    training = Job.objects.get(key="slurm/della/1")
    Job.objects.filter(pk=training.pk).update(state="RUNNING", end_ms=None)
    of_job = finding(training, first_ms=to_ms(NOW) - HOUR_MS, last_ms=to_ms(NOW))
    Finding.objects.filter(pk=of_job.pk).update(status="dismissed")
    Job.objects.filter(key="slurm/della/2").update(state="COMPLETED", end_ms=to_ms(NOW))

    page = in_text(admin.get(f"/incidents/{budget_incident('teams/nlp').pk}").content.decode())

    assert "these wasted most" not in page


def test_a_rules_incidents_say_what_is_left_of_each_budget(admin, spending):
    of_budget = budget_incident("teams/nlp")

    page = in_text(admin.get(f"/alerts/rules/{of_budget.rule_id}").content.decode())

    assert "Over or left" in page
    assert "$160 left" in page


def test_a_budget_that_is_passed_says_for_how_long_it_is(admin, spending):
    passed = budget_incident("teams/nlp")
    passed.facts["facts"] |= {"spent_usd": "1200.00", "passed_ms": to_ms(NOW) - 26 * HOUR_MS}
    passed.save()

    page = in_text(admin.get(f"/incidents/{passed.pk}").content.decode())

    assert "Over 100 % for 1 d 2 h since Thu 19 Nov, 10:00" in page


def test_they_are_of_the_moment_to_which_what_is_spent_was_counted(admin, spending):
    """Five hours ago: 5 hours of ann's, none of bob's."""
    of_budget = budget_incident("teams/nlp")
    spent_until_ms = to_ms(NOW) - 5 * HOUR_MS
    of_budget.facts["facts"]["spent_until_ms"] = spent_until_ms
    of_budget.save()

    told = drivers(admin, of_budget)

    assert (to_ms(told.interval.end), told.usd) == (spent_until_ms, 10)


def test_a_month_that_is_recorded_in_part_says_since_when(admin, spending):
    """Ledger and nodes begin ten hours ago."""
    page = tight(admin.get(f"/incidents/{budget_incident('fleet').pk}").content.decode())

    assert "nothing is recorded before 20 Nov" in page.partition("What drives it")[2]


def test_what_to_do_first_names_the_largest_cause_with_its_dollars(admin, spending):
    page = tight(admin.get(f"/incidents/{budget_incident('fleet').pk}").content.decode())

    first = page.partition('id="first-steps"')[2].partition("</section>")[0]
    # of what has no known cause there are no findings: the list of all causes has its dollars
    assert 'Begin with<a class="link" href="/waste?group_by=cause&amp;from=' in first
    assert "the largest cause of waste:" in first
    assert 'href="/findings?status=open&amp;from=' in first
    assert 'href="/budgets/fleet"' in first
    assert ">The budget's page</a>" in first
    assert "$4.00" in first


def test_a_cause_leads_to_what_it_wasted_in_these_days(admin, spending):
    for each in Entry.objects.filter(state="stalled").select_related("gpu", "job"):
        of_hour = {"of": each.job, "on": each.gpu, "start": each.start}
        cause("data_starved", **of_hour, waste="stalled_probable_ms")

    (line,) = [
        each
        for each in drivers(admin, budget_incident("fleet")).lines
        if each.name == title("data_starved")
    ]
    shown = admin.get(line.address)

    assert line.address.startswith("/waste?cause=data_starved&from=")
    assert shown.context["totals"].wasted_usd == line.usd


def test_a_rule_that_is_newer_than_what_it_says_fired_when_it_was_raised(admin, spending):
    """80 % were spent five days before the budget was made: no list says that it fired then."""
    long_ago_ms = to_ms(NOW - timedelta(days=5))
    late = budget_incident("teams/nlp", fired_ms=long_ago_ms)

    assert late.raised_ms == to_ms(late.opened_at)
    page = tight(admin.get(f"/incidents/{late.pk}").content.decode())
    assert "raised" in page.partition(" for</dt>")[2].partition("</div>")[0]


def test_a_teams_budget_is_named_once(admin, spending):
    page = tight(admin.get(f"/incidents/{budget_incident('teams/nlp').pk}").content.decode())

    facts = page.partition("<dt>Budget</dt>")[2].partition("</dd>")[0]
    assert "teams/nlp<" not in facts


def test_what_is_over_is_told_to_its_end(admin, spending):
    ended_ms = to_ms(NOW) - 5 * HOUR_MS
    over = budget_incident("teams/nlp", ended_ms=ended_ms, resolved_at=NOW)
    facts = over.facts | {"until_ms": ended_ms, "since_ms": ended_ms - HOUR_MS}
    Incident.objects.update(facts=facts, until_ms=ended_ms)

    assert drivers(admin, over).usd == 10  # 5 hours of ann's, none of bob's


def test_a_month_without_dollars_and_another_incident_name_nothing(admin):
    assert drivers(admin, budget_incident("teams/nlp")) is None
    assert CauseEntry.objects.count() == 0


def test_the_page_begins_with_what_is_left(admin, spending):
    page = tight(admin.get(f"/incidents/{budget_incident('teams/nlp').pk}").content.decode())

    assert "<dt>Left</dt>" in page
    assert "$160" in page
    assert "What drives it" in page


def message_lines(incident: Incident, seen: Sight | None = None) -> dict[str, str]:
    """What the budget's message says beside its own lines to who sees that."""
    told = stored_breach(incident.facts)
    with seeing(lambda: seen):
        return dict(with_drivers(told, NOW).lines[len(told.lines) :])


def test_a_message_names_the_top_spender_and_the_top_cause_with_their_dollars(db, spending):
    stalled = Entry.objects.filter(state="stalled").select_related("gpu", "job")
    for each in stalled:
        cause(
            "data_starved", of=each.job, on=each.gpu, start=each.start, waste="stalled_probable_ms"
        )

    assert message_lines(budget_incident("teams/nlp")) == {
        "Top spender": "ann: $20.00, 67 % of what was spent",
        "Top cause": f"{title('data_starved')}: $4.00, 100 % of what was wasted",
    }
    # of the fleet's $36.00
    assert message_lines(budget_incident("fleet"))["Top team"] == (
        "nlp: $30.00, 83 % of what was spent"
    )


def test_a_message_names_no_cause_where_none_is_known(db, spending):
    assert set(message_lines(budget_incident("teams/nlp"))) == {"Top spender"}


def test_a_message_of_a_month_without_dollars_names_nobody(db):
    assert message_lines(budget_incident("teams/nlp")) == {}


@pytest.mark.parametrize("is_stranger", [True, False])
def test_strangers_who_may_not_open_the_budget_are_not_told_who_spent_it(db, spending, is_stranger):
    incident = budget_incident("teams/nlp")
    group = IncidentGroup.objects.create(rule=incident.rule, key="nlp", opened_at=NOW)
    Incident.objects.update(group=group)
    [news] = read_news([group])

    message = news.message(UTC, NOW, reader=Reader(is_stranger=is_stranger))

    assert ("Top spender" in dict(message.fields)) is not is_stranger


@pytest.mark.parametrize(
    ("subject", "of_team", "names"),
    [("teams/nlp", "nlp", True), ("teams/nlp", "cv", False), ("fleet", "nlp", False)],
)
def test_only_who_sees_all_of_a_budgets_dollars_is_told_who_spent_them(
    db, spending, subject, of_team, names
):
    team, _ = Team.objects.get_or_create(slug=of_team)

    told = message_lines(budget_incident(subject), Sight(0, frozenset({team.pk}), ()))

    assert bool(told) is names


def test_a_budget_that_goes_on_lasts_until_now_in_the_list_on_its_page_and_on_its_rules(admin):
    """Since 10:50, evaluated last ten minutes ago, at 11:50: for an hour and ten minutes."""
    ago = {"since_ms": to_ms(NOW - timedelta(minutes=70)), "until_ms": to_ms(NOW) - 600_000}
    told = breach("teams/nlp", kind="budget", name="NLP", has_cost=False, labels={}, **ago)
    fields = {"facts": msgspec.to_builtins(told) | {"facts": FACTS}, **ago}
    going_on = budget_incident("teams/nlp", **fields)
    budget_incident("teams/cv", **fields, resolved_at=NOW - timedelta(minutes=10))

    shown = [
        in_text(admin.get(page).content.decode())
        for page in ("/alerts", f"/incidents/{going_on.pk}", f"/alerts/rules/{going_on.rule_id}")
    ]

    assert [page.count("1 h 10 min") for page in shown] == [1, 1, 1]
    assert "1 h " not in shown[0].replace("1 h 10 min", "")
