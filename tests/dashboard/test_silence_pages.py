"""What is not told and where the rest goes: silences, routes, and how each person hears of things."""

from datetime import UTC, datetime, time, timedelta

import msgspec
import pytest

from fleetwatch.accounts import people
from fleetwatch.accounts.models import Organisation, OthersShown, Team, User
from fleetwatch.accounts.selectors import organisation
from fleetwatch.accounts.visibility import set_others_shown
from fleetwatch.alerts import matchers
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.models import Preference, Route, Rule, Silence
from fleetwatch.alerts.weekly_hours import Hours
from fleetwatch.diagnosis.findings.deciding import Decision, decide
from fleetwatch.lib.intervals import to_ms
from fleetwatch.notify.models import Channel
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import incident
from tests.diagnosis.told import finding

OF_NODE = {"label-0": "node", "values-0": "gpu-01, gpu-02"}


def text(answer) -> str:
    assert answer.status_code == 200, answer.content[:500]
    return " ".join(answer.content.decode().split())


def silence(**fields) -> Silence:
    usual = {
        "matchers": [{"label": "node", "values": ["gpu-07"]}],
        "starts_at": NOW - timedelta(hours=1),
        "ends_at": NOW + timedelta(hours=3),
        "reason": "new disks",
        "created_at": NOW,
    }
    return Silence.objects.create(**(usual | fields))


@pytest.fixture
def lead(client, _frozen, db):
    """Lea leads nlp."""
    lea = factories.user(role="lead", username="lea")
    people.join(lea, Team.objects.create(slug="nlp"), since=NOW - timedelta(days=1))
    Team.objects.create(slug="vision")
    client.force_login(lea)
    return client


