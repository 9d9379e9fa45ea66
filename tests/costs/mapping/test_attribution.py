"""Whose a job's time is: by rules at each moment, the same however it came about, and never at the
cost of the fleet's total.
"""

from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetwatch.accounts.models import Team
from fleetwatch.costs.day_sums import sum_days
from fleetwatch.costs.mapping import attribution, rule_terms
from fleetwatch.costs.mapping.attribution import attribute_changed, into_teams, touched
from fleetwatch.costs.mapping.mappings import add_rule, end_rule, withdraw_rule
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, MappingError, Terms
from fleetwatch.costs.models import Attribution, MappingRule
from fleetwatch.costs.rates.subjects import BEGINNING
from fleetwatch.figures.pricing import usd
from fleetwatch.figures.selectors import (
    NOBODY,
    OWNERS,
    UNMAPPED,
    Scope,
    held_by_owner,
    totals,
    totals_by,
)
from fleetwatch.jobs.models import ChangedJob, Job
from fleetwatch.ledger.models import ClosedMonth, Entry, Policy
from fleetwatch.lib.intervals import Interval
from tests.costs.factories import HOUR, HOUR_MS, a_gpu, a_job, a_rate, an_entry
from tests.costs.test_day_sums import counted, is_read_from_sums

pytestmark = pytest.mark.django_db

DAY = Interval(HOUR, HOUR + timedelta(hours=10))
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ONE = timedelta(hours=1)


def a_rule(
    gives=None,
    *,
    valid_from=BEGINNING,
    valid_to=None,
    priority=100,
    team="",
    project="",
    cost_centre="",
    **asks,
):
    given_to = gives or Gives(team, project, cost_centre)
    return add_rule(
        Terms(
            Conditions(**asks),
            given_to,
            valid_from=valid_from,
            valid_to=valid_to,
            priority=priority,
        ),
        now=NOW,
    )


def lines(group_by="team", interval=DAY):
    return {
        group.key: group.totals.capacity_ms // HOUR_MS for group in totals_by(interval, group_by)
    }


def close(month, end):
    policy = Policy.objects.create(version=99, thresholds={}, created_at=NOW)
    ClosedMonth.objects.create(
        month=month, start=month, end=end, policy=policy, closed_at=NOW, closed_by="eve"
    )


def rows(job):
    found = Attribution.objects.filter(job=job).order_by("valid_from").select_related("team")
    return [
        (
            row.valid_from,
            row.valid_to,
            row.team.slug if row.team else None,
            row.project,
            row.cost_centre,
        )
        for row in found
    ]


def test_without_rules_the_accounts_team_has_the_time_and_nothing_is_written():
    an_entry(a_gpu(), job=a_job(team="nlp"))

    assert lines() == {"nlp": 1}
    assert not Attribution.objects.exists()


def test_a_rule_takes_the_time_from_the_moment_on_in_which_it_begins_to_the_one_in_which_it_ends():
    gpu, job = a_gpu(), a_job(user="ann", team="nlp")
    for hour in range(4):
        an_entry(gpu, job=job, start=HOUR + hour * ONE)

    a_rule(user="ann", team="vision", valid_from=HOUR + ONE, valid_to=HOUR + 3 * ONE)

    assert lines() == {"nlp": 2, "vision": 2}
    assert rows(job) == [
        (BEGINNING, HOUR + ONE, "nlp", "", ""),
        (HOUR + ONE, HOUR + 3 * ONE, "vision", "", ""),
        (HOUR + 3 * ONE, None, "nlp", "", ""),
    ]


def test_team_project_and_cost_centre_are_found_each_on_its_own():
    gpu, job = a_gpu(), a_job(user="ann", account="nlp", labels={"project": "vision-7"})
    an_entry(gpu, job=job)

    a_rule(label="project", label_value="vision-*", project="Vision", cost_centre="1")
    a_rule(user="ann", account="nlp", cost_centre="2")

    assert (lines("team"), lines("project"), lines("cost_centre")) == (
        {"nlp": 1},
        {"Vision": 1},
        {"2": 1},
    )


