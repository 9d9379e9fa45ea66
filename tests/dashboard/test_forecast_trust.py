"""What pages of budgets say of how far a forecast is to be relied on, and what helps where what is
no team's is over what is left for it.
"""

from copy import deepcopy
from decimal import Decimal

import pytest

from fleetwatch.accounts.models import Team
from fleetwatch.budgets.models import Outlook
from fleetwatch.ledger.models import Entry
from tests.costs.factories import set_budget
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.test_budgets import shown, spent_for_four_weeks
from tests.shared_rows import shared_rows


@pytest.fixture(scope="module")
def _four_weeks(django_db_setup, django_db_blocker):
    with shared_rows(django_db_blocker):
        yield spent_for_four_weeks()


@pytest.fixture
def team(_four_weeks, db) -> Team:
    return deepcopy(_four_weeks)


def twenty_dollars_of_no_team(held_by=None):
    """Ten hours at $2 where budgets leave $19 for them."""
    gpu, policy = factories.gpu(factories.node("node-002")), factories.policy()
    state = "useful" if held_by else "free"
    Entry.objects.bulk_create(
        factories.entry(gpu, hours_ago=ago, state=state, held_by=held_by, by=policy)
        for ago in range(1, 11)
    )
    month = NOW.date().replace(day=1)
    for of, amount in ((None, 2019), (Team.objects.get(slug="nlp"), 2000)):
        set_budget(of, month, Decimal(amount), repeats=True, now=NOW, by="ann")


@pytest.mark.parametrize(
    ("role", "what"),
    [("finance", "map them to teams"), ("engineer", "finance or an admin maps them to teams")],
)
@pytest.mark.usefixtures("_frozen")
def test_jobs_of_no_team_that_pass_what_is_left_for_them_are_to_be_mapped(client, team, role, what):
    twenty_dollars_of_no_team(held_by=factories.job("slurm/della/9", user="eve", team=""))
    client.force_login(factories.user(role=role, username="rob"))

    answer = client.get("/budgets")

    says = f"over what is left for it $20.00 of it is of jobs without a team: {what}"
    assert says in shown(answer)
    leads = 'href="/settings/mappings#unmapped"' in answer.content.decode()
    assert leads == (role == "finance")


def test_free_gpus_that_pass_what_is_left_for_them_are_no_jobs_to_map(admin, team):
    twenty_dollars_of_no_team()

    page = shown(admin.get("/budgets"))

    assert "over what is left for it all of it is GPUs that no job held; no job is to map" in page
    assert "map them to teams" not in page


def test_a_forecast_that_was_tried_too_few_times_says_so_first_and_beside_its_range(viewer, team):
    Outlook.objects.filter(kind="team").update(tries=[6] * 62)

    page = shown(viewer.get("/budgets/teams/nlp"))

    assert "in 8 of 10 cases, tried on 6 days only." in page
    assert "Accuracy of the forecast Too few days to judge (6)" in page
    assert "of the $504 still to come How it was tried" in page
    assert "They were made on 6 earlier days." in page


def test_a_forecast_that_was_tried_enough_says_how_far_off_it_was_first(viewer, team):
    Outlook.objects.filter(kind="team").update(tries=[14] * 62)

    page = shown(viewer.get("/budgets/teams/nlp"))

    assert "in 8 of 10 cases." in page
    assert "Accuracy of the forecast ±0 % of the $504 still to come How it was tried" in page


def test_the_table_of_budgets_says_once_that_all_ranges_were_tried_too_few_times(viewer, team):
    Outlook.objects.update(tries=[6] * 62)

    page = shown(viewer.get("/budgets"))

    assert "at earlier days, of which there are only 6, too few to rely on;" in page
    assert "tried on 6 days only" not in page


def test_the_table_of_budgets_says_which_range_alone_was_tried_too_few_times(viewer, team):
    Outlook.objects.filter(kind="fleet").update(tries=[14] * 62)
    Outlook.objects.filter(kind="team").update(tries=[6] * 62)

    page = shown(viewer.get("/budgets"))

    assert "too few to rely on" not in page
    assert page.count("tried on 6 days only") == 1


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (-0.1, 0.1, "The range covers 8 of 10 of them. "),
        (-0.1, 0.3, "It reaches further up: where they were far off, mostly more came."),
        (-0.3, 0.1, "It reaches further down: where they were far off, mostly less came."),
    ],
)
def test_the_accuracy_of_a_forecast_says_why_its_range_is_no_plus_or_minus(
    viewer, team, low, high, says
):
    Outlook.objects.update(low=[low] * 31, high=[high] * 31)

    assert says in shown(viewer.get(f"/budgets/teams/{team.slug}"))


def test_a_range_whose_ends_read_alike_says_how_far_off_it_may_be(viewer, team):
    Outlook.objects.update(low=[-0.001] * 31, high=[0.001] * 31)

    # $1,440 expected, and fifty cents more or less
    for place in ("/budgets", "/budgets/teams/nlp"):
        page = shown(viewer.get(place))
        assert "±$5 at most" in page
        assert "$1,440 to $1,440" not in page
