"""Maps and bands of states: what only utilisation tells is not useful, and what a service waits is no
waste.
"""

import re
from datetime import timedelta
from itertools import groupby
from typing import Any

import pytest

from fleetwatch.dashboard import words
from fleetwatch.dashboard.drawing import fleet_chart
from fleetwatch.dashboard.selectors import BAND_CELLS, states
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import Entry, Run
from fleetwatch.ledger.policy import SHOWN_STATES
from fleetwatch.lib.intervals import Interval
from tests import stored_runs
from tests.dashboard import factories
from tests.dashboard.cells import cells_of

pytestmark = pytest.mark.django_db

MEASURED = {"efficiency_source": "sensors"}
UNVERIFIED = {"efficiency_source": "none"}
WAITING = {"tier": "potential"}
BATCH, SERVICE = "slurm/della/1", "slurm/della/2"
PERIOD = "from=now-4h&to=now"


def spent(
    gpu: GPU, job: Job, *, hours_ago: int, parts: list[tuple[str, int, dict[str, Any]]]
) -> None:
    """An hour's entries (state, minutes, what else they say) and the run of the hour."""
    states: dict[str, int] = {}
    for state, minutes, said in parts:
        gpu_ms = minutes * 60_000
        factories.entry(
            gpu, hours_ago=hours_ago, state=state, gpu_ms=gpu_ms, held_by=job, **said
        ).save()
        states[state] = states.get(state, 0) + gpu_ms
    stored_runs.store(factories.run(gpu, hours_ago=hours_ago, hours=1, states=states, held_by=job))


@pytest.fixture
def fleet(admin):
    """One GPU over four hours: useful and busy, unverified, of a batch job that stalls an hour, then
    an hour in which a service waits.
    """
    gpu = factories.gpu(factories.node(), hours=4)
    factories.rate("2.00")
    batch, service = factories.job(BATCH), factories.job(SERVICE, kind="service")
    factories.hold(gpu, batch, hours_ago=4, hours=3)
    factories.hold(gpu, service, hours_ago=1, hours=1)
    spent(gpu, batch, hours_ago=4, parts=[("useful", 60, MEASURED)])
    spent(gpu, batch, hours_ago=3, parts=[("useful", 60, UNVERIFIED)])
    spent(gpu, batch, hours_ago=2, parts=[("stalled", 60, {})])
    spent(gpu, service, hours_ago=1, parts=[("stalled", 60, WAITING)])
    return admin


def last_cells(client, period: str, count: int) -> list[str]:
    """The names of the states of the last cells of the fleet's first GPU."""
    [row] = cells_of(client.get(f"/charts/fleet?{period}").json()["data"][0])
    return [SHOWN_STATES[cell] for cell in row[-count:]]


def states_of_bands(page: str) -> list[str]:
    """The classes of the rectangles of bands (their titles are bare labels) in their order."""
    labels = {state.label: state.name for state in words.SHOWN}
    return [
        labels[title]
        for title in (
            rectangle.partition("</title>")[0].partition("<title>")[2]
            for rectangle in page.split("<rect class=")[1:]
        )
        if title in labels
    ]


def test_the_ledger_and_the_pages_have_the_shown_states_in_one_order():
    assert words.NAMES == SHOWN_STATES


@pytest.mark.parametrize(("period", "cells_per_hour"), [(PERIOD, 60), ("from=now-40h&to=now", 1)])
def test_the_map_has_them_apart_from_runs_and_from_hours(fleet, period, cells_per_hour):
    cells = last_cells(fleet, period, 4 * cells_per_hour)

    assert cells[::cells_per_hour] == ["useful", "unverified", "stalled", "waiting"]


def test_the_map_as_a_table_names_them(fleet):
    table = fleet.get(f"/charts/fleet?{PERIOD}&as=csv").content.decode().splitlines()[1]

    assert table.split(",")[1::60] == ["useful", "unverified", "stalled", "waiting"]


