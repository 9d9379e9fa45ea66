"""Rules on their pages: what each does, tried on history before it is saved, copied, removed."""

import re
from datetime import timedelta

import msgspec
import pytest
from django.db.models import F

from fleetwatch.accounts.models import AuditEntry, Team
from fleetwatch.alerts import back_test_runs, matchers, tried_rules
from fleetwatch.alerts.conditions import condition as condition_named
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.models import BackTestRun, Rule
from fleetwatch.alerts.weekly_hours import Hours
from fleetwatch.budgets.models import Budget, SpendDay
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.models import Entry, HourRuns
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.notify.models import Channel
from tests import stored_runs
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import incident
from tests.markup import in_text


@pytest.fixture
def rule(db) -> Rule:
    return Rule.objects.get(condition="gpu_idle")


@pytest.fixture
def job_rule(db) -> Rule:
    return Rule.objects.get(condition="job_idle")


@pytest.fixture
def _idle_jobs(db):
    """Ann's job was idle for 40 minutes, Bo's for an hour, at $2.00 an hour."""
    factories.rate("2.00")
    node = factories.node()
    for index, (user, hours) in enumerate((("ann", 2 / 3), ("bo", 1.0))):
        gpu = factories.gpu(node, index=index)
        job = factories.job(f"slurm/della/{index + 1}", user=user, team="nlp")
        idle_ms = int(hours * HOUR_MS)
        idle = {"idle": idle_ms}
        active = {"useful": HOUR_MS}
        stored_runs.store(
            factories.run(gpu, hours_ago=5, hours=hours, states=idle, held_by=job),
            factories.run(gpu, hours_ago=5 - hours, hours=1, states=active, held_by=job),
        )


def watch(rule: Rule) -> str:
    return f"/alerts/rules/{rule.pk}"


def text(answer) -> str:
    assert answer.status_code == 200, answer.content[:500]
    return " ".join(answer.content.decode().split())


def _lines_of(client):
    """Of every rule on the page of rules."""
    page = client.get("/alerts/rules")
    assert "notified: the operators' channels" in text(page).replace("&#x27;", "'")
    return [line for _, lines in page.context["groups"] for line in lines]


class TestList:
    def test_each_says_who_hears_first_of_what_it_watches(self, admin):
        first = {line.watched.name: line.watched.hears_first for line in _lines_of(admin)}

        assert first["job_idle"] == "the owner, where there is one"
        assert first["orphaned"] == "the owner, where there is one"
        assert first["budget_spent"] == "the team's channels, or the operators'"
        for name in ("clock_off", "hub_behind", "channel_dead", "gpu_fault"):
            assert first[name] == "the operators' channels", name

    def test_each_rule_says_what_it_does_and_how_often_it_did(self, admin, job_rule):
        incident()
        incident("slurm/della/8", resolved_at=NOW)
        incident("slurm/della/9", muted="accepted until 2026-12-06 03:38 UTC: a workshop")
        incident("slurm/della/10", state="pending", fired_ms=None)

        shown = in_text(text(admin.get("/alerts/rules")))

        assert "Fires when every GPU of a job has been idle for 30 minutes." in shown
        assert "1 open 1 agreed as not waste 1 pending" in shown
        assert "3 incidents in 30 days" in shown

    def test_tells_apart_what_was_under_way_when_it_began_to_watch(self, admin, job_rule):
        """It watches since an hour ago; one of two fired an hour before that."""
        begun_at = NOW - timedelta(hours=1)
        Rule.objects.filter(pk=job_rule.pk).update(begun_ms=to_ms(begun_at))
        for key, hours in (("slurm/della/1", 2), ("slurm/della/2", 0.5)):
            fired_ms = to_ms(NOW - timedelta(hours=hours))
            incident(key, fired_ms=fired_ms)

        shown = text(admin.get("/alerts/rules"))

        assert "2 incidents since it was switched on" in shown
        assert "1 of them already running at that time" in shown

    def test_a_new_rules_menu_says_what_each_kind_does(self, admin):
        shown = admin.get("/alerts/rules").content.decode()

        says = "Fires when every GPU of a job has been idle for 30 minutes."
        assert f'data-says="{says}"' in shown
        assert 'data-says-of="new-of">Fires when ' in shown

    def test_is_switched_off_and_on(self, admin, job_rule):
        admin.post(f"{watch(job_rule)}/switch_off")
        job_rule.refresh_from_db()
        assert job_rule.is_enabled is False

        admin.post(f"{watch(job_rule)}/switch_on")
        job_rule.refresh_from_db()
        assert job_rule.is_enabled is True
        assert AuditEntry.objects.filter(action="rule.set").count() == 2

    def test_that_is_switched_off_by_two_at_once_is_off(self, admin, job_rule):
        for _ in range(2):
            admin.post(f"{watch(job_rule)}/switch_off")

        job_rule.refresh_from_db()
        assert job_rule.is_enabled is False

    def test_an_engineer_reads_and_changes_nothing(self, viewer, job_rule):
        shown = text(viewer.get(watch(job_rule)))

        assert "Back-test" in shown
        assert ">Save<" not in shown
        assert viewer.post(f"{watch(job_rule)}/switch_off").status_code == 403

    @pytest.mark.parametrize("condition", ["node_silent", "budget_forecast"])
    def test_offers_no_back_test_where_no_history_is_kept_and_says_why(self, admin, condition):
        silent = Rule.objects.get(condition=condition)

        assert f"{watch(silent)}?days=30" not in text(admin.get("/alerts/rules"))
        shown = text(admin.get(watch(silent)))
        assert "Back-test" not in shown
        assert f"Can’t be back-tested. {condition_named(condition).no_history}" in shown


