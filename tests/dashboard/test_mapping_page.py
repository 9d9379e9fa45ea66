"""Teams and mapping: everybody reads the rules, admins change them after they saw what moves."""

import re
from datetime import timedelta

import pytest

from fleetwatch.costs.mapping.mappings import add_rule
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, Terms
from fleetwatch.costs.models import MappingRule
from fleetwatch.costs.rates.subjects import BEGINNING
from fleetwatch.ledger.models import ClosedMonth
from tests.dashboard import factories
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db

PAGE = "/settings/mappings"
RULE = {"do": "add", "user": "ann", "team": "vision", "valid_from": "beginning"}
HOSTILE = "<script>alert(1)</script>"


def text_of(response):
    return response.content.decode()


def an_hour_of_ann():
    gpu = factories.gpu(factories.node())
    factories.rate("2.00")
    factories.entry(gpu, hours_ago=48, held_by=factories.job(user="ann", team="nlp")).save()


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_stranger_is_sent_to_the_log_in(client, method):
    assert getattr(client, method)(PAGE)["Location"].startswith("/accounts/login/")


def test_a_viewer_reads_the_rules_and_changes_none(viewer):
    add_rule(
        Terms(Conditions(user="ann"), Gives(team="vision"), valid_from=BEGINNING),
        now=factories.NOW,
    )

    page = viewer.get(PAGE)

    assert "user ann" in text_of(page)
    assert page.context["rules"][0][1:] == ("user ann", "vision", "")
    assert "<h2>Add a rule" not in text_of(page)
    assert viewer.post(PAGE, RULE | {"confirmed": "yes"}).status_code == 403
    assert MappingRule.objects.count() == 1


def test_what_a_rule_moves_is_shown_in_dollars_before_it_is_saved(admin):
    an_hour_of_ann()

    shown = admin.post(PAGE, RULE)

    assert not MappingRule.objects.exists()
    [move] = [move for move in shown.context["moves"] if move.owner == "team"]
    assert (move.origin[0], move.target[0], move.jobs, move.usd) == ("nlp", "vision", 1, 2)
    assert "$2.00" in text_of(shown)
    done = admin.post(PAGE, dict(shown.context["kept"]) | {"confirmed": "yes"}, follow=True)
    assert "user ann belongs to team vision." in text_of(done)
    assert MappingRule.objects.get().team.slug == "vision"


def test_a_rule_from_this_hour_on_is_shown_as_if_it_had_held_before(admin):
    an_hour_of_ann()

    shown = admin.post(PAGE, RULE | {"valid_from": ""})
    page = tight(text_of(shown))
    admin.post(PAGE, dict(shown.context["kept"]) | {"confirmed": "yes"})

    assert [(move.target[0], move.usd) for move in shown.context["moves"]] == [("vision", 2)]
    assert "What it would have moved" in page
    assert "it counts from" in page
    # the form stays open, as it was sent
    assert re.search(r'<details class="add" id="add" ?open', page)
    assert MappingRule.objects.get().valid_from == factories.NOW


def test_a_month_that_is_closed_is_left_out_of_the_trial(admin):
    an_hour_of_ann()
    day = factories.NOW.replace(hour=0)
    ClosedMonth.objects.create(
        month="2026-11-01",
        start=day - timedelta(days=30),
        end=day,
        closed_at=factories.NOW,
        policy=factories.policy(),
    )

    shown = admin.post(PAGE, RULE | {"valid_from": ""})

    assert shown.status_code == 200
    assert shown.context["moves"] == []


def test_what_is_not_mapped_is_there_in_dollars_with_a_link_that_fills_in_the_form(admin):
    an_hour_of_ann()

    page = tight(text_of(admin.get(PAGE)))
    linked = tight(text_of(admin.get(f"{PAGE}?account=a%3Cb%3E")))

    [link] = set(re.findall(r'href="(/settings/mappings[?][^"]+)"', page))
    context = admin.get(PAGE).context
    # without either it is one line, above and below
    assert [(row[0], row[1], row[3]) for row in context["unmapped"]] == [
        ("project, cost centre", 2, 1)
    ]
    assert [owners for _, owners in context["unmapped_lines"]] == [["project", "cost centre"]]
    assert link.startswith("/settings/mappings?")
    assert re.search(r'name="account"[^>]*value="a&lt;b&gt;"', linked)
    assert re.search(r'<details class="add" id="add" ?open', linked)


