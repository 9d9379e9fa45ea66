"""Which incidents an engineer who sees the own teams alone is shown, and may act on."""

from datetime import timedelta

import pytest

from fleetwatch.accounts import people
from fleetwatch.accounts.models import OthersShown, Team
from fleetwatch.accounts.visibility import set_others_shown
from fleetwatch.alerts.models import Rule
from fleetwatch.diagnosis.findings.deciding import Decision, decide
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import incident, keys
from tests.diagnosis import told
from tests.markup import in_text, tight


class TestWhoSees:
    @pytest.fixture(autouse=True)
    def _own_teams_alone(self, viewer):
        """Vera is in nlp; others' things are not hers."""
        self.nlp = Team.objects.create(slug="nlp", name="NLP")
        vision = Team.objects.create(slug="vision", name="Vision")
        vera = factories.User.objects.get(username="vera")
        people.join(vera, self.nlp, since=NOW - timedelta(days=9))
        set_others_shown(OthersShown.OWN_TEAMS)
        self.own = incident("slurm/della/1", team=self.nlp)
        self.given = incident("slurm/della/2", team=vision, assignee=vera)
        self.others = incident("slurm/della/3", team=vision)
        self.nobodys = incident("slurm/della/4")

    def test_an_engineer_lists_the_own_the_teams_and_what_was_given(self, viewer):
        assert keys(viewer, "/alerts") == ["2", "1"]

    def test_others_are_as_if_there_were_none(self, viewer):
        status = {
            each.pk: viewer.get(f"/incidents/{each.pk}").status_code
            for each in (self.own, self.given, self.others, self.nobodys)
        }

        assert list(status.values()) == [200, 200, 404, 404]

    def test_what_is_not_seen_is_not_acted_on(self, viewer):
        assert viewer.post(f"/incidents/{self.others.pk}/ack").status_code == 404
        viewer.post("/alerts/act", {"action": "ack", "id": [self.given.pk, self.others.pk]})

        self.others.refresh_from_db()
        assert self.others.state == "firing"

    def test_sums_are_of_what_is_listed(self, viewer):
        assert viewer.get("/alerts").context["sums"].count == 2

    def test_of_a_fleet_that_is_not_seen_nothing_is_said(self, viewer):
        for each in (self.own, self.given):
            each.delete()

        page = viewer.get("/alerts").content.decode()

        assert "Nothing of yours or your teams' fires." in page
        assert "rule is breached" not in page
        assert 'class="tick"' not in page

    def test_its_gpus_are_named_and_explained_where_all_of_the_jobs_time_is_seen(self, viewer):
        gpu = factories.gpu(factories.node(), index=0)
        facts = {"facts": {"gpus": [{"uuid": gpu.uuid}]}}
        own = incident(factories.job("slurm/della/8").key, team=self.nlp, facts=facts)
        given = incident("slurm/della/9", assignee=factories.User.objects.get(), facts=facts)

        of_own, of_given = (
            viewer.get(f"/incidents/{each.pk}").content.decode() for each in (own, given)
        )

        assert "/explain?gpu=" in of_own
        assert "/explain?gpu=" not in of_given
        for page in (of_own, of_given):
            assert "node-001 GPU 0" in " ".join(page.split())
            assert "/gpus/" not in page
            assert "/nodes/" not in page

    def test_to_whom_it_was_given_alone_it_links_no_job_and_no_finding(self, viewer):
        dismissed = told.finding(told.job("slurm/della/2"), "idle_held")
        decide(
            dismissed.pk,
            Decision("dismiss", "the hot spare"),
            by=factories.user(role="admin", username="boss"),
            now=NOW,
        )

        page = tight(viewer.get(f"/incidents/{self.given.pk}").content.decode())

        assert "not waste, until somebody ends that · the hot spare" in in_text(page)
        assert "/findings/" not in page
        assert "/jobs/slurm/" not in page

    def test_only_the_rules_of_what_is_seen_are_offered_and_asked_for(self, viewer):
        hidden = Rule.objects.get(condition="job_hung")
        Rule.objects.filter(pk=hidden.pk).update(name="Secret project hangs")
        incident("slurm/della/7", team=self.others.team, rule=hidden)

        page = viewer.get("/alerts")

        assert page.context["rules"] == [self.own.rule]
        assert "Secret project" not in page.content.decode()
        assert viewer.get(f"/alerts?rule={hidden.pk}").context["asked"]["rule"] == ""

    def test_who_sees_everything_is_offered_every_rule(self, admin):
        assert admin.get("/alerts").context["rules"] == list(Rule.objects.order_by("name"))

    def test_the_owner_of_a_given_one_is_neither_offered_nor_asked_for(self, viewer):
        vision = Team.objects.get(slug="vision")
        of_nora, of_zoe = ({"labels": {"user": [name]}} for name in ("nora", "zoe"))
        incident("slurm/della/5", team=self.nlp, facts=of_nora)
        incident("slurm/della/6", team=vision, assignee=self.given.assignee, facts=of_zoe)

        assert viewer.get("/alerts").context["people"] == ["ann", "nora"]
        assert keys(viewer, "/alerts?user=nora") == ["5"]
        assert keys(viewer, "/alerts?user=zoe") == []