@pytest.mark.usefixtures("_idle_jobs")
class TestBackTest:
    def test_says_how_many_of_whom_and_what_they_cost(self, admin, job_rule):
        shown = text(admin.get(f"{watch(job_rule)}?days=30"))

        assert "with history: 2 incidents, 2 people," in shown
        assert "$3.33" in shown
        assert "none left out for missing telemetry" in shown
        assert "An incident keeps the times and dollars that were known when it resolved" in shown

    def test_is_of_the_values_in_the_form_and_saves_nothing(self, admin, job_rule):
        shown = text(admin.get(f"{watch(job_rule)}?days=30&minutes=50"))

        job_rule.refresh_from_db()
        assert "with history: 1 incident, 1 person," in shown
        assert "idle for 50 minutes." in shown
        assert "not saved yet" in shown
        assert "As it is saved: 2 incidents, 2 people" in shown  # beside what is tried
        assert "Incidents that began each day, at most 1 in one" in shown
        assert job_rule.minutes == 30

    def test_a_suggestion_stays_what_it_is_beside_the_rule_as_saved_once_it_is_tried(
        self, admin, job_rule
    ):
        """From an hour on it tells of Bo's $2.00 alone, 60 % of the $3.33; what watches others than
        the rule as it is saved is not beside it.
        """
        untried = text(admin.get(f"{watch(job_rule)}?days=30"))
        tried = text(admin.get(f"{watch(job_rule)}?days=30&minutes=60"))
        others = "&label-0=user&values-0=ann, bo"
        narrowed = text(admin.get(f"{watch(job_rule)}?days=30&minutes=30{others}"))

        for page in (untried, tried):
            assert '<td class="num" data-label="Of the dollars">60 %</td>' in page
            assert "Shares are of the dollars of the rule as it is saved." in page
        assert ("shown here" in untried, "shown here" in tried) == (False, True)
        assert "Shares are of the dollars of what is tried here." in narrowed

    def test_is_narrowed_by_the_matchers_in_the_form(self, admin, job_rule):
        only_bo = "label-0=user&values-0=bo, cem"
        but_bo = "label-0=user&is-0=not&values-0=bo"

        for asked, cost in ((only_bo, "$2.00"), (but_bo, "$1.33")):
            shown = text(admin.get(f"{watch(job_rule)}?days=30&{asked}"))
            assert "1 incident, 1 person," in shown
            assert cost in shown

    def test_looks_no_further_back_than_asked(self, admin, job_rule):
        HourRuns.objects.update(cut_ms=F("cut_ms") - 7 * 86_400_000)

        shown = text(admin.get(f"{watch(job_rule)}?days=1"))

        assert "In the last day: no incident" in shown
        assert "0 people" not in shown
        assert "No incident would have opened" in shown

    def test_marks_what_people_said_of_those_that_were(self, admin, job_rule):
        since_ms = to_ms(NOW) - 5 * HOUR_MS
        incident(
            "slurm/della/1",
            opened_at=NOW - timedelta(hours=4.5),
            resolved_at=NOW - timedelta(hours=4),
            verdict="rejected",
            since_ms=since_ms,
            until_ms=since_ms + HOUR_MS // 2,
        )

        shown = text(admin.get(f"{watch(job_rule)}?days=30"))

        assert "· 1 agreed as not waste, as people said" in shown

    def test_a_wrong_value_is_said_beside_its_field(self, admin, job_rule):
        for asked in ("minutes=soon", "minutes=0", "coverage=101", "label-0=colour&values-0=red"):
            answer = admin.get(f"{watch(job_rule)}?days=30&{asked}")
            assert answer.status_code == 422, asked
            assert 'role="alert"' in answer.content.decode()

    @pytest.mark.parametrize("field", ["minutes", "clear_minutes", "coverage"])
    @pytest.mark.parametrize(
        "absurd", ["1e308", "9" * 400, "nan", "inf", "-1", "0x10", "<b>", "1" * 30]
    )
    def test_an_absurd_number_is_refused_and_tries_nothing(self, admin, job_rule, field, absurd):
        answer = admin.get(watch(job_rule), {"days": "30", field: absurd})

        assert answer.status_code == 422
        assert "tried" not in answer.context
        assert '<b>"' not in answer.content.decode()

    def test_too_many_names_are_refused_and_a_hostile_one_is_only_text(self, admin, job_rule):
        narrowed = {"days": "30", "label-0": "user"}
        many = admin.get(watch(job_rule), narrowed | {"values-0": "a," * 3000})
        hostile = admin.get(watch(job_rule), narrowed | {"values-0": "<script>x</script>'; --"})

        assert many.status_code == 422
        assert "no incident" in text(hostile)
        assert "<script>x" not in hostile.content.decode()

    def test_a_form_carries_no_token_into_the_address(self, admin, job_rule):
        page = admin.get(watch(job_rule)).content.decode()
        form = page[page.index('id="watch"') : page.index('id="tell"')]

        assert '<input type="hidden" name="csrfmiddlewaretoken"' not in form