def test_the_rows_of_a_table_are_made_once(fleet, monkeypatch):
    made = []
    rows_of = fleet_chart.rows_of

    def noted(*of):
        made.append(of)
        return rows_of(*of)

    monkeypatch.setattr(fleet_chart, "rows_of", noted)

    page = fleet.get(f"/charts/fleet?{PERIOD}&as=table").content.decode()

    assert "<h2>1 rows</h2>" in page
    assert len(made) == 1


def test_the_fleets_legend_names_those_that_it_has(fleet):
    page = fleet.get(f"/fleet?{PERIOD}").content.decode()
    legend = page.partition('<ul class="legend">')[2].partition("</ul>")[0]

    assert legend.count("<li>") == 4
    assert "Busy, unverified" in legend
    assert "Waiting" in legend


def test_the_bands_of_a_gpu_have_them_apart(fleet):
    worst = fleet.get("/worst", headers={"HX-Request": "true"}).content.decode()
    chart = fleet.get(f"/charts/gpu?gpu=GPU-node-001-0&{PERIOD}&as=svg").content.decode()

    assert states_of_bands(worst) == ["useful", "unverified", "stalled", "waiting"]
    drawn = re.findall(r'<rect class="" style="--c:var\(--(\w+)\)"', chart)
    assert drawn == ["useful", "unverified", "stalled", "waiting"]


@pytest.mark.parametrize("hours", [287, 288, 312])
def test_a_band_has_them_apart_from_runs_and_in_cells_of_hours_from_hours(fleet, hours):
    end = factories.NOW
    [cells] = states(
        [GPU.objects.get().pk], Interval(end - timedelta(hours=hours), end), BAND_CELLS
    )

    shown = [SHOWN_STATES[cell] for cell, _ in groupby(cells) if cell >= 0]
    assert shown == ["useful", "unverified", "stalled", "waiting"]


def test_a_jobs_band_has_its_own_share_and_not_that_of_who_shares_the_gpu(admin):
    gpu = factories.gpu(factories.node(), hours=4)
    batch, service = factories.job(BATCH), factories.job(SERVICE, kind="service")
    for holder, said in ((batch, {}), (service, WAITING)):
        factories.hold(gpu, holder, hours_ago=1, hours=1)
        spent(gpu, holder, hours_ago=1, parts=[("stalled", 30, said)])

    bands = {
        key: states_of_bands(admin.get(f"/jobs/{key}?{PERIOD}").content.decode())
        for key in (BATCH, SERVICE)
    }

    assert bands == {BATCH: ["stalled"], SERVICE: ["waiting"]}


@pytest.mark.parametrize(
    ("unverified_minutes", "state"), [(29, "useful"), (30, "useful"), (31, "unverified")]
)
def test_a_cell_is_unverified_where_that_is_most_of_it(admin, unverified_minutes, state):
    gpu = factories.gpu(factories.node(), hours=1)
    job = factories.job(BATCH)
    measured = ("useful", 60 - unverified_minutes, MEASURED)
    spent(gpu, job, hours_ago=1, parts=[measured, ("useful", unverified_minutes, UNVERIFIED)])

    assert set(last_cells(admin, "from=now-1h&to=now", 60)) == {state}


def test_entries_and_runs_of_other_hours_say_nothing_of_an_hour(admin):
    gpu = factories.gpu(factories.node(), hours=2)
    job = factories.job(BATCH)
    spent(gpu, job, hours_ago=2, parts=[("useful", 60, UNVERIFIED)])
    spent(gpu, job, hours_ago=1, parts=[("useful", 60, MEASURED)])

    assert set(last_cells(admin, "from=now-1h&to=now", 60)) == {"useful"}
    # a period that begins within an hour has that hour's share
    assert last_cells(admin, "from=now-90m&to=now", 90)[0] == "unverified"
    assert Run.objects.count() == Entry.objects.count() == 2
