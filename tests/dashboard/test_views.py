"""What the pages say, with figures worked out by hand: $2.00 per GPU-hour."""

import csv
import io
import re
from datetime import timedelta
from html import unescape

import pytest
from django.utils import timezone
from django.utils.html import escape

from fleetwatch.costs.models import Rate
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import together
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.ledger.models import Entry, Run
from fleetwatch.lib.intervals import HOUR_MS, Interval, floor_hour, to_ms
from fleetwatch.operations.models import JobRun
from fleetwatch.telemetry.models import DayMatrix, SealMark, TouchedHour
from tests import stored_runs
from tests.dashboard import factories, fleet
from tests.dashboard.cells import cells_of
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db

PARTS = ["changes", "recoverable", "worst", "wasters"]  # of the overview
HOSTILE = '"><script>alert(1)</script>'


def text_of(response):
    return " ".join(response.content.decode().split())


@pytest.fixture
def small(admin):
    """One GPU over 4 hours: 2 useful and 1 idle hour of ann's job, 1 hour free."""
    node = factories.node()
    gpu = factories.gpu(node, hours=4)
    factories.rate("2.00")
    job = factories.job()
    factories.hold(gpu, job, hours_ago=4, hours=3)
    Entry.objects.bulk_create(
        [
            factories.entry(gpu, hours_ago=4, state="useful", held_by=job),
            factories.entry(gpu, hours_ago=3, state="useful", held_by=job),
            factories.entry(gpu, hours_ago=2, state="idle", held_by=job),
            factories.entry(gpu, hours_ago=1, state="free"),
        ]
    )
    stored_runs.store(
        factories.run(gpu, hours_ago=4, hours=2, states={"useful": 2 * HOUR_MS}, held_by=job),
        factories.run(gpu, hours_ago=2, hours=1, states={"idle": HOUR_MS}, held_by=job),
        factories.run(gpu, hours_ago=1, hours=1, states={"free": HOUR_MS}),
    )
    return admin


def test_the_overview_says_what_of_the_spend_was_useful(small):
    page = text_of(small.get("/"))

    assert "<h2>50 % of what you paid for was useful work</h2>" in tight(page)
    assert '<span title="$8.000000">$8.00</span>' in page
    assert '<span title="$2.000000">$2.00</span> certain' in page
    assert "of which 100 % were observed" in page


def test_a_change_is_told_where_all_of_the_period_before_is_recorded(small):
    change = small.get("/?from=now-2h&to=now").context["change"]
    young = small.get("/?from=now-4h&to=now").context["change"]

    # one idle hour now and none of the two before, which were useful; before four hours there is
    # nothing
    assert (change.wasted, change.useful_points) == (None, -100.0)
    assert (young.wasted, young.useful_points) == (None, None)


def test_the_overview_says_that_history_is_still_being_posted(small):
    node_id, now = GPU.objects.values_list("node_id", flat=True)[0], timezone.now()
    for hour in (floor_hour(now), floor_hour(now) - timedelta(hours=40)):
        TouchedHour.objects.create(node_id=node_id, hour=hour)

    assert (
        "1 hour of nodes in this period is not in these figures yet, or not as it came last."
        in text_of(small.get("/"))
    )
    TouchedHour.objects.filter(hour__lt=floor_hour(now)).delete()
    assert "still being posted" not in text_of(small.get("/"))


