"""Policies: who sets them, within which bounds, the week of dry run, and what their page says."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.core.exceptions import PermissionDenied

from fleetwatch.accounts.models import AuditEntry, User
from fleetwatch.actions.action_policies import (
    REHEARSAL,
    add_policy,
    is_dry_run,
    remove_policy,
    set_policy,
    switch_policy,
    terms_of_policy,
)
from fleetwatch.actions.models import Action, Policy
from fleetwatch.alerts.models import Rule
from fleetwatch.lib.refusal import RefusedFieldError
from tests.actions.factories import a_policy, an_idle_job, an_operator, goes_on
from tests.alerts import people
from tests.alerts.factories import NINE, a_rule, at

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]


@pytest.fixture
def ops():
    return an_operator()


@pytest.fixture
def policy(ops):
    return add_policy(a_rule(), "stop_job", by=ops, now=NINE)


def put(policy, ops, *, now=NINE, **fields) -> Policy:
    return set_policy(policy, replace(terms_of_policy(policy), **fields), by=ops, now=now)


def switch(policy, ops, *, on: bool, now=NINE) -> Policy:
    return switch_policy(policy, is_enabled=on, by=ops, now=now)


def test_none_ships():
    assert not Policy.objects.exists()


def test_a_new_one_is_off_and_names_nobody(policy):
    assert (policy.is_enabled, list(policy.teams.all()), policy.job_kinds) == (False, [], [])
    assert is_dry_run(policy, NINE + timedelta(days=365))


@pytest.mark.parametrize("condition", ["gpu_idle", "low_utilisation", "node_silent"])
def test_a_rule_of_what_works_can_have_none(ops, condition):
    rule = Rule.objects.create(
        name="x", condition=condition, threshold=1, minutes=5, created_at=NINE
    )

    with pytest.raises(RefusedFieldError, match="only rules of idle jobs and"):
        add_policy(rule, "stop_job", by=ops, now=NINE)


def test_a_rule_has_one(policy, ops):
    with pytest.raises(RefusedFieldError, match="one already"):
        add_policy(policy.rule, "webhook", by=ops, now=NINE)


@pytest.mark.parametrize("role", ["engineer", "lead", "finance"])
def test_who_does_not_run_the_fleet_sets_nothing(policy, role):
    user = User.objects.create(username="x", role=role)

    for change in (
        lambda: add_policy(policy.rule, "stop_job", by=user, now=NINE),
        lambda: switch(policy, user, on=True),
        lambda: put(policy, user, max_per_hour=2),
        lambda: remove_policy(policy, by=user, now=NINE),
    ):
        with pytest.raises(PermissionDenied):
            change()


def test_the_week_of_dry_run_begins_when_it_is_switched_on_first(policy, ops):
    switch(policy, ops, on=True, now=at(60))
    switch(policy, ops, on=False, now=at(120))
    again = switch(policy, ops, on=True, now=at(180))

    end = at(60) + REHEARSAL
    assert again.dry_run_until == end
    assert is_dry_run(again, end - timedelta(microseconds=1))
    assert not is_dry_run(again, end)


def test_the_dry_run_can_be_prolonged_and_not_shortened_below_the_week(policy, ops):
    switch(policy, ops, on=True)
    end = NINE + REHEARSAL

    assert put(policy, ops, dry_run_until=end + timedelta(days=9)).dry_run_until == end + timedelta(
        days=9
    )
    assert put(policy, ops, dry_run_until=end).dry_run_until == end
    with pytest.raises(RefusedFieldError, match="first week"):
        put(policy, ops, dry_run_until=end - timedelta(microseconds=1))


@pytest.mark.parametrize("more", ["team", "kind"])
def test_with_one_more_team_or_kind_of_job_the_week_begins_anew(ops, more):
    policy = a_policy(job_kinds=["batch"])  # past its week
    wider = {"teams": (people.team("nlp"), people.team("vision"))}
    fields = wider if more == "team" else {"job_kinds": ("batch", "interactive")}

    changed = put(policy, ops, now=at(60), **fields)

    assert (changed.rehearsed_from, changed.dry_run_until) == (at(60), at(60) + REHEARSAL)


def test_with_less_of_them_or_other_limits_no_week_begins(ops):
    teams = [people.team("nlp"), people.team("vision")]
    policy = a_policy(teams=teams)
    until = policy.dry_run_until

    changed = put(policy, ops, now=at(60), teams=(teams[0],), job_kinds=("batch",), max_per_hour=9)

    assert changed.dry_run_until == until


def test_what_was_widened_while_it_was_off_has_its_week_once_it_is_on(ops):
    policy = a_policy(is_enabled=False, job_kinds=["batch"])

    put(policy, ops, now=at(60), job_kinds=("batch", "interactive"))
    changed = switch(policy, ops, on=True, now=at(90))

    assert changed.dry_run_until == at(90) + REHEARSAL


def test_a_dry_run_that_lasts_longer_than_the_week_that_begins_anew_stays_so(ops):
    until = at(60) + 2 * REHEARSAL
    policy = a_policy(job_kinds=["batch"], dry_run_until=until)

    changed = put(policy, ops, now=at(60), job_kinds=("batch", "interactive"))

    assert changed.dry_run_until == until


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"job_kinds": ("service",)}, "job_kinds"),
        ({"first_wait_minutes": 9}, "first_wait_minutes"),
        ({"second_wait_minutes": 1441}, "second_wait_minutes"),
        ({"max_per_hour": 0}, "max_per_hour"),
        ({"max_per_hour": 101}, "max_per_hour"),
        ({"max_usd_per_hour": Decimal("0.009")}, "max_usd_per_hour"),
        ({"max_usd_per_hour": Decimal("NaN")}, "max_usd_per_hour"),
        ({"max_usd_per_hour": Decimal(100_001)}, "max_usd_per_hour"),
    ],
)
def test_what_is_out_of_bounds_is_refused(policy, ops, fields, field):
    with pytest.raises(RefusedFieldError) as refused:
        put(policy, ops, **fields)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "fields", [{"first_wait_minutes": 10}, {"second_wait_minutes": 1440}, {"max_per_hour": 100}]
)
def test_the_bounds_themselves_are_taken(policy, ops, fields):
    put(policy, ops, **fields)

    policy.refresh_from_db()
    assert {name: getattr(policy, name) for name in fields} == fields


def test_a_webhook_needs_one_that_is_signed(ops):
    policy = add_policy(a_rule(), "webhook", by=ops, now=NINE)

    with pytest.raises(RefusedFieldError, match="which webhook"):
        switch(policy, ops, on=True)
    with pytest.raises(RefusedFieldError, match="signed webhook"):
        put(policy, ops, channel=people.webhook())


def test_switching_off_ends_what_waits(ops):
    policy = a_policy()
    goes_on(an_idle_job(), 31)

    switch(policy, ops, on=False, now=at(32))

    assert (Action.objects.get().state, Action.objects.get().result) == (
        "ended", "its policy was switched off"
    )  # fmt: skip


def test_who_saves_after_another_switched_off_leaves_it_off(policy, ops):
    switch(policy, ops, on=True)
    as_another_reads_it = Policy.objects.get()
    terms = replace(terms_of_policy(as_another_reads_it), max_per_hour=7)

    switch(policy, ops, on=False)
    set_policy(as_another_reads_it, terms, by=ops, now=NINE)

    saved = Policy.objects.get()
    assert (saved.is_enabled, saved.max_per_hour) == (False, 7)


def test_who_switches_on_after_another_saved_switches_on_what_was_saved(policy, ops):
    as_another_reads_it = Policy.objects.get()

    put(policy, ops, max_per_hour=7)
    switch(as_another_reads_it, ops, on=True)

    saved = Policy.objects.get()
    assert (saved.is_enabled, saved.max_per_hour) == (True, 7)


def test_what_another_removed_is_not_changed(policy, ops):
    as_another_reads_it = Policy.objects.get()
    remove_policy(policy, by=ops, now=NINE)

    with pytest.raises(RefusedFieldError, match="removed it meanwhile"):
        switch(as_another_reads_it, ops, on=True)


def test_each_change_is_in_the_audit_log(policy, ops):
    switch(policy, ops, on=True)
    remove_policy(policy, by=ops, now=NINE)

    actions = AuditEntry.objects.filter(action__startswith="action.").order_by("pk")
    assert [row.action for row in actions] == [
        "action.add_policy", "action.set_policy", "action.remove_policy"
    ]  # fmt: skip


def test_its_page_makes_sets_and_tries_it(client, ops):
    rule = a_rule()
    nlp = people.team("nlp")
    client.force_login(ops)
    assert "No automatic actions" in client.get("/alerts/actions").content.decode()

    made = client.post("/alerts/actions/add", {"rule": rule.pk, "kind": "stop_job"})
    sent = {
        f"team-{nlp.pk}": "on", "kind-batch": "on", "first_wait_minutes": "30",
        "second_wait_minutes": "45", "max_per_hour": "2", "max_usd_per_hour": "40.5",
    }  # fmt: skip
    client.post(f"{made.url}/set", sent)
    client.post(f"{made.url}/switch_on")

    policy = Policy.objects.get()
    assert (policy.is_enabled, policy.job_kinds, list(policy.teams.all())) == (
        True,
        ["batch"],
        [nlp],
    )
    assert (policy.first_wait_minutes, policy.max_usd_per_hour) == (30, Decimal("40.5"))
    page = client.get(f"{made.url}?days=30").content.decode()
    assert "waits 30 min, warns again, waits 45 min, and ends the job" in page
    assert "0 jobs ended" in " ".join(page.split())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fleetwatch.dashboard.forms.one_change.AT_ONCE_MS", 0)
        page = client.get(f"{made.url}?days=30").content.decode()
    started = f"/alerts/back-tests/policy/{policy.pk}/start?days=30"
    assert f'action="{started}"' in page
    assert client.post(started).url == f"{made.url}?days=30#back-test"
    assert "a worker begins within seconds" in client.get(f"{made.url}?days=30").content.decode()
    wrong = client.post(f"{made.url}/set", sent | {"first_wait_minutes": "5"})
    assert wrong.status_code == 422
    assert 'value="5" aria-invalid="true"' in " ".join(wrong.content.decode().split())
    assert client.post(f"{made.url}/remove").url == "/alerts/actions"


def test_saving_the_form_as_it_is_leaves_the_dry_run_as_long_as_it_is(client, ops, policy):
    until = switch(policy, ops, on=True, now=at(60)).dry_run_until
    client.force_login(ops)
    sent = {
        "first_wait_minutes": "30", "second_wait_minutes": "45", "max_per_hour": "2",
        "max_usd_per_hour": "40.5",
    }  # fmt: skip

    for day, expected in (
        (f"{until:%Y-%m-%d}", until),
        ("", until),
        ("2026-11-28", datetime(2026, 11, 29, tzinfo=UTC)),
    ):
        client.post(f"/alerts/actions/{policy.pk}/set", sent | {"dry_run_until": day})
        assert Policy.objects.get().dry_run_until == expected


def test_each_rule_offers_only_what_can_be_done_about_it(client, ops):
    broken = Rule.objects.get(condition="gpu_fault")
    rest = Rule.objects.get(condition="job_idle")
    client.force_login(ops)

    page = client.get("/alerts/actions").content.decode()

    fault, idle = (
        page.split(f'id="policy-kind-{rule.pk}"')[1].split("</select>")[0]
        for rule in (broken, rest)
    )
    assert ("drain_node" in fault, "stop_job" in fault, 'value="webhook"' in fault) == (
        True, False, True
    )  # fmt: skip
    assert ("drain_node" in idle, "stop_job" in idle, 'value="webhook"' in idle) == (
        False, True, True
    )  # fmt: skip


def test_one_that_is_switched_on_says_that_it_is_about_nobody_until_it_names_both(client, ops):
    policy = add_policy(a_rule(), "stop_job", by=ops, now=NINE)
    team = people.team("nlp")
    client.force_login(ops)

    def switched_on() -> str:
        switch(Policy.objects.get(), ops, on=False)
        return client.post(f"/alerts/actions/{policy.pk}/switch_on", follow=True).content.decode()

    assert "Switched on, for nobody yet" in switched_on()
    put(policy, ops, teams=(team,))
    assert "Switched on, for nobody yet" in switched_on()
    put(policy, ops, teams=(team,), job_kinds=("batch",))
    assert "Switched on." in switched_on()


def test_a_policy_that_is_switched_off_by_two_at_once_is_off(client, ops, policy):
    Policy.objects.update(is_enabled=True)
    client.force_login(ops)

    for _ in range(2):
        client.post(f"/alerts/actions/{policy.pk}/switch_off")

    assert not Policy.objects.get().is_enabled


def test_who_does_not_run_the_fleet_is_refused_at_the_page(client, policy):
    client.force_login(User.objects.create(username="x", role="lead"))

    assert client.post(f"/alerts/actions/{policy.pk}/switch_off").status_code == 403
    assert client.post("/alerts/actions/add").status_code == 403
    assert (
        "Settings"
        not in client.get(f"/alerts/actions/{policy.pk}").content.decode().split("<main")[-1]
    )