def test_who_may_not_map_is_not_shown_whose_jobs_are_not_mapped(viewer):
    an_hour_of_ann()

    assert "Not mapped" not in text_of(viewer.get(PAGE))


@pytest.mark.parametrize("do", ["end", "withdraw"])
def test_ending_and_withdrawing_are_shown_first_too(admin, do):
    an_hour_of_ann()
    admin.post(PAGE, RULE | {"confirmed": "yes"})
    change = {"do": do, "id": MappingRule.objects.get().pk}

    shown = admin.post(PAGE, change)
    assert [move.target[0] for move in shown.context["moves"]] == ["nlp"]
    assert MappingRule.objects.get().valid_to is None

    admin.post(PAGE, change | {"confirmed": "yes"})
    assert [rule.valid_to is not None for rule in MappingRule.objects.all()] == (
        [True] if do == "end" else []
    )


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"user": ""}, "At least one of user"),
        ({"team": ""}, "What do they belong to?"),
        ({"priority": "0"}, "A whole number from 1 to 1000"),
        ({"valid_from": "soon"}, "A date, please"),
        ({"valid_to": "2026-02-30"}, "A date, please"),
        ({"label": "=x"}, "key=value"),
        ({"user": "a\x07"}, "control characters"),
        ({"do": "end", "id": "x"}, "A whole number"),
    ],
)
def test_what_can_be_no_rule_is_told_and_what_was_sent_stays(admin, changed, sentence):
    response = admin.post(PAGE, RULE | {"note": HOSTILE} | changed)

    assert response.status_code == 422
    assert sentence in text_of(response)
    assert HOSTILE not in text_of(response)
    assert "&lt;script&gt;" in text_of(response)
    assert not MappingRule.objects.exists()


def test_on_a_narrow_page_a_rules_cells_stand_under_each_other_with_their_names(admin):
    admin.post(PAGE, RULE | {"confirmed": "yes", "priority": "5", "valid_from": ""})

    rules = text_of(admin.get(PAGE)).partition('id="rules"')[2].partition("</table>")[0]

    assert '<table class="stacked">' in rules
    assert re.findall(r'data-label="([^"]+)"', rules) == [
        "Priority",
        "Jobs with",
        "Team",
        "Charged to",
        "Valid",
    ]


def test_where_all_rules_have_the_usual_priority_and_no_end_no_column_says_so(admin):
    admin.post(PAGE, RULE | {"confirmed": "yes"})

    page = text_of(admin.get(PAGE))
    rules = page.partition('id="rules"')[2].partition("</table>")[0]

    assert re.findall(r'data-label="([^"]+)"', rules) == ["Jobs with", "Team", "Charged to"]
    assert "All hold from the beginning on. All have the usual priority." in in_text(tight(page))
    assert "“Withdraw” takes it back as if it had never been" in in_text(tight(page))


def test_a_rule_that_is_gone_is_not_found(admin):
    assert admin.post(PAGE, {"do": "withdraw", "id": "4711"}).status_code == 404


def test_the_waste_page_groups_by_project_and_opens_the_jobs_behind_a_line(admin):
    an_hour_of_ann()
    admin.post(
        PAGE,
        {
            "do": "add",
            "user": "ann",
            "project": "A&B",
            "valid_from": "beginning",
            "confirmed": "yes",
        },
    )

    assert "project=A%26B" in text_of(admin.get("/waste?group_by=project&range=7d"))
    assert [
        line.group.totals.cost_usd
        for line in admin.get("/jobs?project=A%26B&range=7d").context["lines"]
    ] == [2]
    assert "A&amp;B" in text_of(admin.get("/waste?group_by=project&range=7d"))
    assert admin.get("/waste.csv?group_by=cost_centre&range=7d").status_code == 200
