"""Rules on their pages: what each does, tried on history before it is saved, copied, removed."""

from datetime import timedelta

import msgspec
import pytest

from fleetwatch.accounts.models import AuditEntry
from fleetwatch.alerts import matchers
from fleetwatch.alerts.conditions import condition as condition_named
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.models import Rule
from fleetwatch.alerts.weekly_hours import Hours
from fleetwatch.lib.intervals import to_ms
from fleetwatch.notify.models import Channel
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import incident
from tests.dashboard.shown_rules import text, watch
from tests.markup import in_text


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

        assert ": 2 incidents, 1 already running" in " ".join(shown.split())

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


@pytest.mark.parametrize(
    ("condition", "example"),
    [("clock_off", ("node", "a100-*")), ("job_idle", ("team", "nlp, vision"))],
)
def test_what_a_rule_may_be_narrowed_to_is_shown_by_what_it_watches(admin, condition, example):
    rule = Rule.objects.get(condition=condition)

    page = admin.get(f"/alerts/rules/{rule.pk}").content.decode()

    assert all(f'placeholder="e.g. {text}"' in page for text in example)


def test_the_address_of_a_new_rule_leads_to_its_open_menu(admin, rule):
    answer = admin.get("/alerts/rules/new")

    assert (answer.status_code, answer["Location"]) == (302, "/alerts/rules?new=1#new")
    assert '<details class="add" id="new" open>' in admin.get("/alerts/rules?new=1").text
    assert '<details class="add" id="new" >' in admin.get("/alerts/rules").text


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
