"""/fleet: nodes in order and in pages, as a map, squares or a table that opens; what a cell tells."""

import re
from datetime import timedelta

import pytest
import time_machine

from fleetwatch.accounts.models import Team
from fleetwatch.alerts.models import Rule
from fleetwatch.dashboard import node_lines, selectors
from fleetwatch.dashboard.drawing import fleet_chart, maps
from fleetwatch.dashboard.views import fleet as fleet_views
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib import rows
from fleetwatch.lib.intervals import Interval, to_ms
from tests import stored_runs
from tests.alerts.factories import an_incident
from tests.dashboard import factories
from tests.dashboard.cells import cells_of
from tests.diagnosis import told
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db

DAY = "range=24h"


@pytest.fixture
def three(admin):
    """Three nodes of two GPUs at $2.00: of the last two hours b wasted four GPU-hours, c one."""
    factories.rate("2.00")
    job = factories.job("slurm/della/1", name="<b>sweep</b>", user="ann")
    for name, idle in (("a", 0), ("b", 4), ("c", 1)):
        node = factories.node(name)
        for index in (0, 1):
            gpu = factories.gpu(node, index=index, hours=2)
            for ago in (2, 1):
                state = "idle" if idle > 0 else "useful"
                idle -= 1
                factories.entry(gpu, hours_ago=ago, state=state, held_by=job).save()
                stored_runs.store(
                    factories.run(
                        gpu, hours_ago=ago, hours=1, states={state: 3_600_000}, held_by=job
                    )
                )
    return admin


def test_the_map_has_the_most_waste_first_or_nodes_by_name(three):
    def names(more):
        figure = three.get(f"/charts/fleet?{DAY}{more}").json()
        return figure["layout"]["yaxis"]["ticktext"]

    assert names("") == ["b", "c", "a"]
    assert names("&sort=name") == ["a", "b", "c"]
    assert three.get(f"/charts/fleet?{DAY}&sort=size").status_code == 404


@pytest.mark.parametrize("metric", ["state", "util"])
def test_rows_lead_to_their_gpu_whatever_its_uuid_is(three, metric):
    plain, other = GPU.objects.filter(node__name="a").order_by("index")
    GPU.objects.filter(pk=other.pk).update(uuid="<i>?&")

    figure = three.get(f"/charts/fleet?{DAY}&metric={metric}&sort=name").json()

    meta = figure["data"][0]["meta"]
    assert meta["names"][:2] == ["a · 0", "a · 1"]
    assert meta["links"][:2] == [f"/gpus/{plain.uuid}", "/gpus/%3Ci%3E%3F%26"]


@pytest.mark.parametrize("period", ["range=24h", "from=now-26h/h&to=now-2h", "range=30d"])
def test_what_a_map_of_readings_by_name_shows_is_read_in_one_go(three, monkeypatch, period):
    alone = []
    fetched_alone = rows._fetched

    def spied(connection, statement, *parameters, **how):
        alone.append(statement)
        return fetched_alone(connection, statement, *parameters, **how)

    monkeypatch.setattr(rows, "_fetched", spied)

    figure = three.get(f"/charts/fleet?{period}&metric=util&sort=name").json()

    assert figure["layout"]["yaxis"]["ticktext"] == ["a", "b", "c"]
    tables = ("telemetry_daymatrix", "ledger_posted", "inventory_gpu")
    assert [table for table in tables for statement in alone if table in statement] == []


def test_dollars_are_a_metric_by_the_hour_and_unknown_where_the_ledger_says_nothing(three):
    rows = three.get(f"/charts/fleet?{DAY}&metric=waste&as=csv").content.decode().splitlines()

    assert rows[1].split(",")[-2:] == ["2.0", "2.0"]  # b GPU 0 idled twice
    assert rows[3].split(",")[-2:] == ["2.0", "0.0"]  # c GPU 0 once
    assert rows[1].split(",")[1] == ""
    cells = cells_of(three.get(f"/charts/fleet?{DAY}&metric=waste").json()["data"][0])
    assert cells[0][-2:] == [250, 250]  # the dearest cell's shade


