"""Maps of some jobs show their time alone, and leave blank what is others' on the same GPUs."""

from datetime import timedelta

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fleetwatch.accounts.models import Team
from fleetwatch.costs.models import Attribution, MappingRule
from fleetwatch.costs.rates.subjects import BEGINNING
from fleetwatch.dashboard.drawing.others_time import names_jobs, others_cells
from fleetwatch.figures.totals import Scope
from fleetwatch.jobs.models import Hold
from fleetwatch.lib.intervals import HOUR_MS, Interval
from tests import stored_runs
from tests.dashboard import factories

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
TWO_HOURS = Interval(factories.NOW - 2 * HOUR, factories.NOW)


@pytest.fixture
def shared():
    """A GPU that idled: two hours ago for ann's job of nlp, an hour ago for bob's of vision, which
    worked.
    """
    factories.rate("2.00")
    gpu = factories.gpu(factories.node("a"), index=0, hours=2)
    for ago, key, user, team, state in (
        (2, "slurm/della/1", "ann", "nlp", "idle"),
        (1, "slurm/della/2", "bob", "vision", "useful"),
    ):
        job = factories.job(key, user=user, team=team)
        factories.entry(gpu, hours_ago=ago, state=state, held_by=job).save()
        stored_runs.store(
            factories.run(gpu, hours_ago=ago, hours=1, states={state: HOUR_MS}, held_by=job)
        )
        factories.hold(gpu, job, hours_ago=ago, hours=1)
    return gpu


def rows(admin, more: str) -> list[str]:
    """The newest two hours of the GPU's row, the first minute of each."""
    [_, row] = admin.get(f"/charts/fleet?range=6h&as=csv{more}").content.decode().splitlines()
    cells = row.split(",")[1:]
    an_hour = len(cells) // 6
    return [cells[-2 * an_hour + 1], cells[-1]]


def test_a_map_of_a_team_shows_its_time_alone(admin, shared):
    assert rows(admin, "") == ["idle", "useful"]
    assert rows(admin, "&team=nlp") == ["idle", ""]
    assert rows(admin, "&team=vision") == ["", "useful"]
    assert rows(admin, "&node=a") == ["idle", "useful"]


def test_a_square_of_a_team_says_what_its_time_was(admin, shared):
    def square(team: str) -> str:
        return admin.get(f"/fleet?range=6h&view=grid&team={team}").content.decode()

    assert "<title>GPU 0: Idle, 100 % of its cost wasted</title>" in square("nlp")
    assert "<title>GPU 0: Useful</title>" in square("vision")


def test_what_a_map_of_some_jobs_leaves_blank_is_explained(admin, shared):
    why = "Coloured is the time of what the filters name"

    for of_some in ("team=nlp", "team=nlp&view=grid"):
        assert why in admin.get(f"/fleet?range=6h&{of_some}").content.decode()
    for of_all in ("", "node=a", "team=nlp&view=table"):
        assert why not in admin.get(f"/fleet?range=6h&{of_all}").content.decode()


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (2, [False, True]),
        (4, [False, False, True, True]),
        (1, [True]),  # its middle is where bob's begins
        (3, [False, True, True]),
    ],
)
def test_a_cell_is_whose_its_middle_is(shared, count, expected):
    cells = others_cells([shared], TWO_HOURS, count, Scope(team="nlp"))

    assert cells.tolist() == [expected]


def test_what_no_job_held_is_blank_where_one_did(shared):
    longer = Interval(factories.NOW - 3 * HOUR, factories.NOW)

    assert others_cells([shared], longer, 3, Scope(team="")).tolist() == [[False, True, True]]


def test_a_team_that_held_nothing_has_nothing(shared):
    assert others_cells([shared], TWO_HOURS, 2, Scope(team="speech")).all()
    assert others_cells([], TWO_HOURS, 2, Scope(team="nlp")).shape == (0, 2)


def test_machines_and_states_name_no_jobs():
    assert not names_jobs(Scope(node="a", gpu_model="H100 SXM", states=("idle",)))
    assert names_jobs(Scope(label="phase=eval"))


def test_time_before_and_after_the_map_is_not_on_it(shared):
    [hold] = Hold.objects.filter(job__user="ann")
    assert hold.held  # an hour, of which the map below has none
    later = Interval(factories.NOW - HOUR, factories.NOW)

    assert np.all(others_cells([shared], later, 4, Scope(team="nlp")))


@pytest.mark.parametrize("scope", [Scope(team=""), Scope(team="vision")])
def test_of_what_was_held_before_and_after_the_map_nothing_is_read(shared, scope):
    for key, ago in (("slurm/della/3", 900), ("slurm/della/4", -900)):
        factories.hold(shared, factories.job(key, team="vision"), hours_ago=ago, hours=1)
    last_hour = Interval(factories.NOW - HOUR, factories.NOW)

    with CaptureQueriesContext(connection) as queries:
        others_cells([shared], last_hour, 4, scope)

    asked = queries.captured_queries[-1]["sql"]
    assert "jobs_hold" in asked
    with connection.cursor() as cursor:
        cursor.execute(asked)
        assert len(cursor.fetchall()) == 1


@pytest.mark.parametrize(
    ("team", "expected"),
    [("nlp", [False, False, True, True]), ("speech", [True, True, False, True])],
)
def test_a_job_that_moved_is_each_teams_while_it_was_theirs(db, team, expected):
    """It held the GPU for three hours, of which the last was of speech."""
    factories.rate("2.00")
    gpu = factories.gpu(factories.node("a"), index=0, hours=4)
    job = factories.job("slurm/della/1", user="ann", team="nlp")
    moved_at = factories.NOW - 2 * HOUR
    speech = Team.objects.create(slug="speech")
    MappingRule.objects.create(
        user="ann", team=speech, valid_from=moved_at, created_at=factories.NOW
    )
    for start, end, owner in ((BEGINNING, moved_at, job.team), (moved_at, None, speech)):
        Attribution.objects.create(
            job=job, valid_from=start, valid_to=end, team=owner, is_named=True
        )
    factories.hold(gpu, job, hours_ago=4, hours=3)
    for ago in (4, 3, 2):
        factories.entry(gpu, hours_ago=ago, state="idle", held_by=job).save()
    four_hours = Interval(factories.NOW - 4 * HOUR, factories.NOW)

    assert others_cells([gpu], four_hours, 4, Scope(team=team)).tolist() == [expected]
