"""A job's page: what to do first, curves of what was its own time, and its earlier runs."""

import re
from datetime import timedelta
from types import SimpleNamespace

import pytest

from fleetwatch.accounts.models import Organisation, OthersShown
from fleetwatch.diagnosis.cause import Facts
from fleetwatch.diagnosis.findings import inbox
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests import stored_runs
from tests.costs.factories import an_entry
from tests.dashboard import factories, fleet
from tests.dashboard.cells import cells_of
from tests.diagnosis import told
from tests.markup import in_text, tight

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_frozen")]
NOW = told.NOW
MINUTE_MS = 60_000
JOB = "slurm/della/4711"
GPU = "GPU-node-001-0"
CURVES = f"/charts/job?job={JOB}&gpu={GPU}&from=now-6h&to=now"


def log_in(client, *, role: str = "admin"):
    client.force_login(factories.user(role=role, username=role))
    return client


@pytest.fixture
def measured():
    """A GPU with six hours of windows, which the job held from three hours before to one before."""
    on = factories.node(now=NOW)
    gpu = factories.gpu(on, now=NOW)
    fleet._telemetry(on, NOW)
    held_by = factories.job(JOB, start_ms=to_ms(NOW) - 3 * HOUR_MS)
    factories.hold(gpu, held_by, hours_ago=3, hours=2, now=NOW)
    return gpu


def drawn(client, name: str) -> list[tuple[str, float | None]]:
    """The points of one line: when, and what."""
    figure = client.get(CURVES).json()
    [line] = [trace for trace in figure["data"] if trace.get("name") == name]
    return list(zip(line["x"], line["y"], strict=True))


@pytest.mark.parametrize("name", ["kernel running", "SM active", "board power"])
def test_curves_are_of_the_time_in_which_the_job_held_the_gpu(client, measured, name):
    shown = [at for at, value in drawn(log_in(client), name) if value is not None]

    first, last = NOW - timedelta(hours=3), NOW - timedelta(hours=1)
    assert shown[0] == f"{first:%Y-%m-%dT%H:%M:%S}"
    assert f"{first:%Y-%m-%dT%H:%M:%S}" <= shown[-1] < f"{last:%Y-%m-%dT%H:%M:%S}"
    assert len(shown) > 15


def test_its_curves_lie_under_its_states_on_one_axis_of_time(client, measured):
    job = measured.allocations.get().job
    for hours_ago, state in ((5, "useful"), (3, "idle"), (2, "useful")):
        held_by = job if hours_ago < 5 else factories.job("slurm/della/4710")
        spent = {state: HOUR_MS}
        of = {"hours_ago": hours_ago, "hours": 1, "held_by": held_by, "now": NOW}
        stored_runs.store(factories.run(measured, states=spent, **of))

    figure = log_in(client).get(CURVES).json()

    titles = [each["text"] for each in figure["layout"]["annotations"]]
    assert titles == ["State with the most time", "Utilisation", "Memory used", "Power"]
    assert {trace.get("xaxis", "x") for trace in figure["data"]} == {"x"}
    # six hours in 288 cells; the job's own are the fourth and the fifth
    names = figure["data"][0]["meta"]["steps"]
    [cells] = cells_of(figure["data"][0])
    drawn_states = [None if cell is None else names[cell] for cell in cells]
    assert drawn_states == [None] * 144 + ["idle"] * 48 + ["useful"] * 48 + [None] * 48


def test_memory_is_drawn_in_gigabytes_of_two_to_the_thirtieth(client, measured):
    values = [value for _, value in drawn(log_in(client), "memory") if value is not None]

    assert (min(values), max(values)) == pytest.approx((60e9 / 2**30, 66e9 / 2**30), abs=0.5)


@pytest.mark.parametrize(
    "address",
    [
        f"/charts/job?job={JOB}",
        f"/charts/job?gpu={GPU}",
        f"/charts/job?job=slurm/della/none&gpu={GPU}",
        f"/charts/job?job={JOB}&gpu=GPU-node-001-1",
        f"/charts/job?job={JOB}&gpu=none",
    ],
)
def test_there_are_no_curves_of_a_gpu_that_the_job_never_held(client, measured, address):
    factories.gpu(measured.node, index=1, now=NOW)

    assert log_in(client).get(address).status_code == 404


