"""The page of one incident: what is wrong, whose it is, what it costs and what to do."""

import html
from datetime import timedelta

import msgspec
import pytest

from fleetwatch.alerts.models import (
    Incident,
    IncidentEvent,
    IncidentGroup,
    Notification,
    Route,
    Rule,
)
from fleetwatch.diagnosis.cause_totals import WASTE
from fleetwatch.diagnosis.causes import BY_CODE, SLOWED
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.notify.message import Message
from fleetwatch.notify.models import Channel, Delivery
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import (
    HOSTILE,
    incident,
    slowed,
    text,
)
from tests.markup import in_text


class TestPage:
    def test_says_what_who_where_since_when_what_it_costs_and_what_to_do(self, admin):
        shown = text(admin, f"/incidents/{incident().pk}")

        for part in (
            "idle · node-001 GPU 0",
            "ann (nlp)",
            "Fri 20 Nov, 11:00",
            "$2.00",
            "≈ $1,460 a month if left",
            "<p>End the job, or give the GPUs back.</p>",
            "scancel slurm/della/7</code>",
            "Fires when every GPU of a job has been idle for 30 minutes.",
            "/jobs/slurm/della/7?from=",
        ):
            assert part in shown, part

    def test_a_slowed_gpus_says_who_holds_it_what_is_lost_and_shows_what_slowed_it(self, admin):
        node = factories.node("h100-01")
        gpu, other = (factories.gpu(node, index=index) for index in (3, 4))
        factories.rate("2.00")
        factories.hold(
            gpu, factories.job("slurm/della/9", name="llm", user="bo"), hours_ago=3, hours=3
        )
        finding = Finding.objects.create(
            node=node, cause=SLOWED, first_ms=to_ms(NOW) - 3 * HOUR_MS, last_ms=to_ms(NOW)
        )
        for each in (gpu, other):  # an hour of each, of which the clock lost 24 minutes
            lost_ms = 24 * 60_000
            none = ("idle_certain_ms", "idle_probable_ms", "stalled_probable_ms")
            none += ("stalled_potential_ms",)
            amounts = dict.fromkeys(none, 0) | {"held_ms": HOUR_MS, "underused_ms": lost_ms}
            CauseEntry.objects.create(
                node=node,
                gpu=each,
                job=Job.objects.get(),
                start=NOW - timedelta(hours=1),
                cause=SLOWED,
                confidence=3,
                cells=4095,
                low_ms=lost_ms,
                high_ms=lost_ms,
                **amounts,
            )
        shown = slowed(3, minutes=0)
        actions = tuple(f"Fix: {step.text} {step.code}".strip() for step in BY_CODE[SLOWED].fixes)
        shown.facts |= {"actions": actions, "where": "h100-01 GPU 3"}
        shown.save()

        page = text(admin, f"/incidents/{shown.pk}")

        for part in (
            "/charts/gpu-slowed?gpu=GPU-h100-01-3&amp;from=",
            "What slowed h100-01 GPU 3",
            "<dd> bo </dd>",
            'href="/jobs/slurm/della/9"',
            "$1.60",  # 2 GPUs, 0.4 hours each, $2
            f'href="/findings/{finding.pk}"',
            "<p>See which limit holds it back.</p>",
            ">nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER</code>",
        ):
            assert part in " ".join(page.split()), part
        assert "Fix:" not in page

    def test_of_several_gpus_the_curve_has_a_line_for_each_and_says_its_unit(self, admin):
        facts = {"gpus": [{"uuid": "GPU-a", "index": 2}, {"uuid": "GPU-b", "index": 3}]}
        shown = incident(facts={"facts": facts, "where": "node-001 GPU 2, 3"})

        page = " ".join(text(admin, f"/incidents/{shown.pk}").split())

        assert "<h3>GPU utilisation, node-001 GPU 2, 3</h3>" in page
        assert (
            "a line per GPU, averages of five minutes or longer; share of the time in which a kernel"
            " ran" in page
        )
        assert "/charts/gpus-util?gpu=GPU-a%2CGPU-b&amp;" in page

    def test_its_gpus_lead_to_their_pages_and_to_why_they_were_idle(self, admin):
        factories.job("slurm/della/7")
        node = factories.node()
        told = [{"uuid": factories.gpu(node, index=index).uuid} for index in range(10)]
        shown = incident(facts={"facts": {"gpus": told}, "where": "node-001 GPU 0–9"})

        page = text(admin, f"/incidents/{shown.pk}")

        hour = f"from={to_ms(NOW) - HOUR_MS}&amp;to={to_ms(NOW)}"
        around = f"from={to_ms(NOW) - 3 * HOUR_MS}&amp;to={to_ms(NOW)}"
        explained = f"/explain?gpu=GPU-node-001-0&amp;job=slurm%2Fdella%2F7&amp;{hour}"
        assert f'href="/gpus/GPU-node-001-0?{around}"' in page
        assert f'href="/nodes/node-001?{around}"' in page
        assert f'href="{explained}"' in page
        assert page.count("/explain?gpu=") == 8
        assert "and 2 more GPUs" in page
        assert admin.get(html.unescape(explained)).status_code == 200

    def test_the_gpu_of_nobody_leads_to_all_of_its_time(self, admin):
        factories.gpu(factories.node("h100-01"), index=3)

        page = text(admin, f"/incidents/{slowed(3, minutes=0).pk}")

        assert "/explain?gpu=GPU-h100-01-3&amp;from=" in page
        assert 'href="/nodes/h100-01?from=' in page

    def test_names_the_likely_cause_and_its_finding(self, admin):
        job = factories.job("slurm/della/7")
        gpu = factories.gpu(factories.node())
        told = {"cause": "idle_held", "confidence": 3, "cells": 4095, "low_ms": 0, "high_ms": 0}
        amounts = dict.fromkeys((f"{name}_ms" for name in WASTE), 0) | {"held_ms": HOUR_MS}
        start = NOW - timedelta(hours=1)
        CauseEntry.objects.create(node=gpu.node, gpu=gpu, job=job, start=start, **told, **amounts)
        of = Finding.objects.create(job=job, cause="idle_held", first_ms=0, last_ms=to_ms(NOW))
        shown = incident(job.key)
        rule = Rule.objects.get(condition="job_stalled")
        lines = {"lines": (("Likely", "Idle: still held: as it was told"),)}
        of_stalled = incident(job.key, facts=lines, rule=rule)

        page = " ".join(text(admin, f"/incidents/{shown.pk}").split())

        assert f'href="/findings/{of.pk}">Idle: still held</a>' in page
        assert "as it was told" not in text(admin, f"/incidents/{of_stalled.pk}")  # not twice

    def test_what_is_over_is_kept_and_burns_no_more(self, admin):
        over = incident(resolved_at=NOW, resolution="the GPUs are active again")

        shown = text(admin, f"/incidents/{over.pk}")

        assert "The GPUs are active again." in shown
        assert "a month if left" not in shown

    def test_of_what_is_over_nothing_is_to_be_ended(self, admin):
        going_on = text(admin, f"/incidents/{incident().pk}")
        over = text(admin, f"/incidents/{incident('slurm/della/8', resolved_at=NOW).pk}")

        assert "scancel slurm/della/7</code>" in going_on
        assert "scancel" not in over

    def test_a_reminder_that_came_with_the_escalation_says_so(self, admin):
        rule = Rule.objects.get(condition="job_idle")
        group = IncidentGroup.objects.create(rule=rule, key="k", opened_at=NOW)
        one = incident(group=group)
        channel = Channel.objects.create(kind="email", name="mail", config=b"", created_at=NOW)
        sent = {"channel": channel, "address": "bo@there.example", "created_at": NOW}
        for kind, address in (("reminder", "bo@there.example"), ("step", "ops@there.example")):
            Notification.objects.create(
                kind=kind, group=group, step=1, due_at=NOW, **sent | {"address": address}
            )
        of_group = f"group/{group.pk}"
        for key in ("step/1", "reminder/2"):
            Delivery.objects.create(
                thread=of_group, key=f"{of_group}/{key}", message={}, next_attempt_at=NOW, **sent
            )

        sends = admin.get(f"/incidents/{one.pk}").context["sends"]

        assert {send.what for send in sends} == {"reminder", "reminder with the escalation"}

    def test_shows_who_was_told_and_why_and_what_came_back(self, admin):
        group = IncidentGroup.objects.create(
            rule=Rule.objects.get(condition="job_idle"), key="k", opened_at=NOW
        )
        one = incident(group=group)
        channel = Channel.objects.create(
            kind="email", name="mail to people", config=b"", created_at=NOW
        )
        bo = factories.user(username="bo", role="engineer")
        note = {"group": group, "step": 0, "channel": channel, "created_at": NOW, "due_at": NOW}
        Notification.objects.create(
            kind="opened", person=bo, address="bo@there.example", why="holds the job", **note
        )
        Notification.objects.create(kind="step", person=bo, why="it is night", state="held", **note)
        Delivery.objects.create(
            channel=channel,
            address="bo@there.example",
            thread=f"group/{group.pk}",
            key=f"group/{group.pk}/opened",
            message={},
            state="sent",
            last_answer="250 Ok",
            next_attempt_at=NOW,
            created_at=NOW,
            sent_at=NOW + timedelta(minutes=1),
        )
        IncidentEvent.objects.create(incident=one, at=NOW, kind="told_opened", text="ann")

        shown = text(admin, f"/incidents/{one.pk}")

        for part in (
            "bo",
            "mail to people",
            "holds the job",
            "250 Ok",
            "quiet hours",
            "escalation<",
            "unassigned",
        ):
            assert part in shown, part
        assert [
            (send.moment, send.at) for send in admin.get(f"/incidents/{one.pk}").context["sends"]
        ] == [
            # sent a minute after it was queued: the timeline and the list have the same minute
            ("", NOW),
            ("due", NOW),
        ]
        assert "<b>Notification queued</b>" in shown
        assert "bo@there.example" not in shown

    @pytest.mark.usefixtures("_frozen")
    @pytest.mark.parametrize(("role", "leads"), [("operator", True), ("engineer", False)])
    def test_a_notification_leads_to_its_message_for_who_may_open_that(
        self, db, client, role, leads
    ):
        client.force_login(factories.user(role=role))
        group = IncidentGroup.objects.create(
            rule=Rule.objects.get(condition="job_idle"), key="k", opened_at=NOW
        )
        delivery = Delivery.objects.create(
            channel=Channel.objects.create(kind="log", name="log", config=b"", created_at=NOW),
            thread=f"group/{group.pk}",
            key=f"group/{group.pk}/opened",
            message=msgspec.to_builtins(Message("idle", "A job is idle.")),
            state="sent",
            next_attempt_at=NOW,
            created_at=NOW,
            sent_at=NOW,
        )
        address = f"/settings/channels/messages/{delivery.pk}"

        shown = text(client, f"/incidents/{incident(group=group).pk}")

        assert (f'href="{address}"' in shown) is leads
        assert (client.get(address).status_code == 200) is leads

    def test_what_a_delivery_log_took_was_kept_and_never_sent(self, admin):
        group = IncidentGroup.objects.create(
            rule=Rule.objects.get(condition="job_idle"), key="k", opened_at=NOW
        )
        one = incident(group=group)
        Delivery.objects.create(
            channel=Channel.objects.create(kind="log", name="log", config=b"", created_at=NOW),
            thread=f"group/{group.pk}",
            key=f"group/{group.pk}/opened",
            message={},
            state="sent",
            next_attempt_at=NOW,
            created_at=NOW,
            sent_at=NOW,
        )

        [send] = admin.get(f"/incidents/{one.pk}").context["sends"]

        assert (send.moment, send.state, send.answer) == ("", "Kept", "")
        table = in_text(text(admin, f"/incidents/{one.pk}")).partition("Notifications")[2]
        assert " ".join(table.split()).count("Kept: nobody reached add Slack or e-mail") == 1
        assert table.lower().count("kept") == 1

    @pytest.mark.parametrize(("role", "leads"), [("admin", True), ("operator", False)])
    def test_what_lacked_an_account_leads_who_may_link_one_there(self, db, client, role, leads):
        client.force_login(factories.user(role=role))
        group = IncidentGroup.objects.create(
            rule=Rule.objects.get(condition="job_idle"), key="k", opened_at=NOW
        )
        one = incident(group=group)
        Notification.objects.create(
            group=group,
            step=0,
            kind="opened",
            channel=Channel.objects.create(kind="log", name="log", config=b"", created_at=NOW),
            why="no account was linked to job user ivan on aurora at that time",
            shown=[one.pk],
            state="held",
            due_at=NOW,
            created_at=NOW,
        )

        shown = text(client, f"/incidents/{one.pk}")

        assert "no account was linked to job user ivan" in shown
        assert ('href="/settings/people#accountless">link one</a>' in shown) is leads

    @pytest.mark.parametrize("is_over", [True, False])
    def test_what_joined_a_group_says_whose_notice_stood(self, admin, is_over):
        group = IncidentGroup.objects.create(
            rule=Rule.objects.get(condition="job_idle"), key="k", opened_at=NOW
        )
        first = incident(group=group)
        over = {"state": "resolved", "ended_ms": to_ms(NOW), "resolved_at": NOW}
        joined = incident("slurm/della/8", group=group, **(over if is_over else {}))
        Notification.objects.create(
            group=group,
            step=0,
            kind="opened",
            channel=Channel.objects.create(kind="log", name="log", config=b"", created_at=NOW),
            shown=[first.pk],
            due_at=joined.opened_at,
            created_at=joined.opened_at,
        )

        shown = in_text(text(admin, f"/incidents/{joined.pk}")).partition("Notifications")[2]

        words = " ".join(shown.split())
        assert f"the one of its group stood already, that of #{first.pk} , queued" in words
        assert ("at the earliest; it was over before that." in words) is is_over
        assert "No route led to a channel" not in words

    def test_a_notice_that_went_out_again_for_another_says_for_which(self, admin):
        group = IncidentGroup.objects.create(
            rule=Rule.objects.get(condition="job_idle"), key="k", opened_at=NOW
        )
        first, second = incident(group=group), incident("slurm/della/8", group=group)
        channel = Channel.objects.create(kind="log", name="log", config=b"", created_at=NOW)
        both = [first, second]
        for minutes, kind, state, shown in (
            (0, "opened", "sent", [first]),
            (60, "changed", "held", both),
        ):
            Notification.objects.create(
                group=group,
                step=0,
                kind=kind,
                channel=channel,
                why="no account was linked to job user ivan",
                shown=[each.pk for each in shown],
                state=state,
                due_at=NOW,
                created_at=NOW + timedelta(minutes=minutes),
            )

        of_first, of_second = (text(admin, f"/incidents/{each.pk}") for each in (first, second))

        assert f"names #{second.pk} since, which joined its group" in of_first
        assert f"was sent a notice of #{first.pk}, whose group this one joined" in of_second

    def test_a_job_with_a_time_limit_burns_for_no_month(self, admin):
        labels = {"user": ("ann",), "label.time_limit_minutes": ("10080",)}

        shown = text(admin, f"/incidents/{incident(facts={'labels': labels}).pk}")

        assert "a month if left" not in shown
        assert "until its time limit at the latest" in shown

    def test_beside_how_long_it_goes_on_it_says_when_it_worked_between(self, admin):
        """The same before and after it is over."""
        pauses = "all but 5 m: paused for less than 15 minutes at 11:25 UTC (worked for 5 m)"
        facts = {"lines": (("Idle", pauses),)}
        over = {"state": "resolved", "ended_ms": to_ms(NOW), "resolved_at": NOW}

        for one in (
            incident("slurm/della/1", facts=facts),
            incident("slurm/della/2", facts=facts, **over),
        ):
            note = text(admin, f"/incidents/{one.pk}").partition("Idle for")[2]
            assert f"idle {pauses}" in " ".join(note.partition("</dl>")[0].split())

    def test_it_says_when_the_time_limit_is_and_what_it_costs_by_then(self, admin):
        factories.job("slurm/della/7", user="ann", start_ms=to_ms(NOW - timedelta(hours=1)))
        labels = {"user": ("ann",), "label.time_limit_minutes": ("180",)}

        shown = text(admin, f"/incidents/{incident(facts={'labels': labels}).pk}")

        # two of three hours are not counted yet, at $2 an hour
        note = shown.partition("until its time limit,")[2].partition("</dd>")[0]
        assert " ".join(note.split()).startswith("Fri 20 Nov, 14:00, at the latest: ")
        assert "$4.00</span> more" in " ".join(note.split())

    def test_what_was_accepted_with_a_reason_is_not_to_be_ended(self, admin):
        one = incident(muted="accepted until 2026-12-06 03:38 UTC: a workshop")

        shown = text(admin, f"/incidents/{one.pk}")

        assert "Agreed as not waste (until 2026-12-06 03:38 UTC): a workshop" in shown
        assert "scancel slurm/della/7</code>" not in shown
        assert "is still needed" not in shown

    def test_of_a_teams_budget_without_a_route_the_page_leads_to_where_one_is_added(self, admin):
        rule = Rule.objects.get(condition="budget_spent")
        team = factories.Team.objects.create(slug="vision")
        one = incident("teams/vision", rule=rule, team=team, facts={"kind": "budget"})

        assert "vision has no route of its own" in text(admin, f"/incidents/{one.pk}")

        route = Route.objects.create(kind="team", team=team)
        route.channels.add(
            Channel.objects.create(kind="log", name="log", config=b"", created_at=NOW)
        )

        assert "has no route" not in text(admin, f"/incidents/{one.pk}")

    def test_messages_of_its_groups_others_are_not_its_own(self, admin):
        group = IncidentGroup.objects.create(
            rule=Rule.objects.get(condition="job_idle"), key="k", opened_at=NOW
        )
        earlier = incident(group=group, ended_ms=to_ms(NOW), resolved_at=NOW)
        own = incident(group=group)
        log = Channel.objects.create(kind="log", name="log", config=b"", created_at=NOW)
        for minutes, shown in ((20, [earlier.pk]), (10, [earlier.pk, own.pk])):
            at = NOW - timedelta(minutes=minutes)
            when = {"created_at": at, "channel": log}
            Notification.objects.create(
                group=group, step=0, kind="opened", shown=shown, due_at=at, why="on call", **when
            )
            Delivery.objects.create(
                thread=f"group/{group.pk}",
                key=f"group/{group.pk}/opened/{minutes}",
                message={},
                state="sent",
                next_attempt_at=at,
                sent_at=at,
                **when,
            )

        of_own, of_earlier = (
            [send.at for send in admin.get(f"/incidents/{each.pk}").context["sends"]]
            for each in (own, earlier)
        )

        assert of_own == [NOW - timedelta(minutes=10)]
        assert of_earlier == [NOW - timedelta(minutes=10), NOW - timedelta(minutes=20)]

    def test_one_that_was_over_before_it_was_raised_was_told_to_nobody(self, admin):
        over_ms = to_ms(NOW - timedelta(minutes=40))
        one = incident(ended_ms=over_ms, fired_ms=over_ms - 1, resolved_at=NOW)

        shown = in_text(text(admin, f"/incidents/{one.pk}"))

        assert "It was over Fri 20 Nov, 11:20, before it was raised Fri 20 Nov, 11:30." in shown
        assert "noted afterwards" in shown

    def test_one_that_was_over_before_its_rule_watched_says_that_whatever_was_agreed_later(
        self, admin
    ):
        """It was over at 11:20, the rule began to watch at 11:30, people agreed on it at noon."""
        over_ms = to_ms(NOW - timedelta(minutes=40))
        begun_ms = to_ms(NOW - timedelta(minutes=30))
        Rule.objects.filter(condition="job_idle").update(begun_ms=begun_ms)
        agreed = "accepted until 2026-11-27 12:00 UTC: a workshop"
        one = incident(ended_ms=over_ms, fired_ms=over_ms - 1, resolved_at=NOW, muted=agreed)

        shown = in_text(text(admin, f"/incidents/{one.pk}"))

        assert (
            "It was over Fri 20 Nov, 11:20, before the rule began to watch Fri 20 Nov, 11:30."
            in shown
        )

    def test_one_that_was_silenced_says_by_what_where_it_says_that_nobody_was_notified(self, admin):
        silenced = "silence until 2026-11-20 14:00 UTC: we move racks"
        one = incident(ended_ms=to_ms(NOW), resolved_at=NOW, muted=silenced)

        shown = in_text(text(admin, f"/incidents/{one.pk}"))

        assert (
            "Nobody was notified Silence until 2026-11-20 14:00 UTC: we move racks, before a notice"
            " of it was due." in shown
        )

    def test_its_timeline_says_who_did_what(self, admin):
        one = incident()
        for kind, said in (("fired", "idle"), ("ack", "acknowledged by ann: I am on it")):
            IncidentEvent.objects.create(incident=one, at=NOW, kind=kind, text=said)

        shown = text(admin, f"/incidents/{one.pk}")

        assert "<b>Acknowledged by ann: I am on it</b>" in shown
        assert "<b>Raised</b>" in shown

    def test_its_timeline_begins_where_it_began_and_says_when_its_limit_was_reached(self, admin):
        """It began an hour ago, and fired after 40 minutes; one was raised ten minutes later."""
        fired_at = NOW - timedelta(minutes=20)
        prompt = incident("slurm/della/1", fired_ms=to_ms(fired_at), opened_at=fired_at)
        late = incident(
            "slurm/della/2", fired_ms=to_ms(fired_at), opened_at=fired_at + timedelta(minutes=10)
        )
        for one in (prompt, late):
            IncidentEvent.objects.create(incident=one, at=fired_at, kind="fired", text="idle")

        of_prompt, of_late = (text(admin, f"/incidents/{one.pk}") for one in (prompt, late))

        assert "<b>Since</b>" in of_prompt
        assert "its limit was reached" not in of_prompt
        assert "its limit was reached" in of_late

    def test_the_times_before_of_the_same_subject_are_listed(self, admin):
        for hours, key in ((50, "slurm/della/7"), (40, "slurm/della/7"), (30, "slurm/della/8")):
            opened_at = NOW - timedelta(hours=hours)
            incident(key, opened_at=opened_at, resolved_at=opened_at + timedelta(hours=1))

        shown = text(admin, f"/incidents/{incident().pk}")

        assert "2 times in the last 30" in shown
        assert "$4.00" in shown

    def test_one_that_there_is_not_is_404(self, admin):
        assert admin.get("/incidents/4711").status_code == 404

    def test_names_from_hosts_are_text(self, admin):
        hostile = dict.fromkeys(("title", "what", "owner", "where", "name", "command"), HOSTILE)
        one = incident(facts=hostile | {"lines": ((HOSTILE, HOSTILE),), "actions": (HOSTILE,)})

        assert HOSTILE not in text(admin, f"/incidents/{one.pk}")

    def test_what_has_no_page_of_its_own_is_named_without_a_link(self, admin):
        one = incident(facts={"kind": "nothing"})

        assert "/nothings/" not in text(admin, f"/incidents/{one.pk}")