class TestBackTestOfWaste:
    """NLP's GPU is idle at $2 an hour: five hours ago for two hours, and since two hours ago."""

    @pytest.fixture
    def waste_rule(self, db) -> Rule:
        rule = Rule.objects.get(condition="waste_of_team")
        Rule.objects.filter(pk=rule.pk).update(threshold=2, minutes=60)
        factories.rate("2.00")
        gpu = factories.gpu(factories.node())
        job = factories.job()
        idle = {5: "idle", 4: "idle", 3: "useful", 2: "idle", 1: "idle"}
        Entry.objects.bulk_create(
            factories.entry(gpu, hours_ago=ago, state=state, held_by=job)
            for ago, state in idle.items()
        )
        return rule

    def test_what_goes_on_says_so_and_what_is_over_does_not(self, admin, waste_rule):
        """The last hour is not counted yet."""
        page = text(admin.get(f"{watch(waste_rule)}?days=7"))
        lasted = re.findall(r'data-label="For"> (.*?) </td>', page)

        assert lasted == ["1 h, goes on", "2 h"]

    def test_columns_that_would_tell_nothing_are_left_out(self, admin, waste_rule):
        bare = text(admin.get(f"{watch(waste_rule)}?days=7"))
        incident(
            "nlp",
            rule=waste_rule,
            opened_at=NOW - timedelta(hours=4),
            resolved_at=NOW - timedelta(hours=3),
            verdict="confirmed",
            since_ms=to_ms(NOW - timedelta(hours=5)),
            until_ms=to_ms(NOW - timedelta(hours=3)),
        )
        answered = text(admin.get(f"{watch(waste_rule)}?days=7"))

        assert ('"Owner"' in bare, '"People said"' in bare) == (False, False)
        assert ('"Owner"' in answered, '"People said"' in answered) == (False, True)

    def test_its_days_with_history_are_those_that_budgets_say(self, admin, waste_rule):
        """It began on the 6th at 06:00, 14 days and 6 hours ago."""
        begun = NOW - timedelta(days=14, hours=6)
        GPU.objects.update(first_ms=to_ms(begun))
        SpendDay.objects.create(
            kind="fleet",
            key="",
            start=begun.replace(hour=0),
            usd=1,
            wasted_usd=0,
            hours=[1.0] * 24,
            wasted_hours=[0.0] * 24,
        )

        rule_page = in_text(text(admin.get(f"{watch(waste_rule)}?days=30")))
        budgets_page = in_text(text(admin.get("/budgets")))

        assert "In the 14 days with history:" in rule_page
        assert "14 are there" in budgets_page


