"""Rules tried on history, on their pages: what they would have opened, at once or after a while."""

import re
from datetime import timedelta

import pytest
from django.db.models import F

from fleetwatch.accounts.models import Team
from fleetwatch.alerts import back_test_runs, tried_rules
from fleetwatch.alerts.conditions import condition as condition_named
from fleetwatch.alerts.models import BackTestRun, Rule
from fleetwatch.budgets.models import Budget, SpendDay
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.models import Entry, HourRuns
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import incident
from tests.dashboard.shown_rules import idle_jobs, text, watch
from tests.markup import in_text


@pytest.fixture
def _idle_jobs(db):
    idle_jobs()


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