@pytest.mark.parametrize(("period", "unit"), [(DAY, "a GPU-hour"), ("range=7d", "a GPU-day")])
def test_the_scale_of_dollars_ends_with_the_dearest_cell_and_what_it_is_of(three, period, unit):
    figure = three.get(f"/charts/fleet?{period}&metric=waste").json()
    page = in_text(tight(three.get(f"/fleet?{period}&metric=waste").content.decode()))
    of_state = three.get(f"/charts/fleet?{period}").json()

    # of today the ledger has two hours: $4.00 of them are $48 of a day
    assert figure["data"][0]["meta"]["most"] == {"a GPU-hour": "$2.00"}.get(unit, "$48.00")
    assert f"$0 the dearest one shown {unit}" in page
    assert "most" not in of_state["data"][0]["meta"]


PART = f"from={to_ms(factories.NOW) - 5_400_000}&to={to_ms(factories.NOW) + 1_200_000}"


@pytest.fixture
def twenty_minutes_on(three):
    """The clock stands at 12:20, and the ledger has ten minutes of that hour, useful on node a and
    idle on b.
    """
    for name, state in (("a", "useful"), ("b", "idle")):
        for gpu in GPU.objects.filter(node__name=name):
            ten = {"hours_ago": 0, "held_by": Job.objects.get()}
            factories.entry(gpu, state=state, gpu_ms=600_000, **ten).save()
            stored_runs.store(factories.run(gpu, hours=1 / 6, states={state: 600_000}, **ten))
    with time_machine.travel(factories.NOW + timedelta(minutes=20), tick=False):
        yield three


@pytest.mark.parametrize(("narrowed", "rows"), [("", 6), ("&node=a", 2)])
def test_an_hour_that_is_cut_short_is_coloured_by_its_dollars_an_hour(
    twenty_minutes_on, narrowed, rows
):
    """From 10:30: half an hour, an hour, and ten minutes at $2 an hour are of one colour."""
    asked = f"/charts/fleet?{PART}&metric=cost&sort=name{narrowed}"
    figure = twenty_minutes_on.get(asked).json()["data"][0]
    table = twenty_minutes_on.get(f"{asked}&as=csv").content.decode().splitlines()

    cells = cells_of(figure)
    assert cells[0] == [250, 250, 250]
    assert len(table) == 1 + rows
    assert [round(float(usd), 2) for usd in table[1].split(",")[1:]] == [1.0, 2.0, 0.33]
    assert figure["meta"]["most"] == "$2.00"


def test_the_hour_in_which_a_gpu_came_is_coloured_by_its_dollars_an_hour(admin):
    """It came at 10:30: half an hour of $1.00, and an hour of $2.00."""
    factories.rate("2.00")
    gpu = factories.gpu(factories.node(), hours=1.5)
    job = factories.job()
    for ago, begun_ago, gpu_ms in ((2, 1.5, 1_800_000), (1, 1, 3_600_000)):
        useful = {"state": "useful", "held_by": job}
        factories.entry(gpu, hours_ago=ago, gpu_ms=gpu_ms, **useful).save()
        states = {"useful": gpu_ms}
        hours = gpu_ms / 3_600_000
        stored_runs.store(
            factories.run(gpu, hours_ago=begun_ago, hours=hours, states=states, held_by=job)
        )

    figure = admin.get(f"/charts/fleet?{DAY}&metric=cost").json()["data"][0]

    assert cells_of(figure)[0][-2:] == [250, 250]
    assert figure["meta"]["most"] == "$2.00"


def test_of_a_running_hour_waste_is_coloured_by_the_minutes_that_the_ledger_has(twenty_minutes_on):
    asked = f"/charts/fleet?{PART}&metric=waste&sort=name"
    cells = cells_of(twenty_minutes_on.get(asked).json()["data"][0])

    assert [row[-1] for row in cells if any(cell is not None for cell in row)][:2] == [0, 0]
    assert 250 in [row[-1] for row in cells]