class TestForm:
    @pytest.mark.parametrize("condition", ["budget_spent", "budget_forecast"])
    def test_of_budgets_it_asks_nothing_of_telemetry_or_of_owners(self, admin, condition):
        of_budgets = Rule.objects.get(condition=condition)

        shown = text(admin.get(watch(of_budgets))).replace("&#x27;", "'")

        for words in ("Observed share", "Ignored at the start", "The owner, in person"):
            assert words not in shown
        assert "First the team's channels, or the operators', and its assignee." in shown
        assert '<input type="hidden" name="tells_owner" value="on">' in shown

    def test_of_gpus_it_asks_how_much_was_observed_and_whether_the_owner_is_told(self, admin, rule):
        shown = text(admin.get(watch(rule)))

        for words in ("Observed share", "Ignored at the start", "The owner, in person"):
            assert words in shown

    def test_of_teams_it_asks_nothing_of_the_start_of_a_job(self, admin):
        shown = text(admin.get(watch(Rule.objects.get(condition="waste_of_team"))))

        assert ("Ignored at the start" in shown, "Observed share" in shown) == (False, True)

    def test_what_it_watches_is_saved_whole(self, admin, rule):
        admin.post(
            f"{watch(rule)}/watch",
            {
                "threshold": "2",
                "clear": "1",
                "minutes": "45 min",
                "coverage": "80",
                "grace_minutes": "10",
                "clear_minutes": "5",
                "label-0": "team",
                "values-0": "nlp, vision",
                "label-1": "node",
                "is-1": "not",
                "values-1": "test-*",
            },
        )

        rule.refresh_from_db()
        assert (rule.threshold, rule.clear, rule.minutes) == (2, 1, 45)
        assert (rule.min_coverage, rule.grace_minutes, rule.clear_minutes) == (0.8, 10, 5)
        assert matchers.stored(rule.matchers) == [
            Matcher("team", ("nlp", "vision")),
            Matcher("node", ("test-*",), is_not=True),
        ]

    def test_without_a_clear_value_it_is_over_below_the_threshold(self, admin, rule):
        Rule.objects.filter(pk=rule.pk).update(clear=1)

        admin.post(f"{watch(rule)}/watch", {"threshold": "2", "clear": "", "minutes": "45"})

        rule.refresh_from_db()
        assert rule.clear is None

    def test_whom_it_tells_is_saved_whole(self, admin, rule):
        channel = Channel.objects.create(kind="slack", name="ml", config=b"", created_at=NOW)
        Channel.objects.create(kind="slack", name="ops", config=b"", created_at=NOW)

        admin.post(
            f"{watch(rule)}/tell",
            {
                "name": "Idle GPUs",
                "severity": "critical",
                "remind_minutes": "0",
                "escalate_minutes": "1 h",
                f"channel-{channel.pk}": "on",
                "day-0": "on",
                "day-4": "on",
                "starts": "08:00",
                "ends": "18:00",
            },
        )

        rule.refresh_from_db()
        assert (rule.name, rule.severity, rule.tells_owner) == ("Idle GPUs", "critical", False)
        assert (rule.remind_minutes, rule.escalate_minutes) == (0, 60)
        assert [each.name for each in rule.channels.all()] == ["ml"]
        assert msgspec.convert(rule.schedule, Hours).days == (0, 4)
        assert rule.schedule["zone"] == "UTC"

    def test_hours_with_one_end_alone_are_refused(self, admin, rule):
        sent = {"name": "x", "severity": "info", "remind_minutes": "0", "escalate_minutes": "0"}

        answer = admin.post(f"{watch(rule)}/tell", sent | {"starts": "08:00"})

        assert answer.status_code == 422
        assert "one of the two is missing" in answer.content.decode().lower()

    def test_two_rules_have_two_names(self, admin, rule, job_rule):
        sent = {"severity": "info", "remind_minutes": "0", "escalate_minutes": "0"}

        answer = admin.post(f"{watch(rule)}/tell", sent | {"name": job_rule.name})

        rule.refresh_from_db()
        assert answer.status_code == 422
        assert rule.severity == "warning"


