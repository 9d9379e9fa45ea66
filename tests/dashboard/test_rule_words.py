"""Whom a rule names: who its recipients are, whose what it opens is, and what came next to it."""

import re
from datetime import timedelta
from html import unescape

import pytest

from fleetwatch.alerts.models import Rule
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS
from tests.dashboard import factories
from tests.dashboard.test_rule_pages import text, watch
from tests.diagnosis import told
from tests.markup import in_text

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
IN_PERSON = "The owner, in person"


@pytest.fixture
def _idle_team(db):
    """A job of NLP was idle for four hours, at $2 an hour."""
    factories.rate("2.00")
    gpu = factories.gpu(factories.node())
    job = factories.job("slurm/della/1", user="ann", team="nlp")
    for hours_ago in (6, 5, 4, 3):
        factories.entry(gpu, hours_ago=hours_ago, held_by=job, state="idle").save()


@pytest.mark.usefixtures("_idle_team")
class TestNothingWouldHaveOpened:
    def test_says_the_highest_value_that_lasted_and_of_whom_and_leads_to_it(self, admin):
        rule = Rule.objects.get(condition="waste_of_team")

        shown = text(admin.get(f"{watch(rule)}?days=30&threshold=9"))

        assert "No incident would have opened" in shown
        nearest = "Nearest came nlp, at or above $2.00 /h in each hour of 2 h from"
        assert nearest in in_text(shown)
        assert "threshold=2.00#back-test" in shown
        assert "days=30" in shown.partition("threshold=2.00#back-test")[0][-60:]
        assert "more days" not in shown

    def test_a_rule_of_teams_counts_teams_by_name(self, admin):
        rule = Rule.objects.get(condition="waste_of_team")

        shown = text(admin.get(f"{watch(rule)}?days=30&threshold=2"))

        assert "1 incident, 1 team," in shown
        assert "Most affected: nlp <b>1</b>" in shown

    def test_each_of_its_rows_leads_to_the_waste_of_its_team_and_time(self, admin):
        rule = Rule.objects.get(condition="waste_of_team")

        shown = text(admin.get(f"{watch(rule)}?days=30&threshold=2"))

        [row] = re.findall(r'href="(/waste\?team=nlp[^"]*from=[^"]*)"', shown)
        answer = admin.get(unescape(row))
        assert answer.status_code == 200
        assert "$8.00" in text(answer)

    def test_a_row_and_the_sum_say_what_beside_their_dollars_is_agreed(self, admin):
        """Of $8 somebody closed the finding that explains $1, half of an hour."""
        half = {"start": told.NOW - 4 * HOUR, "hours": 0.5}
        told.cause(of=Job.objects.get(), on=GPU.objects.get(), **half)
        told.finding(Job.objects.get(), status="dismissed")
        rule = Rule.objects.get(condition="waste_of_team")

        shown = in_text(text(admin.get(f"{watch(rule)}?days=30&threshold=1")))

        assert "1 incident, 1 team, $7.00 while open, without $1.00 agreed as not waste" in shown
        assert "$7.00 without $1.00 agreed as not waste" in shown

    def test_what_is_agreed_as_not_waste_would_open_nothing(self, admin):
        """Of each of four hours half of the $2 is agreed: of $1.50 an hour there is none."""
        for hours_ago in (6, 5, 4, 3):
            half = {"start": told.NOW - hours_ago * HOUR, "hours": 0.5}
            told.cause(of=Job.objects.get(), on=GPU.objects.get(), **half)
        told.finding(Job.objects.get(), status="dismissed")
        rule = Rule.objects.get(condition="waste_of_team")

        shown = in_text(text(admin.get(f"{watch(rule)}?days=30&threshold=1.5")))

        assert "No incident would have opened" in shown
        assert "Nearest came nlp, at or above $1.00 /h in each hour of 2 h from" in shown

    def test_suggests_a_threshold_that_a_few_would_have_reached(self, admin):
        """nlp wasted $2 an hour, vision $1."""
        gpu = factories.gpu(factories.node("node-002"))
        job = factories.job("slurm/della/2", user="bob", team="vision")
        for hours_ago in (6, 5, 4, 3):
            half = HOUR_MS // 2
            factories.entry(gpu, hours_ago=hours_ago, held_by=job, state="idle", gpu_ms=half).save()
        rule = Rule.objects.get(condition="waste_of_team")

        shown = text(admin.get(f"{watch(rule)}?days=30&threshold=9"))

        assert "Try $1.00 /h , which would have opened a few" in in_text(shown)
        again = admin.get(f"{watch(rule)}?days=30&threshold=1.00")
        assert "2 incidents, 2 teams" in in_text(text(again))

    def test_its_page_opens_with_its_back_test_which_comes_a_moment_later(self, admin):
        rule = Rule.objects.get(condition="waste_of_team")

        shown = text(admin.get(watch(rule)))

        assert 'hx-get="?days=30"' in shown
        assert shown.count('id="back-test"') == 1
        later = text(admin.get(f"{watch(rule)}?days=30"))
        assert "hx-get" not in later.partition('id="back-test"')[2].partition("</section>")[0]


def test_the_form_offers_the_owner_of_those_rules_alone_whose_list_names_one(admin):
    """Of every shipped rule."""
    page = admin.get("/alerts/rules")
    for _, lines in page.context["groups"]:
        for line in lines:
            shown = text(admin.get(watch(line.rule)))
            hears_first = line.watched.hears_first.replace("'", "&#x27;")
            is_owned = line.watched.hears_first == "the owner, where there is one"

            assert (IN_PERSON in shown) == is_owned, line.watched.name
            assert (f"First {hears_first}, and its assignee." in shown) != is_owned


def test_whom_such_a_rule_is_given_to_is_still_told_once_its_form_is_saved(admin):
    rule = Rule.objects.get(condition="waste_of_team")
    shown = text(admin.get(watch(rule)))

    assert '<input type="hidden" name="tells_owner" value="on">' in shown