def test_a_cell_of_an_hour_that_is_not_over_says_how_much_of_it_its_dollars_are(twenty_minutes_on):
    first_ms = to_ms(factories.NOW)

    running, over = (
        in_text(tight(twenty_minutes_on.get(f"/gpus/GPU-b-0/cell?{hour}").content.decode()))
        for hour in (
            f"from={first_ms}&to={first_ms + 3_600_000}",
            f"from={first_ms - 3_600_000}&to={first_ms}",
        )
    )

    assert "$0.33 (only 10 min of it)" in running
    assert "only" not in over


@pytest.mark.parametrize(
    ("metric", "scale", "of_node"),
    [
        ("cost", "$0 $4.00 a GPU", "$8.00"),
        ("waste", "$0 $4.00 a GPU", "$8.00 wasted"),
        ("state", "", "$8.00 wasted"),
    ],
)
def test_squares_of_dollars_end_their_scale_in_the_figure_and_say_the_nodes_own(
    three, metric, scale, of_node
):
    page = in_text(tight(three.get(f"/fleet?{DAY}&view=grid&metric={metric}").content.decode()))
    squares = page.partition(" of each GPU")[2]

    assert scale in squares
    assert f"{of_node} " in squares
    assert ("wasted" in squares.partition("Empty")[0]) is (of_node != "$8.00")
    assert "the dearest one shown" not in page


def test_a_team_that_there_is_not_is_said_and_one_without_time_is_not_denied(three):
    Team.objects.create(slug="quiet", name="Quiet")

    none = three.get(f"/fleet?{DAY}&team=<b>nosuch").content.decode()
    quiet = three.get(f"/fleet?{DAY}&team=quiet").content.decode()

    assert "There is no team &lt;b&gt;nosuch" in none
    assert "There is no team" not in quiet
    assert "what the filters name in this period" in quiet


@pytest.mark.parametrize(("user", "is_shown"), [("ann", True), ("bo", False)])
def test_a_broken_gpu_without_time_of_what_the_filters_name_is_not_said(three, user, is_shown):
    """Ann held both GPUs of node b, bo the one that works."""
    broken, works = GPU.objects.filter(node__name="b").order_by("index")
    factories.entry(works, hours_ago=1, held_by=factories.job("slurm/della/2", user="bo")).save()
    rule = Rule.objects.get(condition="gpu_memory_errors")
    an_incident(rule, broken.uuid, opened_at=factories.NOW)

    answer = three.get(f"/fleet?{DAY}&user={user}")

    assert [mark.gpu.uuid for mark in answer.context["broken"]] == [broken.uuid] * is_shown


def idle_as_agreed() -> GPU:
    """An hour of it idled for a job whose finding somebody closed as no waste."""
    told.rate("2.00")
    on = told.gpu(1)
    job = told.job("slurm/della/1")
    factories.hold(on, job, hours_ago=2, hours=1)
    factories.entry(on, hours_ago=2, state="idle", held_by=job).save()
    told.cause(of=job, on=on)
    told.finding(job, status="dismissed")
    return on


def test_a_cell_says_what_of_its_waste_is_agreed_to_be_none(admin):
    on = idle_as_agreed()

    cell = in_text(tight(admin.get(f"/gpus/{on.uuid}/cell?from=now-2h&to=now").content.decode()))

    assert "$2.00 wasted , $2.00 of it agreed as not waste" in cell


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("/fleet?range=24h", "$2.00 of it agreed as not waste"),
        (
            "/nodes/n1",
            "of it agreed as not waste: $2.00 ; not agreed, or too new to be judged: $0.00",
        ),
        (
            "/gpus/GPU-n1-1",
            "of it agreed as not waste: $2.00 ; not agreed, or too new to be judged: $0.00",
        ),
    ],
)
def test_the_headline_says_what_of_the_waste_is_agreed_to_be_none(admin, address, says):
    idle_as_agreed()

    page = in_text(tight(admin.get(address).content.decode()))

    assert says in page
    assert page.count("agreed as not waste") == 1  # and none of a row of its own