@pytest.mark.parametrize(
    ("asks", "job", "is_matched"),
    [
        ({"user": "ann"}, {"user": "ann"}, True),
        ({"user": "ann"}, {"user": "anna"}, False),
        ({"user": "ann"}, {"user": "Ann"}, False),
        ({"user": "a*n"}, {"user": "a%_n"}, True),
        ({"user": "a%"}, {"user": "ann"}, False),
        ({"user": "a_n"}, {"user": "ann"}, False),
        ({"user": "*"}, {"user": ""}, False),
        ({"account": "ml-*"}, {"account": "ml-"}, True),
        ({"namespace": "team-a"}, {"scheduler": "kubernetes", "name": "team-a/pod-1"}, True),
        ({"namespace": "team-a"}, {"scheduler": "slurm", "name": "team-a/pod-1"}, False),
        ({"namespace": "b"}, {"labels": {"namespace": "b"}}, True),
        ({"partition": "gpu*"}, {"labels": {"partition": "gpu-long"}}, True),
        ({"partition": "*"}, {}, False),
        (
            {"label": "x'; DROP TABLE--", "label_value": "%s"},
            {"labels": {"x'; DROP TABLE--": "%s"}},
            True,
        ),
        ({"label": "a", "label_value": "1"}, {"labels": {"A": "1"}}, False),
        ({"user": "ann", "account": "b"}, {"user": "ann", "account": "c"}, False),
    ],
)
def test_what_a_rule_matches(asks, job, is_matched):
    row = a_job(**{"user": "", "team": None} | job)

    rule = a_rule(team="vision", **asks)

    assert touched([rule]) == ([row.pk] if is_matched else [])
    assert [team for *_, team, _, _ in rows(row)] == (["vision"] if is_matched else [])


def test_time_without_a_team_is_a_line_by_the_reason():
    gpu = a_gpu()
    an_entry(gpu, job=a_job(user="bob", team=None))
    an_entry(gpu, job=a_job(user="", team=None), start=HOUR + ONE)
    an_entry(gpu, "free", start=HOUR + 2 * ONE)

    assert lines() == {UNMAPPED: 1, NOBODY: 1, "": 1}
    assert [group.label for group in totals_by(DAY, "project") if group.key == UNMAPPED] == [
        "no project: no rule matched"
    ]


@pytest.mark.parametrize("owner", OWNERS)
def test_every_line_can_be_opened_also_beside_other_limits(owner):
    gpu = a_gpu()
    jobs = [
        a_job(user=user, team=team) for user, team in (("ann", "nlp"), ("bob", None), ("", None))
    ]
    for number, job in enumerate((*jobs, None)):
        an_entry(gpu, "useful" if job else "free", 1000 + number, job=job)
    a_rule(user="ann", project="p", cost_centre="c")

    for line in totals_by(DAY, owner):
        assert totals(DAY, scope=Scope(**{owner: line.key})) == line.totals
        assert (
            sum(
                part.totals.capacity_ms
                for part in totals_by(DAY, "job", scope=Scope(**{owner: line.key}))
            )
            == line.totals.capacity_ms
        )


def test_a_day_in_which_a_rule_begins_is_read_hour_by_hour_for_teams_and_from_sums_for_the_rest():
    gpu, job = a_gpu(), a_job(user="ann", team="nlp")
    week = Interval(datetime(2026, 11, 2, tzinfo=UTC), datetime(2026, 11, 9, tzinfo=UTC))
    for hour in range(24):
        counted(gpu, job=job, start=week.start + hour * ONE)
    sum_days(week.end + timedelta(days=2), 100)

    a_rule(user="ann", team="vision", valid_from=week.start + 6 * ONE)

    assert lines(interval=week) == {"nlp": 6, "vision": 18}
    assert is_read_from_sums(week)


def test_an_ended_rule_gives_the_time_after_it_back_and_a_withdrawn_one_all_of_it():
    gpu, job = a_gpu(), a_job(user="ann", team="nlp")
    for hour in range(3):
        an_entry(gpu, job=job, start=HOUR + hour * ONE)
    rule = a_rule(user="ann", team="vision")

    end_rule(rule, HOUR + ONE)
    assert lines() == {"vision": 1, "nlp": 2}

    withdraw_rule(rule)
    assert lines() == {"nlp": 3}
    assert not Attribution.objects.exists()