class TestSilences:
    def test_findings_closed_as_no_waste_are_listed_with_who_said_so_and_why(self, admin):
        closed = finding(factories.job("slurm/della/7", name="<b>ddp</b>"))
        finding(factories.job("slurm/della/8", name="open"))
        decision = Decision("dismiss", "its hot spare")
        decide(closed.pk, decision, by=factories.user(username="otto"), now=NOW)

        page = text(admin.get("/alerts/silences")).partition('id="dismissed"')[2]

        assert 'its hot spare <div class="sub">otto</div>' in page
        assert f'href="/findings/{closed.pk}"' in page
        assert "&lt;b&gt;ddp&lt;/b&gt;" in page
        assert "open</a>" not in page

    def test_nobody_else_approves_of_an_exemption_than_who_is_named(self, admin):
        wanted = {"kind": "exemption", "reason": "a demo", "approved_by": "left-meanwhile"}

        answer = admin.post("/alerts/silences/add", wanted | OF_NODE)

        assert answer.status_code == 422
        assert "Nobody has that name any more." in answer.content.decode()
        assert not Silence.objects.exists()

    def test_each_says_what_it_mutes_until_when_and_why(self, admin):
        silence()

        shown = text(admin.get("/alerts/silences"))

        for part in ("Node is gpu-07", "new disks", "Fri 20 Nov, 15:00", "in 3 h"):
            assert part in shown, part

    def test_an_accepted_reason_is_called_what_it_does(self, admin):
        silence(kind="justification")

        assert ">Agreed as not waste</span>" in text(admin.get("/alerts/silences"))

    def test_one_is_added_for_four_hours_unless_it_says_until_when(self, admin):
        admin.post("/alerts/silences/add", {"kind": "silence", "reason": "new disks"} | OF_NODE)

        added = Silence.objects.get()
        assert (added.starts_at, added.ends_at) == (NOW, NOW + timedelta(hours=4))
        assert matchers.stored(added.matchers) == [Matcher("node", ("gpu-01", "gpu-02"))]

    def test_times_are_the_organisations_and_hours_of_the_week_too(self, admin):
        Organisation.objects.filter(pk=organisation().pk).update(time_zone="Europe/Berlin")
        window = {"starts_at": "2026-11-21T00:00", "ends_at": "2027-04-01T00:00"}
        weekly = {"day-6": "on", "starts": "23:00", "ends": "03:00"}

        admin.post(
            "/alerts/silences/add",
            {"kind": "maintenance", "reason": "patching"} | window | weekly | OF_NODE,
        )

        added = Silence.objects.get()
        assert added.starts_at == datetime(2026, 11, 20, 23, tzinfo=UTC)
        assert added.ends_at == datetime(2027, 3, 31, 22, tzinfo=UTC)
        assert msgspec.convert(added.weekly, Hours) == Hours(
            time(23), time(3), "Europe/Berlin", (6,)
        )

    def test_an_exemption_names_who_approved(self, admin):
        factories.user(role="operator", username="olga")

        sent = {"kind": "exemption", "reason": "a demo", "approved_by": "olga"}
        admin.post("/alerts/silences/add", sent | OF_NODE)

        assert Silence.objects.get().approved_by.username == "olga"
        assert "approved by olga" in text(admin.get("/alerts/silences"))

    @pytest.mark.parametrize(
        "sent",
        [
            {"reason": ""},
            {"values-0": ""},
            {"label-0": "colour"},
            {"ends_at": "2026-11-20T11:00"},
            {"ends_at": "soon"},
            {"kind": "justification"},
            {"starts": "08:00"},
            {"starts": "08:00", "ends": "09:00", "zone": "Mars/Olympus"},
        ],
    )
    def test_what_is_wrong_is_said_and_nothing_added(self, admin, sent):
        usual = {"kind": "silence", "reason": "why"} | OF_NODE

        answer = admin.post("/alerts/silences/add", usual | sent)

        assert answer.status_code == 422
        assert 'role="alert"' in answer.content.decode()
        assert not Silence.objects.exists()

    def test_of_a_job_its_name_is_said(self, admin):
        factories.job("slurm/della/7", name="jupyter")
        silence(matchers=[{"label": "subject", "values": ["slurm/della/7"]}])

        assert "slurm/della/7 (jupyter)" in text(admin.get("/alerts/silences"))

    def test_of_a_job_that_is_over_it_is_without_effect(self, admin):
        factories.job("slurm/della/7", end_ms=to_ms(NOW - timedelta(hours=1)))
        factories.job("slurm/della/8", end_ms=None)
        for keys in (["slurm/della/7"], ["slurm/della/7", "slurm/della/8"]):
            silence(matchers=[{"label": "subject", "values": keys}])

        shown = text(admin.get("/alerts/silences"))

        assert shown.count("without effect: the job is over") == 1

    def test_one_is_ended_now(self, admin):
        one = silence()

        admin.post(f"/alerts/silences/{one.pk}/end")

        one.refresh_from_db()
        assert one.ends_at == NOW
        assert "No silence is active" in text(admin.get("/alerts/silences"))
        assert "<h2>Expired</h2>" in text(admin.get("/alerts/silences"))

    def test_an_incidents_page_leads_here_with_the_form_filled_in(self, admin):
        page = text(admin.get(f"/incidents/{incident().pk}"))
        address = page.split('href="/alerts/silences?')[1].split("#")[0].replace("&amp;", "&")

        shown = text(admin.get(f"/alerts/silences?{address}"))

        assert 'value="slurm/della/7"' in shown

    def test_a_lead_silences_the_own_team_alone(self, lead):
        own, others = ({"label-0": "team", "values-0": team} for team in ("nlp", "vision"))
        usual = {"kind": "silence", "reason": "a course"}

        assert lead.post("/alerts/silences/add", usual | own).status_code == 302
        assert lead.post("/alerts/silences/add", usual | others).status_code == 403

    def test_an_engineer_reads_them_and_has_no_form(self, viewer):
        silence()

        shown = text(viewer.get("/alerts/silences"))

        assert "gpu-07" in shown
        assert "End now" not in shown
        assert "Add one" not in shown

    def test_a_lead_who_sees_the_own_alone_sees_and_ends_the_own_teams(self, lead):
        of_team = {"label": "team", "is_not": False}
        own = silence(matchers=[of_team | {"values": ["nlp"]}], reason="ours")
        others = silence(matchers=[of_team | {"values": ["vision"]}], reason="of others")
        set_others_shown(OthersShown.OWN_TEAMS)

        shown = text(lead.get("/alerts/silences"))
        ended = [lead.post(f"/alerts/silences/{each.pk}/end").status_code for each in (own, others)]

        assert "ours" in shown
        assert "of others" not in shown
        assert "is vision" not in shown
        assert ended == [302, 404]

    def test_the_form_of_a_lead_begins_with_the_own_team_and_has_no_exemption(self, lead):
        shown = text(lead.get("/alerts/silences"))

        assert 'name="values-0" value="nlp"' in shown
        assert "Maintenance window" in shown
        assert "Exemption:" not in shown

    def test_who_leads_nobody_and_sees_the_own_alone_sets_nothing(self, viewer):
        silence(reason="of others")
        set_others_shown(OthersShown.OWN_TEAMS)

        assert viewer.get("/alerts/rules").status_code == 404
        shown = text(viewer.get("/alerts/silences"))
        assert "of others" not in shown
        assert 'id="add"' not in shown
        assert ">Change</summary>" not in text(viewer.get("/alerts/routes"))