@pytest.mark.parametrize("choice", [OthersShown.OWN_TEAMS, OthersShown.PSEUDONYMS])
def test_there_are_no_curves_of_a_job_that_the_reader_does_not_see(client, measured, choice):
    Organisation.objects.update_or_create(pk=1, defaults={"others_shown": choice})

    assert log_in(client, role="engineer").get(CURVES).status_code == 404


def test_the_page_shows_the_gpu_that_is_asked_for(client, measured):
    other = factories.gpu(measured.node, index=1, now=NOW)
    factories.hold(other, measured.allocations.get().job, hours_ago=3, hours=2, now=NOW)
    page = tight(log_in(client).get(f"/jobs/{JOB}?gpu={other.uuid}").content.decode())

    assert "GPU 1 of node-001" in page
    assert "gpu=GPU-node-001-1" in page
    assert "GPU 0 of node-001" in client.get(f"/jobs/{JOB}?gpu=GPU-none").content.decode()


def test_its_wasted_share_is_of_its_cost_wherever_it_stands(client):
    # of four hours two idle, one useful and one unobserved: 67 % of the observed time
    factories.rate()
    job = ran("slurm/della/1", days_ago=4)
    ran("slurm/della/2", days_ago=6)
    gpu = job.allocations.get().gpu
    for hours_ago, state in ((95, "idle"), (94, "idle"), (93, "unobserved")):
        of = {"hours_ago": hours_ago, "state": state, "held_by": job, "now": NOW}
        factories.entry(gpu, **of).save()
    text = tight(log_in(client).get("/jobs/slurm/della/1?from=now-5d&to=now").content.decode())

    assert '<dd class="note">50 % of cost;' in text
    assert "<h2>50 % of its cost was wasted</h2>" in text
    assert '<span class="sub">50 %</span>' in text  # of its GPU
    assert '<td data-label="Wasted" class="num nowrap">50 %</td>' in text  # among its runs
    assert "67 %" not in text


@pytest.mark.parametrize("state", ["RUNNING", "OUT_OF_MEMORY"])
def test_the_state_stands_beside_the_name(client, state):
    factories.job("slurm/della/1", state=state)
    heading = log_in(client).get("/jobs/slurm/della/1").content.decode()
    heading = tight(heading.partition("<h1>")[2].partition("</h1>")[0])

    assert state.lower().replace("_", " ") in heading


def ran(key: str, *, days_ago: int, **fields: str):
    """A job that held a GPU for an hour so many days ago."""
    begins = NOW - timedelta(days=days_ago)
    job = factories.job(key, start_ms=to_ms(begins), **fields)
    on = factories.node(key.replace("/", "-"), now=NOW)
    gpu = factories.gpu(on, now=NOW, hours=24 * 40)
    factories.entry(gpu, hours_ago=24 * days_ago, held_by=job, now=NOW).save()
    factories.hold(gpu, job, hours_ago=24 * days_ago, hours=1, now=NOW)
    return job


def test_earlier_runs_are_those_of_its_name_and_owner_before_it_the_newest_first(client):
    factories.rate()
    for key, days_ago, fields in (
        ("slurm/della/1", 9, {}),
        ("slurm/della/2", 3, {}),
        ("slurm/della/3", 2, {}),
        ("slurm/della/4", 1, {}),
        ("slurm/della/5", 4, {"user": "bo"}),
        ("slurm/della/6", 4, {"name": "train2"}),
        ("slurm/aurora/7", 4, {}),
    ):
        ran(key, days_ago=days_ago, **fields)
    page = tight(log_in(client).get("/jobs/slurm/della/3").content.decode())
    runs = page.partition("Earlier runs")[2].partition("</table>")[0]

    assert [key for key in "1234567" if f'della/{key}"' in runs or f'aurora/{key}"' in runs] == [
        "1",
        "2",
    ]
    assert runs.index("della/2") < runs.index("della/1")
    assert "Earlier runs" not in client.get("/jobs/slurm/della/1").content.decode()