class TestCopy:
    def test_a_new_one_begins_as_a_copy_of_the_chosen_one_on_its_own_page(self, admin, rule):
        assert 'action="/alerts/rules/new"' in text(admin.get("/alerts/rules"))

        answer = admin.post("/alerts/rules/new", {"id": rule.pk})

        copied = Rule.objects.latest("pk")
        assert answer["Location"] == f"/alerts/rules/{copied.pk}"
        assert (copied.condition, copied.is_enabled) == ("gpu_idle", False)

    def test_a_copy_is_set_the_same_and_off(self, admin, rule):
        Rule.objects.filter(pk=rule.pk).update(minutes=77, evaluated_ms=1)

        admin.post(f"{watch(rule)}/copy")
        admin.post(f"{watch(rule)}/copy")

        first, second = Rule.objects.filter(is_shipped=False).order_by("pk")
        assert (first.name, second.name) == (f"{rule.name} (2)", f"{rule.name} (3)")
        assert (first.minutes, first.is_enabled, first.evaluated_ms) == (77, False, None)

    def test_a_copy_that_is_off_is_removed_and_what_it_opened_stays(self, admin, rule):
        admin.post(f"{watch(rule)}/copy")
        copy = Rule.objects.get(is_shipped=False)
        past = incident(rule=copy, resolved_at=NOW)

        answer = admin.post(f"{watch(copy)}/remove")

        assert answer["Location"] == "/alerts/rules"
        assert not Rule.objects.filter(pk=copy.pk).exists()
        assert admin.get(watch(copy)).status_code == 404
        assert AuditEntry.objects.get(action="rule.remove").detail["incidents"] == 1
        shown = admin.get(f"/incidents/{past.pk}").content.decode()
        assert f"{copy.name}, which was removed" in " ".join(shown.split())
        assert watch(copy) not in shown

    def test_the_name_of_a_removed_rule_is_free_again(self, admin, rule):
        for _ in range(2):
            admin.post(f"{watch(rule)}/copy")
            copy = Rule.objects.get(is_shipped=False)
            assert copy.name == f"{rule.name} (2)"
            admin.post(f"{watch(copy)}/remove")

        assert not Rule.objects.filter(is_shipped=False).exists()

    def test_one_that_ships_is_on_or_still_has_something_open_stays(self, admin, rule):
        admin.post(f"{watch(rule)}/copy")
        copy = Rule.objects.get(is_shipped=False)
        open_one = incident(rule=copy)

        refused = [admin.post(f"{watch(each)}/remove").status_code for each in (rule, copy)]
        open_one.delete()
        admin.post(f"{watch(copy)}/switch_on")
        refused.append(admin.post(f"{watch(copy)}/remove").status_code)

        assert refused == [422, 422, 422]
        assert Rule.objects.filter(pk=copy.pk).exists()


