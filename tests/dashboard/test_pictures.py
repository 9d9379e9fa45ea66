"""Every chart as a picture (drawing/picture.py), for whoever has no JavaScript."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from xml.etree import ElementTree

import numpy as np
import pytest
import time_machine

from fleetwatch.accounts import visibility
from fleetwatch.accounts.models import Team
from fleetwatch.alerts.models import Incident
from fleetwatch.budgets.models import Budget
from fleetwatch.dashboard.drawing import figures, grid, heat_map
from fleetwatch.dashboard.drawing.charts import CHARTS
from fleetwatch.dashboard.drawing.figures import Bar, Line, Part
from fleetwatch.dashboard.drawing.heat_map import Rows
from fleetwatch.dashboard.drawing.picture import MOST_GPUS, picture
from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.diagnosis.services import diagnose
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from tests.dashboard import factories, fleet
from tests.diagnosis import told
from tests.ledger.fleet import NOW, QUIET, T0, Sender, a_job, held, post
from tests.markup import tight
from tests.reports import factories as reports

# causes that are told by readings that swing
SWINGING = {
    *("data_starved", "checkpoint_stall", "bursty_service", "partial_idle"),
    *("communication_bound", "small_batch"),
}
START = datetime(2026, 11, 20, tzinfo=UTC)
HOURS = [START + timedelta(hours=number) for number in range(5)]
SVG = "{http://www.w3.org/2000/svg}"
GPU_0 = "gpu=GPU-node-001-0"
DAY = "from=now-24h&to=now"
# what each chart is asked for; of findings below
ASKED = {
    "spend": ["range=24h", "range=7d", "range=30d", f"{GPU_0}&range=24h"],
    "wasted": ["range=24h", "range=7d", "range=30d", "from=now-36h&to=now-24h"],
    "costs": ["range=24h&group_by=user", "range=7d&group_by=state", "range=7d&step=day"],
    "budget": ["", "team=nlp-research"],
    "fleet": [f"{DAY}&metric={metric}" for metric in ("state", "util", "waste", "cost")],
    "gpu": [f"{GPU_0}&{DAY}"],
    "gpu-slowed": [f"{GPU_0}&{DAY}"],
    "gpus-util": [f"{GPU_0},GPU-node-001-1&{DAY}"],
    "node": [f"node=node-001&{DAY}"],
    "capacity": ["range=7d", "range=24h", "range=30d"],
    "capacity-week": ["range=7d"],
    "job": [f"job=slurm/della/1000&{GPU_0}&{DAY}"],
    "finding": [],
    **{name: [f"{GPU_0}&{DAY}"] for name in CHARTS if name.startswith("gpu-")},
}


def elements(content: str, name: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(content).iter(f"{SVG}{name}"))


def texts(content: str) -> list[str]:
    return ["".join(text.itertext()) for text in elements(content, "text")]


def paths(content: str) -> list[str]:
    """Of what is drawn over the grid."""
    return [path.get("d") for path in elements(content, "path") if path.get("class") != "grid"]


@pytest.fixture
def hub(admin):
    """A fleet of two days, with budgets."""
    fleet.make(nodes=2, gpus=4, hours=48)
    team = Team.objects.get_or_create(slug="nlp-research", defaults={"name": "NLP"})[0]
    for of in (None, team):
        Budget.objects.create(
            team=of,
            month=factories.NOW.date().replace(day=1),
            amount=1000,
            created_at=factories.NOW,
        )
    return admin


def test_every_chart_is_a_picture(hub):
    assert set(ASKED) == set(CHARTS) >= set(visibility.CHARTS)
    addresses = [
        f"/charts/{name}?{asked}&as=svg" for name, every in ASKED.items() for asked in every
    ]

    answers = [(address, hub.get(address)) for address in addresses]

    for address, answer in answers:
        assert answer.status_code == 200, address
        assert answer["Content-Type"] == "image/svg+xml", address
        assert elements(answer.content.decode(), "text"), address


def test_every_page_with_a_chart_has_its_picture_for_whoever_has_no_javascript(hub):
    node = GPU.objects.get(uuid="GPU-node-001-0").node
    start = factories.NOW - timedelta(hours=2)
    seen = {"first_ms": to_ms(start), "last_ms": to_ms(factories.NOW)}
    told.capacity("gpu_fault", on=GPU.objects.filter(node=node)[0], start=start)
    reports.computed(f"{factories.NOW:%Y-%m}", now=factories.NOW)
    finding = Finding.objects.create(cause="gpu_fault", job=None, node=node, **seen)
    pages = (
        *("/capacity", "/waste", "/fleet", "/costs", "/overview", "/budgets/fleet"),
        *("/budgets/teams/nlp-research", "/teams/nlp-research/2026-11", "/jobs/slurm/della/1000"),
        *("/nodes/node-001", "/gpus/GPU-node-001-0", f"/findings/{finding.pk}"),
        f"/incidents/{Incident.objects.latest('pk').pk}",
    )

    for page in pages:
        content = hub.get(page).content.decode()
        drawn = re.findall(r'data-figure-url="([^"]+)"', content)
        pictures = re.findall(r'<img class="still" src="([^"]+)"', content)
        assert pictures == [f"{url}&amp;as=svg" for url in drawn], page
        assert drawn, page
        for picture_url in pictures:
            assert hub.get(unescape(picture_url)).status_code == 200, picture_url


def test_without_javascript_a_large_fleets_map_is_a_link_to_its_table(hub, monkeypatch):
    monkeypatch.setattr("fleetwatch.dashboard.views.fleet.MOST_GPUS", 7)  # of which it has eight

    content = hub.get("/fleet").content.decode()

    [after] = re.findall(r"<noscript>(.*?)</noscript>", content, re.DOTALL)
    assert "Without JavaScript a map has 7 GPUs at most" in tight(after)
    assert "&amp;as=table" in after
    assert "<img" not in after


@pytest.fixture
def measured(client, db):
    """Two hours of a GPU that a job holds, whose readings swing between nothing and all."""
    swings = QUIET | {
        **{"util_mean": 0.5, "util_min": 0.0, "util_p50": 0.4, "util_max": 1.0, "power_w": 300.0},
        **{"util_zero_fraction": 0.45, "util_low_fraction": 0.48, "util_high_fraction": 0.5},
    }
    job = a_job(name="train", start_ms=T0, submit_ms=T0)
    says = {"jobs": [job], "allocations": [held(end=T0 + 2 * HOUR_MS)]}
    post(Sender().batch(T0, *[swings] * 720, window_s=10, **says))
    diagnose(NOW, 1000)
    with time_machine.travel(NOW, tick=False):
        client.force_login(factories.user())
        yield client


def findings_of_every_cause(gpu: GPU, job: Job) -> Iterator[Finding]:
    """Of each cause that has a chart."""
    seen = {"first_ms": T0, "last_ms": T0 + 2 * HOUR_MS}
    for code, cause in BY_CODE.items():
        told.capacity(code, on=gpu, start=from_ms(T0), cluster="della")
        for hour_ms in (T0, T0 + HOUR_MS):
            told.cause(code, of=job, on=gpu, start=from_ms(hour_ms))
        if cause.machine.of_cluster:
            yield Finding.objects.create(cause=code, job=None, cluster="della", **seen)
        elif cause.machine.curve:
            yield Finding.objects.create(cause=code, job=None, node=gpu.node, **seen)
        elif cause.detectors:
            yield Finding.objects.create(cause=code, job=job, **seen)


def test_what_a_finding_of_any_cause_rests_on_is_a_picture(measured):
    CauseEntry.objects.all().delete()
    Finding.objects.all().delete()
    of_every_cause = list(findings_of_every_cause(GPU.objects.get(), Job.objects.get()))

    assert len(of_every_cause) > 15
    for finding in of_every_cause:
        answer = measured.get(f"/charts/finding?finding={finding.pk}&as=svg")
        assert answer.status_code == 200, finding.cause
        assert elements(answer.content.decode(), "text"), finding.cause
        has_lines = finding.cause in SWINGING
        assert paths(answer.content.decode()) or not has_lines, finding.cause


def test_names_of_what_is_shaded_have_no_place_of_their_own(hub):
    """A key is a name without values: nothing lies between it and a line."""
    lines = figures.curves(HOURS[:2], [Line("pause", [None, None], "stalled")], y_format=".0%")
    key = lines[0] | {"fill": "toself", "line": {"width": 0}}
    figure = figures.series(HOURS[:2], [Line("use", [0.5, 1.0]), Line("rest", [0, 0])], y_format="")

    drawn = picture(figure | {"data": [*figure["data"], key]}, "")

    assert len(paths(drawn)) == 2
    assert "■ use\xa0 ■ rest\xa0 ■ pause" in texts(drawn)


def test_the_period_before_is_a_line_across_the_bars():
    bars = [Bar(start, start + timedelta(hours=1), HOUR_MS, HOUR_MS) for start in HOURS[:2]]
    wasted = figures.stacked_dollars(bars, [Part("Certain", "idle", [3.0, 1.0])], step="hour")

    drawn = picture(figures.with_level(wasted, "Period before", 4.0), "")

    # 220 px are $4 above y = 248
    assert [rect.get("y") for rect in elements(drawn, "rect")] == ["83.0", "193.0"]
    assert paths(drawn) == ["M60 28.0H892"]
    assert texts(drawn)[0] == "■ Certain\xa0 ■ Period before"


def test_a_month_is_a_line_with_a_band_of_what_is_expected_and_its_budget():
    month = (HOURS[0], HOURS[4])
    spent = [(HOURS[0], 0.0), (HOURS[2], 50.0)]
    expected = [(HOURS[2], 50.0, 50.0, 50.0), (HOURS[4], 80.0, 60.0, 100.0)]

    drawn = picture(figures.burn(spent, expected, month=month, budget=100.0), "")

    # 832 px are 4 h from 60 on, 220 px $100 above y = 248
    band, middle, line, budget = paths(drawn)
    assert band == "M476.0 138.0L892.0 28.0L892.0 116.0L476.0 138.0"
    assert middle == "M476.0 138.0L892.0 72.0"
    assert line == "M60.0 248.0L476.0 138.0"
    assert budget == "M60.0 28.0L892.0 28.0"
    names = "■ 8 of 10 cases\xa0 ■ Expected\xa0 ■ Spent\xa0 ■ Budget"
    assert texts(drawn)[:4] == ["$0.00", "$50.00", "$100", names]


def test_a_map_has_cells_of_one_colour_together_holes_and_crosses():
    rows = Rows([("<node>", 2)], ["a", "b"], ["/a", "/b"], marked=[1])
    cells = grid.of_places(np.array([[0, 0, 1], [-1, 0, -1]]))
    drawn = picture(heat_map.state_map(rows, HOURS[:4], cells), "")

    # a row is 16 px high, 10 below the top
    assert [
        tuple(cell.get(name) for name in ("style", "x", "y", "width", "height"))
        for cell in elements(drawn, "rect")
    ] == [
        ("--c:var(--useful)", "60.0", "10.0", "554.7", "16.0"),
        ("--c:var(--unverified)", "614.7", "10.0", "277.3", "16.0"),
        ("--c:var(--useful)", "337.3", "26.0", "277.4", "16.0"),
    ]
    assert "<node>" in texts(drawn)
    assert len(paths(drawn)) == 1


def test_shares_are_drawn_from_nothing_to_the_most():
    rows = Rows([("n", 1)], ["a"], ["/a"])
    cells = grid.of_shares(np.array([[0.0, 0.5, 1.0, np.nan]]), 1.0)
    drawn = picture(heat_map.metric_map(rows, HOURS, cells), "")

    assert [cell.get("style") for cell in elements(drawn, "rect")] == [
        f"--c:color-mix(in oklab,var(--accent) {percent}%,var(--nothing))"
        for percent in (0, 50, 100)
    ]


@pytest.mark.parametrize(("gpus", "is_drawn"), [(MOST_GPUS, True), (MOST_GPUS + 1, False)])
def test_of_more_gpus_the_picture_says_that_the_table_has_them(gpus, is_drawn):
    names = [str(number) for number in range(gpus)]
    rows = Rows([("n", gpus - 1), ("m", 1)], names, names)  # a line between nodes is no GPU
    drawn = picture(heat_map.state_map(rows, HOURS, np.zeros((gpus, 4), np.uint8)), "")

    assert bool(elements(drawn, "rect")) == is_drawn
    assert ("201 GPUs are too many for a picture: the table has them." in texts(drawn)) != is_drawn


def test_long_names_of_nodes_have_room_beside_the_map():
    rows = Rows([("gpu-node-0042.rack-07", 1)], ["a"], ["/a"])
    drawn = picture(heat_map.state_map(rows, HOURS, np.zeros((1, 4), np.uint8)), "")

    # 21 letters of 7 px and a gap of 8, of which 60 px are there
    assert ElementTree.fromstring(drawn).get("viewBox").startswith("-95 0 995 ")


def test_the_week_is_a_map_of_days_and_hours_and_its_scale_is_said():
    figure = figures.clock_map(["Mon", "Tue"], ["00:00", "01:00"], [[1.0, None], [3.0, 2.0]])
    drawn = picture(figure, "")

    shades = [cell.get("style").split(" ")[-1] for cell in elements(drawn, "rect")]
    assert shades == ["0%,var(--nothing))", "100%,var(--nothing))", "50%,var(--nothing))"]
    assert {"Mon", "Tue", "00:00", "1.0 GPUs (grey) to 3.0 (the strongest colour)"} <= {
        *texts(drawn)
    }


def test_many_names_stand_in_rows_that_have_room():
    lines = [Line(f"node-{number} GPU 0", [0.5, 0.5]) for number in range(8)]
    drawn = picture(figures.series(HOURS[:2], lines, y_format=".0%"), "")

    names = [text for text in texts(drawn) if "■" in text]
    assert [name.count("■") for name in names] == [2, 6]  # from below


@pytest.mark.parametrize(
    "figure",
    [
        figures.stacked_dollars([], [], step="hour"),
        figures.series([], [Line("GPUs", [])], y_format=""),
        {"data": [], "layout": {}},
    ],
)
def test_without_anything_the_picture_says_so(figure):
    assert texts(picture(figure, "")) == ["Nothing is known of this period."]