class TestRoutes:
    @pytest.fixture
    def channel(self, db):
        return Channel.objects.create(kind="slack", name="ml-ops", config=b"", created_at=NOW)

    def test_says_who_hears_of_it_in_which_order(self, admin):
        shown = text(admin.get("/alerts/routes"))

        assert "No channel yet: nobody is notified." in shown
        assert "every channel" not in shown

    def test_says_with_which_step_each_rule_that_is_on_begins(self, admin):
        Rule.objects.update(is_enabled=True)
        Rule.objects.filter(condition="clock_off").update(is_enabled=False)
        Rule.objects.filter(condition="job_idle").update(tells_owner=False)

        begins = dict(admin.get("/alerts/routes").context["begins"])

        first = {
            rule.condition: begin.split()[1][0] for begin, rules in begins.items() for rule in rules
        }
        assert "clock_off" not in first
        assert (first["gpu_idle"], first["orphaned"]) == ("1", "1")
        assert (first["job_idle"], first["budget_spent"], first["waste_of_team"]) == ("3",) * 3

    def test_a_machines_rules_go_to_the_operators_at_once(self, admin):
        shown = text(admin.get("/alerts/routes")).partition("the operators at once")[2]

        assert "GPU fault</a" in shown
        assert "Budget spent</a" not in shown

    def test_without_a_route_every_channel_hears_of_everything(self, admin, channel):
        shown = text(admin.get("/alerts/routes"))

        assert "No route is set yet: every channel hears of everything." in shown
        assert "No channel yet" not in shown
        assert "none of its own" not in shown

    def test_says_that_nobody_gets_a_message_while_no_channel_sends(self, admin, channel):
        assert "Nobody gets a message." not in text(admin.get("/alerts/routes"))

        Channel.objects.update(kind="log")

        assert "Nobody gets a message." in text(admin.get("/alerts/routes"))

    def test_a_route_is_set_and_taken_away(self, admin, channel):
        Team.objects.create(slug="nlp", name="NLP")
        of_team = {"kind": "team", "team": "nlp"}

        admin.post("/alerts/routes/set", of_team | {f"channel-{channel.pk}": "on"})
        admin.post("/alerts/routes/set", {"kind": "operators", f"channel-{channel.pk}": "on"})
        assert Route.objects.count() == 2
        assert "No route is set yet" not in text(admin.get("/alerts/routes"))

        admin.post("/alerts/routes/set", of_team)
        assert [route.kind for route in Route.objects.all()] == ["operators"]

    def test_what_is_no_route_is_refused(self, admin, channel):
        assert admin.post("/alerts/routes/set", {"kind": "team"}).status_code == 422
        assert admin.post("/alerts/routes/set", {"kind": "dance"}).status_code == 422

    def test_a_lead_who_sees_the_own_alone_sees_no_others(self, lead, channel):
        other = Channel.objects.create(kind="slack", name="zz-ears", config=b"", created_at=NOW)
        Route.objects.create(kind="team", team=Team.objects.get(slug="vision")).channels.add(other)
        set_others_shown(OthersShown.OWN_TEAMS)

        shown = text(lead.get("/alerts/routes"))
        forged = {"kind": "team", f"channel-{other.pk}": "on", f"channel-{channel.pk}": "on"}
        answers = [
            lead.post("/alerts/routes/set", forged | {"team": slug}).status_code
            for slug in ("nlp", "vision")
        ]

        assert "ml-ops" in shown
        for word in ("vision", "zz-ears", "Operators</td>"):
            assert word not in shown
        assert answers == [302, 404]
        assert list(Route.objects.get(team__slug="nlp").channels.all()) == [channel]

    def test_a_lead_sets_the_own_teams(self, lead, channel):
        assert text(lead.get("/alerts/routes")).count(">Change</summary>") == 1
        own, others = ({"kind": "team", "team": team} for team in ("nlp", "vision"))

        assert lead.post("/alerts/routes/set", own).status_code == 302
        assert lead.post("/alerts/routes/set", others).status_code == 403
        assert lead.post("/alerts/routes/set", {"kind": "operators"}).status_code == 403


