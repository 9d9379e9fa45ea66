"""Periods on pages are exactly what they say; nothing lies in the future; no part of an hour looks
like a whole one.
"""

import csv
import io
from datetime import timedelta

import pytest
import time_machine
from django.contrib.messages import get_messages

from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import HOUR_MS, MINUTE_MS
from tests import stored_runs
from tests.dashboard import factories
from tests.dashboard.factories import NOW

pytestmark = pytest.mark.django_db

AT = NOW + timedelta(minutes=46)  # 12:46


@pytest.fixture
def at_1246(client):
    """A GPU at $2 an hour, idle and held since 09:00, seen on a page at 12:46; posted until
    12:45.
    """
    client.force_login(factories.user())
    gpu, job = factories.gpu(factories.node(now=AT), now=AT, hours=4), factories.job()
    factories.rate("2.00")
    for hours_ago, minutes in ((3, 60), (2, 60), (1, 60), (0, 45)):
        ms = minutes * MINUTE_MS
        factories.entry(gpu, hours_ago=hours_ago, state="idle", gpu_ms=ms, held_by=job).save()
        stored_runs.store(
            factories.run(
                gpu, hours_ago=hours_ago, hours=minutes / 60, states={"idle": ms}, held_by=job
            )
        )
    with time_machine.travel(AT, tick=False):
        yield client


def rows_of(answer):
    return list(csv.DictReader(io.StringIO(answer.content.decode())))


def test_the_last_hour_is_an_hour(at_1246):
    [row] = rows_of(at_1246.get("/waste.csv?range=1h&group_by=node"))

    # 14 minutes before noon, and the 45 that the ledger has since
    assert row["capacity_gpu_hours"] == "0.983333"
    assert (row["from_utc"], row["to_utc"]) == ("2026-11-20T11:46:00Z", "2026-11-20T12:46:00Z")


def test_pages_that_are_opened_within_a_minute_show_the_same_dollars(at_1246):
    """The GPU's page, its node's and the costs, seconds after each other; and what began since."""
    uuid = GPU.objects.get().uuid
    shown = []
    for seconds, page in enumerate((f"/gpus/{uuid}", "/nodes/node-001", "/costs"), start=1):
        with time_machine.travel(AT + timedelta(seconds=17 * seconds), tick=False):
            context = at_1246.get(f"{page}?range=1h").context
            shown.append(context["seen"].whole.totals if "seen" in context else context["totals"])
    with time_machine.travel(AT + timedelta(seconds=40), tick=False):
        since = at_1246.get("/costs?from=2026-11-20T12:46:20Z&to=now").context["timeframe"]

    assert {totals.cost_usd for totals in shown} == {shown[0].cost_usd}
    assert shown[0].capacity_ms == 59 * MINUTE_MS
    assert since.interval.end == AT + timedelta(seconds=40)


def test_no_file_reaches_into_the_future(at_1246):
    [row] = rows_of(at_1246.get("/waste.csv?from=2026-11-20&to=2026-11-30&group_by=node"))
    spent = rows_of(at_1246.get("/charts/spend?from=2026-11-20&to=2026-11-30&as=csv"))

    assert row["to_utc"] == "2026-11-20T12:46:00Z"
    assert max(line["End (UTC)"] for line in spent) == "2026-11-20 12:46"


@pytest.mark.parametrize("metric", ["state", "power"])
def test_no_map_and_no_curve_reaches_into_the_future(at_1246, metric):
    period = "from=2026-11-20T10:00Z&to=2026-11-20T18:00Z&as=csv"
    uuid = GPU.objects.get().uuid

    map_of = rows_of(at_1246.get(f"/charts/fleet?metric={metric}&{period}"))[0]
    curve = rows_of(at_1246.get(f"/charts/gpu-util?gpu={uuid}&{period}"))

    assert "2026-11-20 12:4" in list(map_of)[-1]
    assert all(line["Start (UTC)"] < "2026-11-20 12:46" for line in curve)
    assert curve


def test_a_part_of_an_hour_is_as_high_as_its_dollars(at_1246):
    trace = at_1246.get("/charts/spend?range=1h").json()["data"][0]

    assert trace["x"] == ["2026-11-20T11:46:00", "2026-11-20T12:00:00"]
    # 14 minutes before noon; of the 46 since then the ledger has 45, as 14 minutes of the GPU
    # before tell
    assert trace["customdata"] == [pytest.approx(2 * 14 / 60, abs=1e-6), 1.5]
    assert trace["y"] == trace["customdata"]
    # as narrow as the part, but at least a quarter of an hour's bar, so that it can be pointed at
    assert trace["width"] == [
        pytest.approx(0.84 * HOUR_MS / 4),
        pytest.approx(0.84 * 46 * MINUTE_MS),
    ]


def test_what_began_a_minute_ago_is_not_drawn_as_nothing(at_1246):
    with time_machine.travel(NOW.replace(hour=13, minute=1), tick=False):
        trace = at_1246.get("/charts/spend?range=6h").json()["data"][0]

    assert trace["x"][-1] == "2026-11-20T12:00:00"


def test_the_hubs_first_hour_shows_its_money_everywhere(client):
    """15 minutes of two GPUs at $2: one dollar in the cards, the chart and the budget."""
    client.force_login(factories.user())
    node, job = factories.node(now=AT), factories.job()
    factories.rate("2.00")
    for index in range(2):
        gpu = factories.gpu(node, index=index, now=AT, hours=1)
        factories.entry(gpu, hours_ago=0, state="useful", gpu_ms=15 * MINUTE_MS, held_by=job).save()
    with time_machine.travel(NOW + timedelta(minutes=16), tick=False):
        page = client.get("/").content.decode()
        figure = client.get("/charts/spend?range=7d").json()
        budgets = client.get("/budgets").content.decode()

    assert "$1.00" in page
    assert [trace["customdata"][-1] for trace in figure["data"]] == [1.0]
    assert "$1.00" in budgets


def test_the_axis_of_cents_reads_cents(at_1246):
    layout = at_1246.get("/charts/spend?range=1h").json()["layout"]

    assert layout["yaxis"]["tickformat"] == "$,.2f"


@pytest.mark.parametrize(
    "address", ["/nodes/none", "/gpus/none", "/causes/none", "/budgets/teams/none"]
)
def test_nothing_is_said_of_the_period_of_what_there_is_not(client, address):
    client.force_login(factories.user())

    answer = client.get(f"{address}?from=nonsense")

    assert answer.status_code == 404
    assert not any("nonsense" in str(message) for message in get_messages(answer.wsgi_request))


def test_paper_is_headed_by_the_period_of_pages_that_have_one_alone(admin):
    factories.gpu(factories.node())

    waste, teams = (admin.get(address).content.decode() for address in ("/waste", "/teams"))

    assert "· Last 7 days" in waste.partition('<p class="print-only">')[2].partition("</p>")[0]
    assert "·" not in teams.partition('<p class="print-only">')[2].partition("</p>")[0]