def test_before_the_first_posting_nobody_says_that_nothing_is_allocated_or_idle(admin):
    node = factories.node()
    first, _ = factories.gpu(node), factories.gpu(node, index=1)

    page = text_of(admin.get("/"))
    assert "<b>The latest minutes are still being processed.</b>" in page
    assert "2 GPUs, not judged yet" in page
    assert ("0 allocated" in page, "of 2 allocated" in page, "No GPU is idle" in page) == (
        False,
        False,
        False,
    )

    stored_runs.store(
        factories.run(first, hours_ago=0.1, hours=0.1, states={"free": HOUR_MS // 10})
    )
    page = text_of(admin.get("/"))
    assert "<b>No judged GPU is idle right now.</b>" in page
    assert "0 of 1 allocated, 1 not judged yet" in page
    assert "2 GPUs, 0 allocated, 1 not judged yet" in page


def test_the_overview_counts_gpus_of_silent_nodes_as_not_observed(admin):
    """8 GPUs: 2 are allocated and seen, 1 is free and seen, the 5 of a silent node have runs
    without a holder.
    """
    seen, silent = factories.node(), factories.node("silent")
    span = {"hours_ago": 0.1, "hours": 0.1}
    lasted = HOUR_MS // 10
    unseen = [factories.gpu(silent, index=index) for index in range(5)]
    for gpu in unseen:
        stored_runs.store(factories.run(gpu, states={"unobserved": lasted}, **span))

    page = text_of(admin.get("/"))
    assert "<b>No GPU is observed right now.</b>" in page
    assert "5 GPUs, 5 not observed" in page
    assert ("0 allocated" in page, "GPU is idle" in page) == (False, False)

    job = factories.job()
    for index in range(2):
        stored_runs.store(
            factories.run(
                factories.gpu(seen, index=index), states={"useful": lasted}, held_by=job, **span
            )
        )
    stored_runs.store(factories.run(factories.gpu(seen, index=2), states={"free": lasted}, **span))

    page = text_of(admin.get("/"))
    assert "<b>No observed GPU is idle right now.</b>" in page
    assert "2 of 3 allocated, 5 not observed" in page
    assert "8 GPUs, 2 allocated, 5 not observed" in page


def test_the_longest_idle_is_as_old_as_its_first_part(admin):
    gpu = factories.gpu(factories.node(), hours=4)
    factories.rate("2.00")
    job = factories.job()
    Entry.objects.bulk_create(
        [factories.entry(gpu, hours_ago=ago, state="idle", held_by=job) for ago in (3, 2, 1)]
    )
    parts = [
        factories.run(
            gpu, hours_ago=ago, hours=1, states={"idle": HOUR_MS}, held_by=job, continues=ago < 3
        )
        for ago in (3, 2, 1)
    ]
    stored_runs.store(*parts)

    page = text_of(admin.get("/"))

    assert "Longest: train of ann (nlp) on node-001 GPU 0, since Fri 20 Nov, 09:00 (3 h)" in page
    assert '<span title="$6.000000">$6.00</span> so far' in page


def test_the_job_page_counts_only_its_own_time(small):
    page = tight(text_of(small.get("/jobs/slurm/della/4711")))

    assert "<h2>33 % of its cost was wasted</h2>" in page
    assert '<span title="$6.000000">$6.00</span>' in page
    assert "node-001 · 0" in page


def test_a_jobs_page_without_a_period_shows_its_whole_life(admin):
    job = factories.job()
    gpu = factories.gpu(factories.node(), hours=24 * 60)
    factories.hold(gpu, job, hours_ago=24 * 40, hours=3)

    page = text_of(admin.get("/jobs/slurm/della/4711"))

    # 40 days before 20 November 12:00 is 11 October 12:00
    assert "11 Oct 2026, 12:00 – 15:00" in page


def test_a_job_that_only_accounting_knows_shows_its_outcome_and_what_it_asked_for(admin):
    factories.job(
        "slurm/della/12",
        state="FAILED",
        end_ms=1_793_606_400_000,
        labels={"requested_gpus": "2", "exit_code": "1:0"},
    )

    page = tight(text_of(admin.get("/jobs/slurm/della/12")))

    assert "<dt>State</dt><dd>failed</dd>" in page
    assert '<th scope="row">GPUs</th><td title="">2</td>' in page
    assert "<dt>Exit code</dt><dd>1:0</dd>" in page


def test_without_javascript_a_gpus_states_are_drawn_in_order_of_time(small):
    picture = text_of(small.get("/charts/gpu?gpu=GPU-node-001-0&from=now-4h&to=now&as=svg"))

    # 832 px wide from 60 on: half of it, then two quarters
    useful = picture.index('"--c:var(--useful)" x="60.0"')
    idle = picture.index('"--c:var(--idle)" x="476.0"')
    free = picture.index('"--c:var(--free)" x="684.0"')
    assert useful < idle < free


def test_the_waste_report_has_free_time_as_its_own_line(small):
    page = text_of(small.get("/waste"))

    assert '<tr class="own-line">' in page
    assert "nlp" in page


def test_the_waste_of_jobs_says_whose_they_are(small):
    page = text_of(small.get("/waste?group_by=job"))

    assert "ann · nlp" in in_text(tight(page))


def test_the_worst_gpus_come_after_the_overview(small):
    overview = text_of(small.get("/"))
    worst = text_of(small.get("/worst", headers={"HX-Request": "true"}))

    assert 'hx-get="/worst" hx-trigger="load"' in overview
    assert "1 worst GPU<" in tight(worst)
    assert worst.count('href="/gpus/GPU-node-001-0"') == 1


@pytest.mark.parametrize("page", ["/", "/overview", "/overview?team=nlp"])
def test_without_javascript_a_link_leads_to_the_overview_with_all_of_its_parts(small, page):
    overview = text_of(small.get(page))
    links = re.findall(r'<noscript>.*?href="([^"]+)#(\w+)"', overview, re.DOTALL)
    address, _ = links[0]
    whole = text_of(small.get(page.partition("?")[0] + unescape(address)))

    assert [name for _, name in links if name in PARTS] == PARTS
    assert "load" not in re.findall('hx-trigger="([^"]+)"', whole)
    for name in PARTS:
        assert f'id="{name}"' in whole
    assert "against the 24 hours before" in whole
    assert "1 worst GPU" in whole
    assert "<h2>Jobs</h2>" in whole


def test_the_waste_csv_sums_to_the_fleet(small):
    rows = list(csv.DictReader(io.StringIO(small.get("/waste.csv?group_by=team").content.decode())))

    assert sum(float(row["cost_usd"]) for row in rows) == 8.0
    assert sum(float(row["capacity_gpu_hours"]) for row in rows) == 4.0


def test_the_spend_chart_is_the_ledger_by_hour(small):
    figure = small.get("/charts/spend?from=now-4h&to=now").json()

    by_name = {trace["name"]: trace["y"] for trace in figure["data"]}
    assert by_name == {
        "Useful": [2.0, 2.0, 0.0, 0.0],
        "Idle": [0.0, 0.0, 2.0, 0.0],
        "Free": [0.0, 0.0, 0.0, 2.0],
    }
    assert figure["data"][0]["x"][0] == "2026-11-20T08:00:00"


def test_a_charts_table_and_csv_have_the_same_numbers(small):
    rows = list(
        csv.reader(
            io.StringIO(small.get("/charts/spend?from=now-4h&to=now&as=csv").content.decode())
        )
    )
    table = tight(text_of(small.get("/charts/spend?from=now-4h&to=now&as=table")))

    assert '<td class="num"><span title="2.0">2.00</span></td>' in table
    assert rows[0][:4] == ["Start (UTC)", "End (UTC)", "Useful $", "Busy, unverified $"]
    assert rows[3][:8] == [
        "2026-11-20 10:00",
        "2026-11-20 11:00",
        "0.0",
        "0.0",
        "0.0",
        "0.0",
        "0.0",
        "2.0",
    ]
    assert "2026-11-20 10:00" in table


@pytest.mark.parametrize("period", ["from=now-4h&to=now", "from=now-40h&to=now"])
def test_the_state_map_is_right_from_runs_and_from_hours(small, period):
    trace = small.get(f"/charts/fleet?{period}").json()["data"][0]

    [row] = cells_of(trace)
    assert trace["meta"]["names"] == ["node-001 · 0"]
    # useful 0, idle 5, free 8: two hours, one, one
    quarter = 60 if period.startswith("from=now-4h") else 1
    assert row[-4 * quarter :] == [0] * 2 * quarter + [5] * quarter + [8] * quarter
    assert all(cell is None for cell in row[: -4 * quarter])


def test_the_metric_map_decodes_the_day_matrix_and_keeps_holes(small):
    gpu = Run.objects.first().gpu
    # 12:00 is cell 144: the hour before it holds a value six times, then nothing observed
    for metric, value in (("util", 100), ("power", 50)):
        cells = bytes([255] * 132 + [value] * 6 + [255] * 150)
        DayMatrix.objects.create(
            node_id=gpu.node_id,
            day=factories.NOW.date(),
            metric=metric,
            gpu_ids=[gpu.pk],
            cells=cells,
        )

    util, power = (
        cells_of(small.get(f"/charts/fleet?metric={metric}&range=1h").json()["data"][0])
        for metric in ("util", "power")
    )

    # as they are stored, in steps of 1 / 250
    assert util == [[100] * 6 + [None] * 6]
    # a step of a power byte is 8 W; the GPU's limit is 700 W: 400 / 700 = 142.9 / 250
    assert power == [[143] * 6 + [None] * 6]


def test_a_period_that_no_chip_names_is_told_on_narrow_pages_too(small):
    preset = text_of(small.get("/waste?range=24h"))
    own = text_of(small.get("/waste?from=2026-11-20T08:00&to=2026-11-20T10:00"))

    assert 'Custom <span class="faint">UTC</span> </summary>' in preset
    assert '<b>20 Nov 2026, 08:00 – 10:00</b> <span class="faint">UTC</span> </summary>' in own


def test_a_map_of_a_metric_tells_hours_that_are_still_to_be_drawn(small):
    node_id = Run.objects.first().gpu.node_id
    for hours in (2, 3, 40):
        SealMark.objects.create(
            node_id=node_id,
            hour=factories.NOW - timedelta(hours=hours),
            batch_received_at=factories.NOW,
            batch_id=hours,
        )

    util, state = (
        text_of(small.get(f"/fleet?metric={metric}&from=now-4h&to=now"))
        for metric in ("util", "state")
    )
    nodes = list(Node.objects.order_by("pk"))
    own = {node.pk: text_of(small.get(f"/nodes/{node.name}?from=now-4h&to=now")) for node in nodes}

    assert "2 hours of nodes in this period are still to come" in util
    assert "still to come" not in state
    drawn = "Curves are being drawn: 2 hours in this period are still to come"
    assert {pk for pk, page in own.items() if drawn in in_text(page)} == {node_id}


def test_several_gpus_have_a_line_each_and_those_that_are_alike_are_both_seen(admin):
    fleet.make(nodes=1, gpus=2, hours=2)
    uuids = "GPU-node-001-0,GPU-node-001-1,GPU-nobody-knows"

    traces = admin.get(f"/charts/gpus-util?gpu={uuids}&from=now-2h&to=now").json()["data"]

    assert [(trace["name"], trace["line"]["dash"]) for trace in traces] == [
        ("node-001 GPU 0", "solid"),
        ("node-001 GPU 1", "dot"),
    ]
    assert admin.get("/charts/gpus-util?gpu=GPU-nobody-knows").status_code == 404


def test_the_time_of_a_state_is_shaded_on_a_gpus_curve_as_far_as_it_is_asked_for(admin):
    fleet.make(nodes=1, gpus=1, hours=2)
    state = admin.get("/charts/gpu?gpu=GPU-node-001-0&from=now-2h&to=now")
    end_ms = to_ms(factories.NOW)
    start_ms = end_ms - 2 * HOUR_MS
    asked = "/charts/gpu-util?gpu=GPU-node-001-0&from=now-2h&to=now"

    def shades(query: str) -> list[tuple[str, str]]:
        layout = admin.get(f"{asked}{query}").json()["layout"]
        return [(each["x0"], each["name"]) for each in layout.get("shapes", [])]

    assert state.status_code == 200
    assert shades("") == []
    assert shades("&marked=nothing") == []
    [(_, name)] = shades(f"&marked=useful&within={start_ms}-{end_ms}")
    assert name == "useful"
    [(begin, _)] = shades(f"&marked=useful&within={end_ms - HOUR_MS}-{end_ms}")
    assert begin.endswith("11:00:00")
    assert shades(f"&marked=useful&within={start_ms - 2}-{start_ms - 1}") == []


def test_of_a_gpu_that_cannot_work_the_fault_is_marked_where_it_began(admin):
    fleet.make(nodes=1, gpus=1, hours=2)
    Entry.objects.update(state="unavailable", tier="")
    end_ms = to_ms(factories.NOW)
    asked = "/charts/gpu-util?gpu=GPU-node-001-0&from=now-2h&to=now&marked=unavailable"

    def marks(start_ms: int) -> list[tuple[str, str, str]]:
        figure = admin.get(f"{asked}&within={start_ms}-{end_ms}").json()
        assert ("fault" in {line["name"] for line in figure["data"]}) == (start_ms < end_ms)
        shapes = figure["layout"].get("shapes", [])
        return [(each["x0"], each["x1"], each["name"]) for each in shapes if each["type"] == "line"]

    eleven = "2026-11-20T11:00:00"
    assert marks(end_ms - HOUR_MS) == [(eleven, eleven, "bad")]
    assert marks(end_ms + HOUR_MS) == []
    picture = admin.get(f"{asked}&within={end_ms - HOUR_MS}-{end_ms}&as=svg")
    assert picture.status_code == 200


def test_the_gpus_series_come_from_its_windows_with_their_gap(admin):
    fleet.make(nodes=1, gpus=1, hours=8)

    figure = admin.get("/charts/gpu-power?gpu=GPU-node-001-0&from=now-6h&to=now").json()

    values = figure["data"][0]["y"]
    assert len(values) == 360
    assert values[0] == 370.0  # 120 + 500 * 0.5
    assert values[200:230] == [None] * 30
    assert None not in values[:200] + values[230:]
    together = admin.get("/charts/gpu?gpu=GPU-node-001-0&from=now-6h&to=now").json()["data"]
    assert [trace["y"] for trace in together if trace.get("name") == "board power"] == [values]
    of_node = admin.get("/charts/node?node=node-001&from=now-6h&to=now").json()["layout"]
    titles = [title["text"] for title in of_node["annotations"]]
    assert titles[:2] == ["State with the most time", "Utilisation"]
    assert admin.get("/charts/node?node=none").status_code == 404


@pytest.mark.parametrize(
    "address", ["/charts/nothing", "/charts/fleet?metric=x", "/charts/gpu-util?gpu=none"]
)
def test_what_is_not_there_is_a_designed_404(admin, address):
    response = admin.get(address)

    assert response.status_code == 404
    assert "Page not found" in text_of(response)


@pytest.mark.parametrize("address", ["/", "/fleet", "/jobs", "/waste", "/charts/spend?as=table"])
def test_a_period_that_cannot_be_read_is_said_on_the_page(small, address):
    join = "&" if "?" in address else "?"
    page = text_of(small.get(f"{address}{join}from=yesterday"))

    assert "can&#x27;t read &#x27;yesterday&#x27;" in page


def test_hostile_names_are_text_everywhere(admin):
    node = factories.node()
    gpu = factories.gpu(node, model_name=HOSTILE)
    factories.rate("2.00")
    job = factories.job(
        f"slurm/x/{HOSTILE}",
        name=HOSTILE,
        user=HOSTILE,
        team=HOSTILE,
        state=HOSTILE[:30],
        labels={HOSTILE: HOSTILE},
    )
    factories.hold(gpu, job, hours_ago=2, hours=2)
    Entry.objects.bulk_create([factories.entry(gpu, hours_ago=1, state="idle", held_by=job)])
    stored_runs.store(
        factories.run(gpu, hours_ago=2, hours=2, states={"idle": 2 * HOUR_MS}, held_by=job),
    )

    for address in (
        "/",
        "/jobs",
        f"/jobs/{job.key}",
        "/gpus/GPU-node-001-0",
        "/nodes/node-001",
        "/waste?group_by=user",
        f"/search?q={HOSTILE}",
    ):
        page = admin.get(address).content.decode()
        assert "<script>alert" not in page, address
        assert escape(HOSTILE) in page, address


def test_a_hostile_job_key_survives_its_own_link(admin):
    job = factories.job("slurm/a b/1?x=1&y=<2>#3", name="odd")

    page = admin.get("/search?q=odd").content.decode()
    link = unescape(page.split('<a href="/jobs/')[1].split('"')[0])

    assert admin.get(f"/jobs/{link}").status_code == 200
    assert job.key == "slurm/a b/1?x=1&y=<2>#3"


def test_the_search_finds_nodes_gpus_jobs_and_users(small):
    page = text_of(small.get("/search?q=node"))
    assert "/nodes/node-001" in page
    assert "/gpus/GPU-node-001-0" in page
    assert "/jobs/slurm/della/4711" in text_of(small.get("/search?q=4711"))
    assert "/jobs?user=ann" in text_of(small.get("/search?q=ann"))


def test_the_jobs_can_be_filtered_and_sorted(small):
    assert "<h2>1 job cost" in tight(text_of(small.get("/jobs?user=ann")))
    assert "0 jobs" in text_of(small.get("/jobs?user=bo"))
    assert "<h2>1 job cost" in tight(text_of(small.get("/jobs?q=TRAIN&sort=cost")))
    assert "No job here" in text_of(small.get("/jobs?q=nothing"))


def test_an_example_price_is_badged_on_the_overview(small):
    Rate.objects.update(is_example=True)

    assert "list price, set yours" in text_of(small.get("/"))


def test_the_status_page_shows_a_failed_run_and_a_silent_agent(small):
    JobRun.objects.create(
        name="ledger.post",
        started_at=factories.NOW,
        finished_at=factories.NOW,
        ok=False,
        error="ValueError: <b>",
    )
    factories.node("node-silent", last_ms=to_ms(factories.NOW) - 3 * HOUR_MS)

    page = text_of(small.get("/status"))

    assert "ValueError: &lt;b&gt;" in page
    assert "</span>silent" in page
    assert page.index("node-silent") < page.index("node-001")


def test_the_names_of_agents_that_are_on_time_end_with_a_full_stop(small):
    assert re.search(r"</a>\.\s", text_of(small.get("/status")).partition("on time:")[2])


def test_an_agent_that_never_reported_is_not_in_time(small):
    assert "all on time" in text_of(small.get("/status"))
    factories.node("node-new", last_ms=None)

    page = text_of(small.get("/status"))

    assert "1 that never reported" in page
    assert "all on time" not in page


def test_the_theme_is_kept_in_a_cookie(small):
    response = small.post("/theme", headers={"referer": "http://testserver/jobs"})

    assert response["Location"] == "http://testserver/jobs"
    assert response.cookies["theme"].value == "dark"
    assert 'data-theme="dark"' in text_of(small.get("/jobs"))
    assert small.post("/theme", headers={"referer": "https://evil.example"})["Location"] == "/"


def test_what_the_overview_puts_together_is_what_the_ledger_says(admin):
    fleet.make(nodes=2, gpus=4, hours=48)
    interval = Interval(factories.NOW - timedelta(hours=48), factories.NOW)

    midnight = factories.NOW.replace(hour=0, minute=0, second=0, microsecond=0)

    found = costs.wasters(interval, 3)
    whole, since = costs.totals_since(interval, midnight)

    assert since == costs.totals(Interval(midnight, factories.NOW))
    assert (
        whole
        == costs.totals(interval)
        == together([group.totals for group in costs.totals_by(interval, "job")])
    )
    assert found.teams == [group for group in costs.totals_by(interval, "team") if group.key]
    for ranked, group_by in ((found.users, "user"), (found.jobs, "job")):
        lines = [group for group in costs.totals_by(interval, group_by) if group.key]
        assert (ranked.groups, ranked.count) == (lines[:3], len(lines))