@pytest.mark.parametrize("change", [withdraw_rule, lambda rule: end_rule(rule, HOUR)])
def test_of_two_admins_the_second_is_told_that_the_rule_is_gone(change):
    rule = a_rule(user="ann", team="vision")
    seen_by_the_second = MappingRule.objects.get()
    withdraw_rule(rule)

    with pytest.raises(MappingError, match="withdrew it meanwhile"):
        change(seen_by_the_second)


@pytest.mark.parametrize("at", [HOUR, HOUR + 3 * ONE, HOUR + timedelta(minutes=90)])
def test_a_rule_ends_within_its_time_on_a_full_hour(at):
    rule = a_rule(user="ann", team="vision", valid_from=HOUR, valid_to=HOUR + 3 * ONE)

    with pytest.raises(MappingError):
        end_rule(rule, at)


def test_a_rule_neither_begins_nor_ends_nor_goes_in_a_closed_month():
    september, october = datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC)
    rule = a_rule(user="ann", team="vision", valid_from=september)
    close(september, october)

    for change in (
        lambda: a_rule(user="bob", team="vision", valid_from=october - ONE),
        lambda: a_rule(user="bob", team="vision"),
        lambda: end_rule(rule, october - ONE),
        lambda: withdraw_rule(rule),
    ):
        with pytest.raises(MappingError, match="closed"):
            change()

    end_rule(rule, october)
    a_rule(user="bob", team="vision", valid_from=october)
    assert MappingRule.objects.count() == 2


def test_what_a_job_names_later_leaves_its_time_in_a_closed_month_where_it_was():
    september, october = datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC)
    gpu, job, other = a_gpu(), a_job(user="ann", team="nlp"), a_job(user="zoe", team="nlp")
    for start in (october - ONE, october):
        for each in (job, other):
            an_entry(gpu, job=each, start=start)
    a_rule(user="zoe", project="p", valid_from=september)
    close(september, october)

    for each in (job, other):
        ChangedJob.objects.create(
            job_id=each.pk, is_new=False, former_team_id=each.team_id, was_named=True
        )
        Job.objects.filter(pk=each.pk).update(
            user="bob", team=Team.objects.get_or_create(slug="vision")[0]
        )
    attribute_changed()

    assert lines("team", Interval(september, october)) == {"nlp": 2}
    assert lines("project", Interval(september, october)) == {"p": 1, UNMAPPED: 1}
    assert lines("team", Interval(october, october + ONE)) == {"vision": 2}
    assert lines("team", Interval(september, october + ONE)) == {"nlp": 2, "vision": 2}


def test_a_new_job_is_where_a_standing_rule_says_and_twice_is_once():
    a_rule(user="ann", team="vision")
    job = a_job(user="ann", team="nlp")
    ChangedJob.objects.create(job_id=job.pk, is_new=True)

    assert attribute_changed() == {"jobs": 1, "rows": 1}
    assert attribute_changed() == {"jobs": 0, "rows": 0}
    assert rows(job) == [(BEGINNING, None, "vision", "", "")]


def test_a_mark_of_a_job_that_is_gone_says_nothing():
    a_rule(user="ann", team="vision")
    ChangedJob.objects.create(job_id=4711, is_new=True)

    assert attribute_changed() == {"jobs": 1, "rows": 0}


def test_a_job_is_shown_with_the_team_of_a_moment():
    job = a_job(user="ann", team="nlp")
    a_rule(user="ann", team="vision", valid_from=HOUR)

    assert into_teams([Job.objects.get()], before=HOUR)[0].team.slug == "nlp"
    assert into_teams([Job.objects.get()], before=HOUR + ONE)[0].team.slug == "vision"
    assert Job.objects.get().team == job.team


def test_deleting_a_team_job_or_rule_changes_no_total_of_the_fleet():
    gpu = a_gpu()
    a_rate("1.234567", gpu=gpu)
    jobs = [a_job(user=user, team="nlp") for user in ("ann", "bob")]
    for number, job in enumerate((*jobs, None)):
        an_entry(gpu, job=job, start=HOUR + number * ONE, gpu_ms=1_234_567)
    rule = a_rule(user="ann", team="vision", project="p")
    before = totals(DAY)

    for change in (
        lambda: MappingRule.objects.filter(pk=rule.pk).update(project="q", note="renamed"),
        rule.delete,
        lambda: Team.objects.filter(slug="vision").update(name="x", slug="y"),
        lambda: Team.objects.filter(slug="y").delete(),
        lambda: Team.objects.filter(slug="nlp").delete(),
        jobs[0].delete,
    ):
        change()
        assert totals(DAY) == before
        for owner in OWNERS:
            assert usd(sum(group.totals.cost_usd for group in totals_by(DAY, owner))) == usd(
                before.cost_usd
            )