class TestBackTestOfBudgets:
    def test_it_names_the_budget_and_by_how_much_it_is_passed_and_tells_no_cost(self, admin):
        rule = Rule.objects.get(condition="budget_spent")
        month = NOW.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        team = Team.objects.create(slug="nlp", name="NLP")
        Budget.objects.create(
            team=team,
            month=month.date(),
            repeats=True,
            amount=100,
            created_at=month,
            created_by="ann",
        )
        SpendDay.objects.create(
            kind="team",
            key="nlp",
            start=month,
            usd=240,
            wasted_usd=0,
            hours=[10.0] * 24,
            wasted_hours=[0.0] * 24,
        )

        shown = text(admin.get(f"{watch(rule)}?days=30"))

        tested = shown.partition('id="back-test"')[2]
        assert "Most affected: NLP <b>1</b>" in tested
        assert "$140</span> <div" in tested
        assert "over the budget" in tested
        assert "Over or left" in tested
        assert ">Cost<" not in tested
        assert "nobody known" not in tested
        assert "while open" not in tested
        assert "without a rate" not in tested


def test_the_address_of_a_new_rule_leads_to_its_open_menu(admin, rule):
    answer = admin.get("/alerts/rules/new")

    assert (answer.status_code, answer["Location"]) == (302, "/alerts/rules?new=1#new")
    assert '<details class="add card" id="new" open>' in admin.get("/alerts/rules?new=1").text
    assert '<details class="add card" id="new" >' in admin.get("/alerts/rules").text


@pytest.mark.usefixtures("_idle_jobs")
class TestLongBackTest:
    """One that takes longer than somebody waits."""

    @pytest.fixture(autouse=True)
    def _no_time(self, monkeypatch):
        monkeypatch.setattr("fleetwatch.dashboard.forms.one_change.AT_ONCE_MS", 0)

    @pytest.fixture
    def start(self, job_rule) -> str:
        return f"/alerts/back-tests/rule/{job_rule.pk}/start?days=7"

    def test_is_offered_to_a_worker_and_nothing_is_written_by_looking(self, admin, job_rule, start):
        shown = text(admin.get(f"{watch(job_rule)}?days=7"))

        assert "It takes longer than a page waits" in shown
        assert f'action="{start}"' in shown
        assert 'hx-trigger="load"' in shown
        assert not BackTestRun.objects.exists()

    def test_goes_on_with_a_bar_and_stop_and_ends_at_the_same_address(self, admin, job_rule, start):
        address = f"{watch(job_rule)}?days=7"
        assert admin.post(start)["Location"] == f"{address}#back-test"
        run = BackTestRun.objects.get()
        assert "a worker begins within seconds" in text(admin.get(address))
        BackTestRun.objects.update(worked_until=NOW, steps_done=1)

        shown = text(admin.get(address))

        assert '1 of 3 steps <progress max="3" value="1">' in shown
        assert f'action="/alerts/back-tests/{run.pk}/stop"' in shown

        back_test_runs.advance("rule", tried_rules.try_out, NOW)
        done = text(admin.get(address))
        assert "Tried in the background" in done
        assert "2 incidents" in done

    def test_is_stopped_and_started_again(self, admin, job_rule, start):
        admin.post(start)
        run = BackTestRun.objects.get()

        answer = admin.post(f"/alerts/back-tests/{run.pk}/stop")

        shown = text(admin.get(answer["Location"].partition("#")[0]))
        assert "Stopped" in shown
        assert 'hx-trigger="load"' not in shown
        assert "Start again" in shown
        admin.post(start)
        assert [each.state for each in BackTestRun.objects.order_by("pk")] == ["stopped", "running"]

    def test_of_other_terms_is_another_one(self, admin, job_rule, start):
        admin.post(start)

        shown = text(admin.get(f"{watch(job_rule)}?days=7&minutes=45"))

        assert "It takes longer than a page waits" in shown

    def test_is_stopped_by_whom_asked_for_it_or_an_operator(self, client, job_rule, start):
        users = {name: factories.user(role="engineer", username=name) for name in ("ann", "bob")}
        client.force_login(users["ann"])
        client.post(start)
        stop = f"/alerts/back-tests/{BackTestRun.objects.get().pk}/stop"
        client.force_login(users["bob"])

        assert f'action="{stop}"' not in text(client.get(f"{watch(job_rule)}?days=7"))
        assert client.post(stop).status_code == 403
        assert BackTestRun.objects.get().state == "running"

        client.force_login(users["ann"])
        assert f'action="{stop}"' in text(client.get(f"{watch(job_rule)}?days=7"))
        assert client.post(stop).status_code == 302

    def test_is_refused_on_a_whole_page_also_where_a_part_of_one_asked(
        self, admin, job_rule, start, monkeypatch
    ):
        monkeypatch.setattr(back_test_runs, "MAX_OF_ONE", 0)

        answer = admin.post(start, headers={"HX-Request": "true"})

        assert answer["HX-Redirect"] == f"/alerts/rules/{job_rule.pk}"
        assert "of your back-tests are running" in text(admin.get(answer["HX-Redirect"]))

    def test_of_what_no_history_is_kept_of_is_refused_and_fails_no_worker(self, admin):
        rule = Rule.objects.get(condition="agent_old")

        answer = admin.post(f"/alerts/back-tests/rule/{rule.pk}/start?days=7", follow=True)

        assert condition_named("agent_old").no_history in text(answer)
        assert not BackTestRun.objects.exists()