class TestMyNotifications:
    SENT = {"way": "email", "time_zone": "", "daily_cap": "5"}

    def test_are_set_by_everybody_for_the_own(self, viewer):
        quiet = {"quiet_from": "22:00", "quiet_until": "07:30", "time_zone": "Europe/Berlin"}

        viewer.post("/me/notifications", self.SENT | quiet)

        own = Preference.objects.get(user__username="vera")
        assert (own.way, own.time_zone, own.daily_cap) == ("email", "Europe/Berlin", 5)
        assert (own.quiet_from, own.quiet_until) == (time(22), time(7, 30))
        assert own.gets_digest is False
        assert 'value="22:00"' in text(viewer.get("/me"))

    @pytest.mark.parametrize(
        "sent",
        [
            {"way": "pigeon"},
            {"time_zone": "Mars/Olympus"},
            {"daily_cap": "101"},
            {"daily_cap": ""},
            {"quiet_from": "22:00"},
            {"quiet_from": "late", "quiet_until": "07:00"},
        ],
    )
    def test_what_is_wrong_is_said_beside_its_field(self, viewer, sent):
        answer = viewer.post("/me/notifications", self.SENT | sent)

        assert answer.status_code == 422
        assert 'role="alert"' in answer.content.decode()
        assert not Preference.objects.exists()

    def test_the_page_says_how_the_reader_is_reached(self, viewer):
        assert "you can’t be notified yet" in text(viewer.get("/me"))

        User.objects.filter(username="vera").update(email="vera@there.example")
        Channel.objects.create(kind="email", name="mail", config=b"", created_at=NOW)

        assert "you are notified as <b>vera@there.example</b> by mail" in text(viewer.get("/me"))

    def test_what_fires_of_the_reader_stands_first(self, viewer):
        vera = User.objects.get(username="vera")
        incident("slurm/della/1", person=vera)
        incident("slurm/della/2")
        incident("slurm/della/3", person=vera, state="acknowledged")

        shown = text(viewer.get("/me"))

        assert "Your incidents" in shown
        assert "slurm/della/1" in shown
        assert "slurm/della/2" not in shown
        assert "slurm/della/3" not in shown