USERS, ACCOUNTS, PROJECTS = ("ann", "bob", ""), ("nlp", "ml-1", ""), ("x1", "x2", None)
MOMENTS = [BEGINNING, *(HOUR + hour * ONE for hour in (1, 2, 4))]


@st.composite
def some_rules(draw):
    asks = draw(
        st.dictionaries(
            st.sampled_from(["user", "account", "label"]),
            st.sampled_from(["ann", "a*", "*", "ml-*", "x1", "x*"]),
            min_size=1,
        )
    )
    since, until = draw(st.sampled_from(MOMENTS)), draw(st.sampled_from([*MOMENTS[1:], None]))
    gives = Gives(
        draw(st.sampled_from(["", "t1", "t2"])), draw(st.sampled_from(["", "p1", "p2"])), "c"
    )
    if "label" in asks:
        asks |= {"label": "project", "label_value": asks["label"]}
    return {
        "asks": asks,
        "gives": gives,
        "since": since,
        "until": None if until is None or until <= since else until,
    }


def told(job, rules, moment):
    """By hand: of the rules in their order the first that matches and says it."""
    facts = {"user": job.user, "account": job.account, "label": job.labels.get("project", "")}
    ordered = sorted(
        rules,
        key=lambda rule: rule_terms.place(rule.priority, attribution.conditions(rule), rule.pk),
    )
    holds = [
        rule
        for rule in ordered
        if rule.valid_from <= moment
        and (rule.valid_to is None or moment < rule.valid_to)
        and all(
            facts[name] and fnmatchcase(facts[name], pattern)
            for name, pattern in attribution.conditions(rule).patterns.items()
        )
    ]
    gives = [attribution.gives(rule) for rule in holds]
    default = SimpleNamespace(team=job.team.slug if job.team else "", project="", cost_centre="")
    return {
        owner: next(
            (getattr(each, owner) for each in gives if getattr(each, owner)),
            getattr(default, owner),
        )
        for owner in OWNERS
    }


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(some_rules(), min_size=1, max_size=4), st.data())
def test_random_rules_say_what_they_say_by_hand_whatever_the_way_they_came_and_lose_nothing(
    wanted, data
):
    for model in (Entry, Attribution, MappingRule, Job):
        model.objects.all().delete()
    gpu = a_gpu()
    jobs = [
        a_job(
            user=user,
            account=account,
            team=account or None,
            labels={"project": project} if project else {},
        )
        for user, account, project in zip(USERS, ACCOUNTS, PROJECTS, strict=True)
    ]
    for job in jobs:
        for hour in range(5):
            an_entry(gpu, job=job, start=HOUR + hour * ONE)
    before = totals(DAY)

    rules = [
        a_rule(each["gives"], valid_from=each["since"], valid_to=each["until"], **each["asks"])
        for each in wanted
    ]
    gone = data.draw(st.sampled_from(rules))
    withdraw_rule(gone)
    rules = [rule for rule in rules if rule.pk != gone.pk]

    for owner in OWNERS:
        for job in jobs:
            hours = [told(job, rules, HOUR + hour * ONE)[owner] for hour in range(5)]
            reason = UNMAPPED if job.user or job.account else NOBODY
            held = {
                key: gpu_ms for (key, _), (gpu_ms, _) in held_by_owner(DAY, owner)[job.pk].items()
            }
            assert held == {key or reason: hours.count(key) * HOUR_MS for key in hours}
        assert (
            sum(group.totals.capacity_ms for group in totals_by(DAY, owner)) == before.capacity_ms
        )
    standing = [rows(job) for job in jobs]
    assert attribution.attribute([job.pk for job in jobs]) == 0
    assert [rows(job) for job in jobs] == standing