def test_what_differs_from_earlier_runs_is_marked(client):
    factories.rate()
    for key, days_ago, limit in (("slurm/della/1", 3, "60"), ("slurm/della/2", 2, "120")):
        ran(key, days_ago=days_ago, labels={"time_limit_minutes": limit}, state="RUNNING")
    other = Job.objects.get(key="slurm/della/1")
    also = factories.gpu(factories.node(now=NOW))
    factories.hold(also, other, hours_ago=72, hours=1, now=NOW)
    an_entry(also, "idle", HOUR_MS, start=NOW - timedelta(hours=72), job=other, tier="certain")
    page = tight(log_in(client).get("/jobs/slurm/della/2").content.decode())
    _, this, earlier = page.partition("Earlier runs")[2].partition("</table>")[0].rsplit("<tr>", 2)

    assert "This run" in this
    assert "tag" not in this
    assert '1 h<b class="tag stall-c">−50 %</b>' in earlier
    assert '2<b class="tag stall-c">+1</b>' in earlier
    assert "H100 SXM<div" in earlier
    assert "node-001 and 1 more" in earlier


def test_a_job_without_a_name_has_no_earlier_runs(client):
    for key, days_ago in (("slurm/della/1", 3), ("slurm/della/2", 2)):
        ran(key, days_ago=days_ago, name="")

    assert "Earlier runs" not in log_in(client).get("/jobs/slurm/della/2").content.decode()


@pytest.mark.parametrize(
    ("status", "is_advised"),
    [("open", True), ("accepted", True), ("fixed", False), ("dismissed", False)],
)
def test_what_to_do_is_said_of_what_nobody_settled(client, status, is_advised):
    told.rate("2.40")
    of = told.job(user="vera")
    told.cause(of=of, start=NOW - timedelta(hours=2))
    first_ms = to_ms(NOW) - 2 * HOUR_MS
    told.finding(of, first_ms=first_ms, last_ms=first_ms + HOUR_MS, status=status)

    page = log_in(client).get("/jobs/slurm/della/7").content.decode()

    assert ("What to do" in page) is is_advised
    assert "How this is detected" in page