def test_what_is_agreed_as_not_waste_leads_to_the_findings_that_are(admin):
    on = idle_as_agreed()

    page = tight(admin.get(f"/fleet?range=24h&node={on.node.name}").content.decode())

    [link] = re.findall(r'href="(/findings[^"]*dismissed)"', page)
    assert f"from=now-24h&amp;to=now&amp;node={on.node.name}&amp;" in link
    assert "Agreed as not waste" in admin.get(link.replace("&amp;", "&")).content.decode()


def test_shares_of_all_cost_say_so_once(three):
    page = in_text(tight(three.get(f"/fleet?{DAY}").content.decode()))

    assert page.count("share of all cost") == 1


def test_pages_are_of_whole_nodes_and_lead_on(three, monkeypatch):
    monkeypatch.setattr(fleet_views, "MAX_GPUS", 3)
    monkeypatch.setattr(fleet_chart, "MAX_GPUS", 3)

    first = three.get(f"/fleet?{DAY}&view=grid").content.decode()
    file = three.get(f"/charts/fleet?{DAY}&as=csv&after=b")

    assert "nodes 1 to 1 of 3" in first
    assert "after=b" in first
    assert file.content.decode().splitlines()[1].startswith("c · 0,")
    assert file["Link"] == f'</charts/fleet?{DAY}&as=csv&after=c>; rel="next"'
    assert "There is no page after" in three.get(f"/fleet?{DAY}&after=x").content.decode()


@pytest.mark.parametrize(("room", "shown"), [(1, "a"), (2, "a"), (3, "a"), (4, "ab"), (6, "abc")])
def test_a_page_has_one_node_at_least_and_no_part_of_one(three, room, shown):
    nodes = selectors.machines()

    part, pager = node_lines.page_of(nodes, after="", gpus=room)

    assert "".join(node.name for node in nodes[part]) == shown
    assert pager.after == ("" if shown == "abc" else shown[-1])


def test_the_table_opens_to_the_gpus_of_a_node_and_closes(three):
    page = three.get(f"/fleet?{DAY}&view=table&open=b").content.decode()

    assert page.count('class="opened"') == 2
    assert "open=b%2Cc" in page
    assert "/gpus/GPU-b-0" in page


def test_a_square_says_what_took_most_of_the_period(three):
    page = three.get(f"/fleet?{DAY}&view=grid").content.decode()

    assert page.count("<title>GPU 0: Idle, 100 % of its cost wasted</title>") == 1
    assert page.count("<title>GPU 0: Idle, 50 % of its cost wasted</title>") == 1
    assert page.count('class="wasted-part"') == 3
    assert 'aria-label="Useful: GPU 0, 1"' in page
    assert re.search(r'aria-hidden="true"\s*>\s*1\s*</text>', page)


def test_a_cell_tells_state_job_owner_and_dollars_and_no_markup(three):
    hour = f"from={to_ms(factories.NOW) - 3_600_000}&to={to_ms(factories.NOW)}"

    cell = three.get(f"/gpus/GPU-b-0/cell?{hour}").content.decode()

    assert "Idle" in cell
    assert "&lt;b&gt;sweep&lt;/b&gt;" in cell
    assert "ann" in cell
    assert "$2.00" in cell
    assert three.get(f"/gpus/none/cell?{hour}").status_code == 404
    assert three.get("/gpus/GPU-b-0/cell?x=1").status_code == 422


def test_a_large_fleets_day_is_read_by_the_hour_and_six_hours_of_it_to_the_minute():
    hour = maps.HOUR_MS
    day, quarter = (
        Interval(factories.NOW - timedelta(hours=hours), factories.NOW) for hours in (24, 6)
    )

    assert maps._step_ms("state", day, 333) < hour
    assert maps._step_ms("state", day, 334) == hour
    assert maps._step_ms("state", quarter, 1000) < hour


def test_filters_that_no_gpu_fits_lead_out_of_themselves(three):
    page = three.get(f"/fleet?{DAY}&user=nosuch").content.decode()

    assert "No GPU worked for" in page
    assert "Clear the filters" in page
    assert 'id="nodes"' not in page