def test_why_nobody_was_told_is_one_reason_in_the_past(admin):
    """Whether no channel was set up, or none of them had a route."""
    one = incident()
    without = in_text(text(admin, f"/incidents/{one.pk}"))
    Channel.objects.create(name="ops", kind="log", created_at=NOW)
    with_channel = in_text(text(admin, f"/incidents/{one.pk}"))

    assert "Nobody was notified No channel was set up." in without
    assert "Nobody was notified No route led to a channel." in with_channel


def test_what_was_said_to_be_no_waste_has_one_name_among_earlier_incidents():
    assert Incident(verdict="rejected").verdict_in_words == "Agreed as not waste"
    assert Incident(verdict="confirmed").verdict_in_words == "Confirmed"
    assert Incident().verdict_in_words == ""


def test_a_budget_that_is_passed_says_why_it_is_critical(admin):
    rule = Rule.objects.get(condition="budget_spent")
    Rule.objects.filter(pk=rule.pk).update(severity="warning")
    spent = {"spent_usd": "120.00", "budget_usd": "100.00"}
    one = incident("fleet", rule=rule, facts={"kind": "budget", "facts": spent})

    shown = in_text(text(admin, f"/incidents/{one.pk}"))

    assert "Critical because more than the whole budget is spent" in shown


def test_of_a_job_that_works_again_the_first_step_is_to_ask_its_owner(admin):
    one = incident(state="resolved", ended_ms=to_ms(NOW), resolved_at=NOW)

    panel = in_text(text(admin, f"/incidents/{one.pk}")).partition("If it comes back")[2]

    assert panel.strip().startswith("Ask ann (nlp) whether job slurm/della/7 is still needed")