@pytest.mark.parametrize(("last_ms", "are_alike"), [(HOUR_MS, True), (HOUR_MS // 2, False)])
def test_gpus_that_read_the_same_are_one_line_that_opens(client, last_ms, are_alike):
    """Three were useful for an hour, and the fourth as long or for half of it."""
    told.rate("2.00")
    of = told.job()
    for number, useful_ms in enumerate((HOUR_MS, HOUR_MS, HOUR_MS, last_ms), start=1):
        on = told.gpu(number)
        factories.hold(on, of, hours_ago=2, hours=1)
        an_entry(on, "useful", useful_ms, start=NOW - timedelta(hours=2), job=of)

    page = log_in(client).get("/jobs/slurm/della/7?range=7d").content.decode()

    text = " ".join(re.sub(r"<[^>]+>", "", page).split())
    assert ("4 GPUs alike, each 1.00 GPU-hours, $2.00, of which $0.00" in text) is are_alike


def test_jobs_that_run_now_are_a_list_of_their_own(admin):
    gpu = factories.gpu(factories.node(), hours=4)
    for key, state in (("slurm/della/1", "RUNNING"), ("slurm/della/2", "COMPLETED")):
        job = factories.job(key, name=f"job-{state.lower()}", state=state)
        factories.entry(gpu, hours_ago=int(key[-1]), held_by=job).save()

    every = tight(admin.get("/jobs").content.decode())
    running = tight(admin.get("/jobs?running=yes").content.decode())

    assert ("2 jobs cost" in every, "1 job cost" in running) == (True, True)
    assert ("job-running" in running, "job-completed" in running) == (True, False)
    assert "There is no `running` &#x27;no&#x27;" in tight(
        admin.get("/jobs?running=no").content.decode()
    )


@pytest.mark.parametrize(("useful_ms", "is_well"), [(19.1, True), (19, False)])
def test_a_job_that_wastes_hardly_anything_for_no_known_reason_has_nothing_to_change(
    client, useful_ms, is_well
):
    """Of 20 parts one is idle, or a little less: from 5 % on somebody may want to know why."""
    told.cause("undetermined", low=0, high=0)
    of, on = told.job(), told.gpu()
    useful = round(HOUR_MS * useful_ms / 20)
    an_entry(on, "useful", useful, start=NOW - timedelta(hours=2), job=of)
    idle = {"start": NOW - timedelta(hours=2), "job": of, "tier": "certain"}
    an_entry(on, "idle", HOUR_MS - useful, **idle)

    admin = log_in(client)
    page, listed = (
        tight(admin.get(address).content.decode())
        for address in ("/jobs/slurm/della/7?range=7d", "/jobs?range=7d")
    )

    assert ("<h2>Nothing to change</h2>" in page) is is_well
    assert ("No known cause" in listed) is not is_well
    assert ("<h2>No known cause</h2>" in page) is not is_well


def test_a_busy_job_has_nothing_to_change_on_its_page_as_in_the_list(client):
    told.cause("busy", low=0, high=0)
    an_entry(told.gpu(), "useful", HOUR_MS, start=NOW - timedelta(hours=2), job=told.job())

    admin = log_in(client)
    page, listed = (
        tight(admin.get(address).content.decode())
        for address in ("/jobs/slurm/della/7?range=7d", "/jobs?range=7d")
    )

    assert "<h2>Nothing to change</h2>" in page
    assert "how efficient that work is can&#x27;t be measured on it" in page
    assert "at most, by the power it draws" in page
    assert "Nothing to change" in listed
    assert "Busy, efficiency not measured" not in page + listed


def test_a_short_job_that_was_observed_is_too_short_to_judge_not_without_telemetry(client):
    """Six minutes lie in two cells, of the second of which one minute is the job's: a fifth of it
    is no missing telemetry.
    """
    told.cause("no_telemetry", hours=0.1, low=0, high=0, waste="underused_ms")
    an_entry(told.gpu(), "underused", HOUR_MS // 10, start=NOW - timedelta(hours=2), job=told.job())

    admin = log_in(client)
    page, listed = (
        tight(admin.get(address).content.decode())
        for address in ("/jobs/slurm/della/7?range=7d", "/jobs?range=7d")
    )

    assert "<h2>Too short to judge</h2>" in page
    assert "Too short to judge" in listed
    assert "No telemetry" not in page + listed


def test_of_a_job_that_ended_nothing_is_said_of_now(client):
    """No processes of it run, and it is not live."""
    start_ms = to_ms(NOW) - 2 * HOUR_MS
    of = told.job(state="COMPLETED", start_ms=start_ms, end_ms=to_ms(NOW) - HOUR_MS)
    running = told.job("slurm/della/8", state="RUNNING", start_ms=start_ms)
    log_in(client)

    ended, live = (client.get(f"/jobs/{job.key}").content.decode() for job in (of, running))

    assert ("data-as-of" in ended, "<h2>Processes</h2>" in ended) == (False, False)
    assert ("data-as-of" in live, "<h2>Processes</h2>" in live) == (True, True)


def test_a_running_job_begins_with_why_what_it_costs_now_and_what_to_do(client):
    told.rate()
    of = told.job(state="RUNNING", start_ms=to_ms(NOW) - 5 * HOUR_MS, end_ms=None)
    factories.hold(told.gpu(), of, hours_ago=5, hours=5, now=NOW)
    an_entry(told.gpu(), "idle", job=of, start=NOW - timedelta(hours=1), tier="certain")
    told.cause(of=of, start=NOW - timedelta(hours=1))
    told.finding(of, first_ms=to_ms(NOW) - HOUR_MS)

    page = tight(log_in(client).get(f"/jobs/{of.key}").content.decode())

    case = re.sub("<[^>]*>", " ", page[: page.index('<dl class="kpis">')])
    assert "scancel 7" in case
    assert "Now: $2.00 in the last hour, $2.00 of it wasted." in " ".join(case.split())
    Job.objects.update(state="COMPLETED", end_ms=to_ms(NOW))
    assert "in the last hour" not in client.get(f"/jobs/{of.key}").content.decode()


def test_a_job_that_is_underused_says_so_now_and_in_all(client):
    told.rate()
    of = told.job(state="RUNNING", start_ms=to_ms(NOW) - 5 * HOUR_MS, end_ms=None)
    factories.hold(told.gpu(), of, hours_ago=5, hours=5, now=NOW)
    an_entry(told.gpu(), "underused", job=of, start=NOW - timedelta(hours=1))
    told.cause("small_batch", of=of, start=NOW - timedelta(hours=1), waste="underused_ms")

    page = tight(log_in(client).get(f"/jobs/{of.key}").content.decode())

    words = " ".join(re.sub("<[^>]*>", " ", page).split())
    assert "$0.00 of it wasted, $2.00 underused." in words
    assert "100 % underused: $2.00 1.00 of its 1.00 GPU-hours" in words


def test_the_page_says_what_the_findings_own_signs_say(client, monkeypatch):
    """Full cores alone decide too: then nobody saw bursts."""
    of = told.job()
    told.cause("data_starved", of=of, waste="stalled_probable_ms")
    told.finding(of, "data_starved")
    full = Facts(met=frozenset({"cpu", "util"}), cores=8.0)
    monkeypatch.setattr(
        inbox,
        "evidence",
        lambda *_: SimpleNamespace(facts=full, signs=(), gpu=told.gpu(), start_ms=0, end_ms=0),
    )

    page = log_in(client).get(f"/jobs/{of.key}?range=7d").content.decode()

    assert "The job&#x27;s CPU cores are full while the GPU is not: it probably waits" in page
    assert "in bursts" not in page


@pytest.mark.parametrize(("stalled_of_four", "is_said"), [(1, False), (2, False), (3, True)])
def test_of_an_idle_job_whose_waste_is_mostly_short_pauses_the_head_says_so(
    client, stalled_of_four, is_said
):
    of = told.job(kind="interactive")
    an_entry(told.gpu(), "idle", job=of, start=NOW - timedelta(hours=2), tier="certain")
    for number in range(4):
        waste = "stalled_probable_ms" if number < stalled_of_four else "idle_certain_ms"
        told.cause(of=of, start=NOW - timedelta(hours=2 + number), waste=waste)

    page = tight(log_in(client).get(f"/jobs/{of.key}?range=7d").content.decode())

    more = ", mostly in pauses of less than 30 min" if is_said else ""
    assert f"<h2>Idle: still held{more}</h2>" in page


def test_wasted_gpu_hours_stand_beside_those_that_were_held(client):
    of = told.job()
    for hours_ago, state in ((4, "useful"), (3, "idle"), (2, "idle"), (1, "idle")):
        start = NOW - timedelta(hours=hours_ago)
        tier = "certain" if state == "idle" else ""
        an_entry(told.gpu(), state, job=of, start=start, tier=tier)

    page = tight(log_in(client).get(f"/jobs/{of.key}?range=7d").content.decode())

    assert "75 % of its observed GPU time was wasted</h2>" in page
    assert "3.00 of its 4.00 GPU-hours" in " ".join(re.sub("<[^>]*>", " ", page).split())


def test_the_legend_says_what_each_share_is_of(client):
    told.rate()
    of = told.job(JOB)
    for hours_ago, state in ((1, "useful"), (2, "idle")):
        an_entry(told.gpu(), state, job=of, start=NOW - timedelta(hours=hours_ago))

    page = in_text(tight(log_in(client).get(f"/jobs/{JOB}?from=now-2h&to=now").content.decode()))

    assert "Idle 50 % $2.00 , 50 %" in page


def test_what_was_requested_and_held_wraps_within_its_card_beside_the_processes(client, measured):
    Job.objects.update(state="RUNNING", end_ms=None, labels={"requested_memory": "128G"})

    page = tight(log_in(client).get(f"/jobs/{JOB}").content.decode())

    beside = page.partition("<h2>Processes</h2>")[0]
    card = beside.rpartition("<h2>Requested and held</h2>")
    assert card[0].endswith('<section class="card span-5"><header>')
    assert 'class="num"' not in card[2].partition("</table>")[0]
    assert 'class="card span-7"' in card[2]


def test_its_findings_are_a_block_each_on_a_small_screen(client, measured):
    job = Job.objects.get()
    factories.rate("2.40")
    told.cause(of=job, on=measured, start=NOW - timedelta(hours=2))
    told.finding(job, first_ms=to_ms(NOW) - 2 * HOUR_MS, last_ms=to_ms(NOW) - HOUR_MS)

    page = tight(log_in(client).get(f"/jobs/{JOB}").content.decode())

    table = page.partition('<th scope="col">Finding</th>')
    assert table[0].endswith('<table class="stacked"><thead><tr>')
    assert '<td class="num" data-label="Could be saved">' in table[2]
