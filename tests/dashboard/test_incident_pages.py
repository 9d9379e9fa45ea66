"""What is wrong, whose it is and what it costs: the inbox of incidents."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from fleetwatch.accounts.models import Team
from fleetwatch.alerts.models import (
    Incident,
    Rule,
)
from fleetwatch.alerts.selectors import view_of
from fleetwatch.dashboard.fleet_health import needs_somebody
from fleetwatch.diagnosis.cause_totals import WASTE
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import HOSTILE, admin_user, incident, keys, slowed, text
from tests.markup import in_text, tight


def counted(key: str, *, judged: float, **fields) -> Incident:
    """Of an hour at $2 the first 54 minutes are written; how many minutes ago it is `judged`."""
    counted_ms = to_ms(NOW - timedelta(minutes=6))
    facts = {"until_ms": counted_ms, "counted_until_ms": counted_ms, "cost_usd": Decimal("1.8")}
    usual = {"until_ms": to_ms(NOW - timedelta(minutes=judged))}
    return incident(key, facts=facts | fields.pop("facts", {}), **(usual | fields))


def test_figures_are_of_what_is_judged_and_of_no_newer_minute_wherever_they_are_told(admin):
    """$2 an hour: judged until three minutes ago it is 57 minutes and $1.90, and none of them is
    of the minutes since, which may turn out to be work.
    """
    fires = counted("slurm/della/7", judged=3)

    page = admin.get(reverse("incident", args=[fires.pk]))
    inbox = admin.get("/alerts").context

    [row] = inbox["rows"]
    assert page.context["lasted_ms"] == row.first.lasted_ms == 57 * 60_000
    assert page.context["breach"].cost_usd == row.cost_usd == inbox["sums"].cost_usd
    assert row.cost_usd == Decimal("1.9")
    shown = in_text(tight(page.content.decode()))
    assert "Idle for 57 min since Fri 20 Nov, 11:00, judged until Fri 20 Nov, 11:57" in shown
    assert "its idle GPUs, Fri 20 Nov, 11:00 to 11:57" in shown
    assert "$2.00 /h as of Fri 20 Nov, 11:57;" in shown


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        ("acknowledged", {"state": "acknowledged"}),
        ("agreed as no waste", {"muted": "accepted until 2026-12-06 09:49 UTC: a workshop"}),
        ("stopped", {"note": "It stopped being idle at 11:57 UTC"}),
        ("without data", {"note": "Not known since 11:57 UTC whether it goes on."}),
        ("resolved", {"state": "resolved", "ended_ms": to_ms(NOW), "resolved_at": NOW}),
    ],
)
def test_no_state_of_an_incident_changes_what_is_counted_of_it(admin, state, fields):
    one = counted("slurm/della/7", judged=3, **fields)

    page = admin.get(reverse("incident", args=[one.pk]))

    assert (page.context["lasted_ms"], page.context["breach"].cost_usd) == (
        57 * 60_000,
        Decimal("1.9"),
    ), state
    assert "Idle for 57 min" in in_text(tight(page.content.decode())), state


def test_dollars_that_are_not_the_same_each_hour_stay_until_they_are_counted_anew(admin):
    """Of some GPUs of a job one may work by then; its length and its dollars are of one time."""
    some = counted("slurm/della/7", judged=3, facts={"counted_until_ms": None})

    view = view_of(some)

    assert (view.lasted_ms, view.breach.cost_usd) == (54 * 60_000, Decimal("1.8"))


@pytest.mark.parametrize(
    ("judged", "minutes", "usd"),
    [
        (7, 54, "1.8"),  # judged anew until an earlier moment: what is written is not taken back
        (6, 54, "1.8"),
        (5, 55, "1.833333"),
        (0, 60, "2"),
    ],
)
def test_each_minute_that_is_judged_adds_to_a_figure_and_none_takes_from_it(
    admin, judged, minutes, usd
):
    view = view_of(counted("slurm/della/7", judged=judged))

    assert (view.lasted_ms, view.breach.cost_usd) == (minutes * 60_000, Decimal(usd))


def test_what_stopped_says_from_when_to_when_it_was_so(admin):
    one = counted("slurm/della/7", judged=3, note="It stopped being idle at 11:57 UTC")

    page = in_text(text(admin, f"/incidents/{one.pk}"))
    row = in_text(text(admin, "/alerts"))

    assert "Idle for 57 min Fri 20 Nov, 11:00 to 11:57" in page
    assert "idle for 57 min, Fri 20 Nov, 11:00 to 11:57" in row
    assert "judged until" not in page + row


def test_a_page_says_what_is_wrong_while_it_goes_on_and_what_was_once_it_is_over(admin):
    words = {"what": "GPU 3 worked with errors", "does": "GPU 3 works with errors"}
    running = incident(facts=words)
    over = incident("slurm/della/8", facts=words, resolved_at=NOW, ended_ms=to_ms(NOW))

    assert "<h2>GPU 3 works with errors</h2>" in text(admin, f"/incidents/{running.pk}")
    assert "<h2>GPU 3 worked with errors</h2>" in text(admin, f"/incidents/{over.pk}")
    assert "GPU 3 works with errors" in text(admin, "/alerts")
    assert "GPU 3 worked with errors" in text(admin, "/alerts?state=resolved")


def test_each_command_of_the_first_steps_is_to_be_copied(admin):
    drain, reset = "kubectl cordon -- h100-01", "nvidia-smi --gpu-reset -i 3"
    facts = {
        "kind": "gpu",
        "actions": (f"Fix: drain it: {drain}", f"Fix: reset it: {reset}", "Have it replaced."),
        "codes": (drain, reset),
        "command": "",
    }

    page = text(admin, f"/incidents/{incident(facts=facts).pk}")

    for place, code in enumerate((drain, reset)):
        assert f'<code id="step-{place}">{code}</code>' in page


def _asked_with(client, gpu, numbers: range) -> int:
    """How many statements the inbox asks once there are such jobs too, each with a finding."""
    amounts = dict.fromkeys((f"{name}_ms" for name in WASTE), 0) | {"held_ms": HOUR_MS}
    told = {"cause": "partial_idle", "confidence": 3, "cells": 4095, "low_ms": 0, "high_ms": 0}
    for number in numbers:
        job = factories.job(f"slurm/della/{number}")
        start = NOW - timedelta(hours=1)
        CauseEntry.objects.create(node=gpu.node, gpu=gpu, job=job, start=start, **told, **amounts)
        Finding.objects.create(job=job, cause="partial_idle", first_ms=0, last_ms=to_ms(NOW))
        partly = {"command": "", "actions": ("Fix: let the job run, its other GPU is busy.",)}
        incident(job.key, facts=partly)
    with CaptureQueriesContext(connection) as asked:
        shown = text(client, "/alerts")
    assert shown.count("Next: ") == numbers.stop
    return len(asked)


class TestInbox:
    def test_says_what_fires_whose_it_is_and_what_it_costs(self, admin):
        incident()

        shown = text(admin, "/alerts")

        assert "idle · node-001 GPU 0" in shown
        assert "ann (nlp)" in shown
        assert "$2.00" in shown

    def test_a_row_says_what_to_do_next_and_what_to_type(self, admin):
        incident()

        shown = tight(text(admin, "/alerts"))

        assert "Next: End the job, or give the GPUs back." in shown
        assert "scancel slurm/della/7</code>" in shown

    def test_a_row_says_first_what_its_page_says_by_the_numbers_of_the_finding(self, admin):
        job = factories.job("slurm/della/7")
        gpu = factories.gpu(factories.node())
        since = {"start": NOW - timedelta(hours=1)}
        amounts = dict.fromkeys((f"{name}_ms" for name in WASTE), 0) | {"held_ms": HOUR_MS}
        told = {"cause": "partial_idle", "confidence": 3, "cells": 4095, "low_ms": 0, "high_ms": 0}
        CauseEntry.objects.create(node=gpu.node, gpu=gpu, job=job, **since, **told, **amounts)
        Finding.objects.create(job=job, cause="partial_idle", first_ms=0, last_ms=to_ms(NOW))
        partly = {"command": "", "actions": ("Fix: let the job run, its other GPU is busy.",)}
        one = incident(job.key, facts=partly)

        row = tight(text(admin, "/alerts"))
        page = tight(text(admin, f"/incidents/{one.pk}"))

        assert "Let the job run" not in row
        first = row.partition("Next: ")[2].partition("<")[0].rstrip(". ")
        assert first
        assert first in page.partition("What to do first")[2]

    def test_rows_without_a_command_ask_a_constant_number_of_queries(self, admin):
        gpu = factories.gpu(factories.node())
        _asked_with(admin, gpu, range(0))  # what is read once for all pages
        counts = [_asked_with(admin, gpu, range(*span)) for span in ((0, 2), (2, 6))]

        assert counts[0] == counts[1]

    def test_what_is_accepted_is_counted_apart_and_is_in_no_sum(self, admin):
        incident()
        incident("slurm/della/8", muted="accepted until 2026-12-06 09:49 UTC: a workshop")

        firing = in_text(text(admin, "/alerts"))
        accepted = in_text(text(admin, "/alerts?state=accepted"))

        assert "Firing 1 Acknowledged 0 Snoozed 0 Agreed as not waste 1" in firing
        assert (
            "So far $2.00 since each began, as far as it is judged; none snoozed or agreed as not waste"
            in firing
        )
        assert "1 more agreed as not waste" in firing
        assert "slurm/della/8" not in firing
        assert "Agreed as not waste (until 2026-12-06 09:49 UTC): a workshop" in accepted

    def test_what_is_snoozed_is_no_dollars_so_far_as_it_is_none_an_hour(self, admin):
        incident()
        incident("slurm/della/8", snoozed_until=NOW + timedelta(days=400))

        firing = in_text(text(admin, "/alerts"))

        assert "So far $2.00 since each began, as far as it is judged; none snoozed" in firing
        assert "Open 2" in firing

    def test_a_row_that_stopped_offers_nothing_to_type(self, admin):
        incident(note="It stopped at 09:40 UTC; it is over if that lasts.")

        shown = tight(text(admin, "/alerts"))

        assert "It stopped at 09:40 UTC" in shown
        assert "Next: nothing; wait until one of these moments. Do not end the job" in shown
        assert "stopped, not over yet" in shown
        assert "scancel slurm/della/7</code>" not in shown

    def test_the_page_of_one_that_stopped_opens_with_how_it_goes_on_and_ends_no_job(self, admin):
        note = "It stopped at 09:40 UTC; it resolves at 09:55 UTC if that lasts."
        one = incident(note=note)

        shown = tight(text(admin, f"/incidents/{one.pk}"))

        assert shown.count(note) == 1
        assert shown.index(note) < shown.index('<dl class="kpis')
        assert "What to do meanwhile: nothing; wait" in shown
        assert "scancel slurm/della/7</code>" not in shown

    def test_what_stopped_before_it_was_raised_says_that_nobody_was_notified_for_that(self, admin):
        stopped = {"note": "It stopped at 11:20 UTC; it resolves if that lasts."}
        before = to_ms(NOW - timedelta(minutes=40))
        early = incident(until_ms=before, **stopped)
        later = incident("slurm/della/8", until_ms=to_ms(NOW), **stopped)

        assert "before it was raised" in tight(text(admin, f"/incidents/{early.pk}"))
        assert "No channel was set up" in tight(text(admin, f"/incidents/{later.pk}"))

    def test_two_incidents_of_one_gpu_are_no_two_gpus(self, admin):
        for minutes in (1, 2):
            slowed(3, minutes=minutes)
            Incident.objects.update(ended_ms=to_ms(NOW))

        assert "2 GPUs" not in text(admin, "/alerts")

    def test_each_state_has_its_tab(self, admin):
        incident("slurm/della/1")
        incident("slurm/della/2", state="acknowledged")
        incident("slurm/della/3", snoozed_until=NOW + timedelta(hours=4))
        incident("slurm/della/4", state="pending", fired_ms=None)
        incident("slurm/della/5", resolved_at=NOW)
        incident("slurm/della/6", snoozed_until=NOW - timedelta(seconds=1))

        tabs = {
            state: keys(admin, f"/alerts?state={state}")
            for state in ("firing", "acknowledged", "snoozed", "pending", "resolved")
        }

        assert tabs == {
            "firing": ["6", "1"],
            "acknowledged": ["2"],
            "snoozed": ["3"],
            "pending": ["4"],
            "resolved": ["5"],
        }

    def test_every_open_state_says_how_many_it_has_none_among_them(self, admin):
        incident("slurm/della/1")

        shown = tight(text(admin, "/alerts"))

        for tab in ("Firing 1", "Acknowledged 0", "Snoozed 0", "Pending 0", "Resolved 0"):
            assert f">{tab}</a>" in shown

    def test_a_row_ends_where_its_page_does(self, admin):
        """The allocation ended at 12:00, and what was judged ends at 11:56."""
        judged_ms = to_ms(NOW - timedelta(minutes=4))
        over = incident(
            facts={"until_ms": judged_ms},
            until_ms=judged_ms,
            state="resolved",
            ended_ms=to_ms(NOW),
            resolved_at=NOW,
        )

        [row] = tight(text(admin, "/alerts?state=resolved")).split("<li data-row>")[1:]
        page = admin.get(reverse("incident", args=[over.pk])).context

        assert page["breach"].until_ms == judged_ms
        assert "11:56" in row
        assert "12:00" not in row

    def test_every_row_names_its_rule_also_where_its_title_says_the_same(self, admin):
        budget = {"kind": "budget", "word": "spent", "title": "budget spent 80 % · nlp"}
        rule = Rule.objects.get(condition="budget_spent")
        incident("teams/nlp", rule=rule, facts=budget | {"owner": "", "labels": {}})

        assert "· raised" in tight(text(admin, "/alerts"))

    def test_the_newest_or_the_dearest_come_first(self, admin):
        incident("slurm/della/1", facts={"cost_usd": Decimal(9)})
        incident("slurm/della/2", facts={"cost_usd": None})
        incident("slurm/della/3", facts={"cost_usd": Decimal("10.5")})

        assert keys(admin, "/alerts?sort=newest") == ["3", "2", "1"]
        assert keys(admin, "/alerts?sort=dearest") == ["3", "1", "2"]
        # its tabs wrap on a phone: a cut one is not seen
        assert "inline-chips wraps" in text(admin, "/alerts")

    def test_the_budget_of_all_is_everybodys(self, admin):
        facts = {"kind": "budget", "subject": "fleet", "owner": "", "labels": {}}
        budget = incident("fleet", facts=facts)

        shown = tight(text(admin, f"/incidents/{budget.pk}"))

        assert "<dd>Everybody</dd>" in shown
        assert "<dt>Owner</dt>" not in shown

    def test_what_burns_now_comes_before_what_cost_more(self, admin):
        hour = {"usd_per_hour": Decimal(2), "cost_usd": Decimal(1)}
        incident("slurm/della/1", facts={"usd_per_hour": None, "cost_usd": Decimal(900)})
        incident("slurm/della/2", facts=hour)
        incident("slurm/della/3", facts=hour | {"usd_per_hour": Decimal(3)})
        incident("slurm/della/4", facts=hour, note="Not known since 10:00 UTC whether it goes on.")

        assert keys(admin, "/alerts") == ["3", "2", "1", "4"]

    def test_a_budget_that_is_passed_is_worth_what_is_beyond_it(self, admin):
        over = {"spent_usd": "1100.00", "budget_usd": "1000.00"}
        within = {"spent_usd": "840.00", "budget_usd": "1000.00"}
        incident("slurm/della/1", facts={"cost_usd": Decimal(9)})
        incident("slurm/della/2", facts={"cost_usd": None, "facts": over})
        incident("slurm/della/3", facts={"cost_usd": None, "facts": within})

        shown = text(admin, "/alerts")

        assert keys(admin, "/alerts?sort=dearest") == ["2", "1", "3"]
        assert tight(shown).count(">critical</span>") == 1
        assert keys(admin, "/alerts")[0] == "2"  # what is critical comes first
        assert keys(admin, "/alerts?severity=critical") == ["2"]
        assert keys(admin, "/alerts?severity=warning") == ["3", "1"]
        assert tight(shown).count('$100</span></b><span class="sub">over the budget') == 1

    def test_a_budget_that_is_passed_says_as_of_when(self, admin):
        over = {
            "spent_usd": "1100.00",
            "budget_usd": "1000.00",
            "spent_until_ms": to_ms(NOW - timedelta(hours=1)),
        }
        incident(facts={"kind": "budget", "cost_usd": None, "has_cost": False, "facts": over})

        assert "over the budget, as of Fri 20 Nov, 11:00" in in_text(tight(text(admin, "/alerts")))

    def test_of_what_is_over_nothing_burns_and_nothing_is_to_be_ticked(self, admin):
        incident("slurm/della/1", facts={"cost_usd": Decimal(9)}, resolved_at=NOW)
        incident("slurm/della/2", facts={"cost_usd": Decimal(10)}, resolved_at=NOW)

        page = text(admin, "/alerts?state=resolved&sort=dearest")
        options = page.split('name="sort"')[1].split("</select>")[0]

        assert keys(admin, "/alerts?state=resolved") == ["2", "1"]
        assert "burning" not in tight(options).replace('value="burning"', "")
        assert "Sort: dollars" in options
        assert 'class="tick"' not in page
        assert "incidents bare" in page
        assert 'class="tick"' not in text(admin, "/alerts")

    def test_a_list_says_how_many_incidents_its_rows_are(self, admin):
        for number in range(3):
            slowed(number, minutes=0)
        incident()

        shown = tight(text(admin, "/alerts"))

        assert ">Firing 4</a>" in shown
        assert "4 incidents in 2 rows: GPUs of a node that fired at once are one." in shown

    def test_a_budget_says_what_is_left_of_it(self, admin):
        within = {
            "spent_usd": "840.00",
            "budget_usd": "1000.00",
            "spent_until_ms": to_ms(NOW - timedelta(hours=1)),
        }
        incident(facts={"kind": "budget", "cost_usd": None, "has_cost": False, "facts": within})

        row = tight(text(admin, "/alerts"))

        assert ", as of Fri 20 Nov, 11:00" in row

        assert '$160</span></b><span class="sub">left of' in row
        assert "no GPU time is lost by it" not in row

    def test_what_is_only_expected_over_a_budget_is_not_over_it(self, admin):
        expected = {"expected_usd": "1100.00", "budget_usd": "1000.00"}
        incident(facts={"kind": "budget", "cost_usd": None, "has_cost": False, "facts": expected})

        row = tight(text(admin, "/alerts"))

        assert '$100</span></b><span class="sub">expected over the budget' in row
        assert "over budget</span>" not in row

    def test_the_newest_are_those_that_fired_last_whenever_they_were_noticed(self, admin):
        for key, minutes, hourly in (("1", 5, "1.5"), ("2", 65, "7"), ("3", 30, None)):
            usd = None if hourly is None else Decimal(hourly)
            fired_ms = to_ms(NOW - timedelta(minutes=minutes))
            incident(f"slurm/della/{key}", fired_ms=fired_ms, facts={"usd_per_hour": usd})

        assert keys(admin, "/alerts?sort=newest") == ["1", "3", "2"]
        assert keys(admin, "/alerts?sort=hourly") == ["2", "1", "3"]

    def test_by_the_hour_a_row_of_several_stands_by_their_sum(self, admin):
        """Two GPUs of $4 an hour burn more than one job of $5.58."""
        for number in range(2):
            slowed(number, minutes=0, usd_per_hour=Decimal(4))
        incident(facts={"usd_per_hour": Decimal("5.58")})

        titles = [row.title for row in admin.get("/alerts?sort=hourly").context["rows"]]
        first = needs_somebody(NOW)["incidents"][0]

        assert titles[0] == first.title == "h100-01: 2 GPUs slowed"

    def test_gpus_of_a_node_that_fired_at_once_are_one_row(self, admin):
        at_once = [slowed(number, minutes=15 - number * 5) for number in range(4)]
        slowed(4, minutes=-60)
        slowed(5, node="h100-02", minutes=0)

        alerts = admin.get("/alerts?sort=newest")

        assert [row.title for row in alerts.context["rows"]] == [
            "h100-01: 4 GPUs slowed",
            "slowed by heat or power · h100-02 GPU 5",
            "slowed by heat or power · h100-01 GPU 4",
        ]
        shown = alerts.content.decode()
        ids = ",".join(str(each.pk) for each in at_once)
        assert f'value="{ids}"' in shown
        assert "was slowed by heat" not in shown  # the title says so

        admin.post("/alerts/act", {"action": "ack", "id": [ids]})
        assert Incident.objects.filter(state="acknowledged").count() == 4

    def test_is_narrowed_by_team_person_rule_severity_and_to_the_own(self, admin):
        me = admin_user()
        nlp = Team.objects.create(slug="nlp", name="NLP")
        other = Rule.objects.get(condition="gpu_idle")
        Rule.objects.filter(pk=other.pk).update(severity="critical")
        incident("slurm/della/1", team=nlp)
        incident("slurm/della/2", person=me, facts={"labels": {"user": ("eve",)}})
        incident("slurm/della/3", rule=other)
        incident("slurm/della/4", assignee=me)

        assert keys(admin, "/alerts?team=nlp") == ["1"]
        assert keys(admin, "/alerts?user=eve") == ["2"]
        assert keys(admin, f"/alerts?rule={other.pk}") == ["3"]
        assert keys(admin, "/alerts?severity=critical") == ["3"]
        assert keys(admin, "/alerts?mine=1") == ["4", "2"]

    def test_offers_the_owners_of_what_is_listed_with_an_account_or_without(self, admin):
        incident("slurm/della/1", person=admin_user())
        incident("slurm/della/2", facts={"labels": {"user": (HOSTILE,)}})
        incident("slurm/della/3", facts={"labels": {"user": ("eve",)}}, resolved_at=NOW)
        slowed(4, minutes=0)

        assert admin.get("/alerts").context["people"] == [HOSTILE, "ann"]
        assert admin.get("/alerts?state=resolved").context["people"] == ["eve"]
        assert HOSTILE not in text(admin, f"/alerts?user={HOSTILE}")

    def test_what_nobody_owns_is_not_narrowed_by_owner(self, admin):
        slowed(4, minutes=0)

        assert "Any owner" not in text(admin, "/alerts")

    def test_a_page_ends_where_the_next_one_begins(self, admin):
        for number in range(60):
            incident(f"slurm/della/{number}", facts={"cost_usd": Decimal(number % 7)})

        for order in ("newest", "dearest", "burning"):
            every, after = [], ""
            for _ in range(3):
                answer = admin.get(f"/alerts?sort={order}&after={after}")
                every += [line.incident.pk for line in answer.context["lines"]]
                after = answer.context["pager"].after
            assert after == ""
            assert len(every) == len(set(every)) == 60

    def test_says_what_burns_now_and_leaves_out_what_has_no_data(self, admin):
        incident("slurm/della/1")
        incident("slurm/della/2", note="Not known since 10:00 UTC whether it goes on.")
        incident("slurm/della/3", facts={"cost_usd": None, "usd_per_hour": None})

        sums = admin.get("/alerts").context["sums"]

        assert (sums.count, sums.unpriced) == (3, 1)
        assert (sums.usd_per_hour, sums.cost_usd) == (Decimal(2), Decimal(4))

    def test_what_has_no_dollars_by_its_nature_misses_no_rate(self, admin):
        free = {"cost_usd": None, "usd_per_hour": None, "has_cost": False}
        shown = incident("nlp", facts={"kind": "budget", **free})

        answer = admin.get("/alerts")

        assert answer.context["sums"].unpriced == 0
        assert "no rate" not in answer.content.decode()
        assert "has no rate" not in text(admin, f"/incidents/{shown.pk}")

    def test_why_nobody_is_told_stands_beside_it(self, admin):
        incident("slurm/della/1", muted="maintenance until 18:00")
        incident("slurm/della/2", is_late=True)

        shown = text(admin, "/alerts")

        assert "Nobody notified: maintenance until 18:00" in shown
        assert "it was more than 15 minutes old when it arrived" in shown

    def test_an_empty_one_says_so(self, admin):
        assert "All clear" in text(admin, "/alerts")
        assert "No incident in this state with these filters" in text(admin, "/alerts?mine=1")

    def test_names_from_hosts_are_text(self, admin):
        incident(facts={"title": HOSTILE, "what": HOSTILE, "owner": HOSTILE})

        assert HOSTILE not in text(admin, "/alerts")