def test_a_rules_page_has_its_open_and_past_incidents_those_first_that_go_on(admin, job_rule):
    over = incident("slurm/della/1", resolved_at=NOW)
    incident("slurm/della/2", state="pending", fired_ms=None)
    goes_on = incident("slurm/della/3", opened_at=NOW - timedelta(hours=2))

    page = text(admin.get(watch(job_rule)))

    listed = page.partition('id="incidents"')[2]
    assert f"?rule={job_rule.pk}&amp;state=firing" in listed
    assert f"?rule={job_rule.pk}&amp;state=resolved" in listed
    assert listed.index(f"/incidents/{goes_on.pk}") < listed.index(f"/incidents/{over.pk}")
    newest, _, pending = listed.partition('id="pending"')
    assert "slurm/della/2" not in newest
    assert "slurm/della/2" in pending.lower()


def test_a_rules_page_counts_each_incident_once(admin, job_rule):
    accepted = "accepted until 2026-12-06 03:38 UTC: a workshop"
    incident("slurm/della/1")
    incident("slurm/della/2", muted=accepted)
    incident("slurm/della/3", resolved_at=NOW, muted=accepted)
    incident("slurm/della/4", resolved_at=NOW)

    page = in_text(text(admin.get(watch(job_rule))))

    assert "1 firing 1 agreed as not waste 2 resolved (1 of them agreed as not waste)" in page


def test_what_is_beyond_its_limit_for_too_short_says_when_it_opens(admin, job_rule):
    incident("slurm/della/2", state="pending", fired_ms=None, since_ms=to_ms(NOW) - 120_000)

    page = in_text(text(admin.get(watch(job_rule))))

    assert "Beyond its limit, not for 30 min yet:" in page
    assert "since Fri 20 Nov, 11:58, opens Fri 20 Nov, 12:28 if it lasts" in page
    assert "No incident yet" not in page


def test_a_rule_without_incidents_says_for_how_long_nothing_was_beyond_its_limit(admin, job_rule):
    page = in_text(text(admin.get(watch(job_rule))))

    assert "Nothing was beyond its limit for 30 min since it began to watch." in page


def test_the_rule_of_spent_budgets_says_when_it_is_critical(admin):
    spent = Rule.objects.get(condition="budget_spent")

    for page in (watch(spent), "/alerts/rules"):
        assert "critical once more than the whole budget is spent" in text(admin.get(page))
