"""A finding beside what was measured: pauses, readings at zero, a healthy hour."""

import re
from dataclasses import replace

import numpy as np
import pytest
import time_machine

from fleetwatch.accounts.visibility import NOBODY, Sight, seeing
from fleetwatch.dashboard.drawing.finding_charts import drawn
from fleetwatch.dashboard.drawing.idle_chart import Contrast, contrast
from fleetwatch.dashboard.templatetags.fleetwatch import span
from fleetwatch.diagnosis import services
from fleetwatch.diagnosis.causes import of_kind
from fleetwatch.diagnosis.findings import gpu_windows
from fleetwatch.diagnosis.findings.evidence import evidence
from fleetwatch.diagnosis.findings.excerpts import Excerpt, WindowReadings, most_pauses
from fleetwatch.diagnosis.models import Finding
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, from_ms
from fleetwatch.telemetry import matrices
from tests.dashboard import factories
from tests.dashboard.starved_jobs import traces
from tests.diagnosis import told
from tests.ledger.fleet import BUSY, MINUTE, NOW, QUIET, T0, Sender, a_job, held, post
from tests.markup import in_text, tight

pytestmark = [pytest.mark.django_db]


def test_its_chart_has_the_share_of_readings_at_zero_and_the_band_of_all(client, starved):
    drawn = traces(client, starved)

    assert set(drawn["readings at zero"]["y"]) == {0.45}
    assert set(drawn["lowest to highest"]["y"]) == {0.0, 1.0}
    assert set(drawn["utilisation"]["y"]) == {0.5}


def test_its_band_is_where_both_ends_were_read_and_its_picture_too(client, starved):
    drawn = traces(client, starved)
    picture = client.get(f"/charts/finding?finding={starved.pk}&as=svg")

    assert drawn["lowest reading"]["y"][-3:] == [0.0, 0.0, None]
    ends = drawn["lowest to highest"]["x"]
    assert max(ends) == drawn["lowest reading"]["x"][-1]  # where the last reading ends
    assert picture.status_code == 200


def test_its_chart_shades_the_judged_period_and_no_tooth_of_the_saw_as_a_pause(client, starved):
    """Its run is drawn, the last half hour was judged; 48 % of each window is below 10 %."""
    figure = client.get(f"/charts/finding?finding={starved.pk}").json()

    names = {trace["name"] for trace in figure["data"]}
    assert ("judged period" in names, "pause" in names) == (True, False)
    shades = {(each["x0"], each["x1"], each["name"]) for each in figure["layout"]["shapes"]}
    assert shades == {("2026-11-20T07:30:00", "2026-11-20T08:00:00", "accent")}
    starts = figure["data"][0]["x"]
    assert (starts[0], starts[-1]) == ("2026-11-20T06:00:00", "2026-11-20T07:59:50")
    assert figure["layout"]["xaxis"]["tickformat"] == "%H:%M<br>%a %-d %b"


SAVES = BUSY | {"util_high_fraction": 1.0, "util_dips": 0, "util_longest_low_s": 0.0}
PARTLY = SAVES | {"util_mean": 0.2, "util_min": 0.0, "util_dips": 1, "util_longest_low_s": 40.0}
PAUSED = QUIET | {"util_min": 0.0, "util_max": 0.0, "util_longest_low_s": 60.0, "util_dips": 0}


def test_of_a_checkpoint_words_marks_and_excerpt_count_the_same_pauses(client):
    """Each 10 minutes of two hours it pauses for 100 s, over two windows of a minute."""
    says = [PARTLY, PAUSED, *[SAVES] * 8] * 12
    holds = [held(end=T0 + 2 * HOUR_MS)]
    job = a_job(name="train", start_ms=T0 - HOUR_MS, submit_ms=T0 - HOUR_MS)
    post(Sender().batch(T0, *says, jobs=[job], allocations=holds))
    services.diagnose(NOW, 1000)
    with time_machine.travel(NOW, tick=False):
        client.force_login(factories.user())
        stalled = Finding.objects.get(cause="checkpoint_stall")
        figure = client.get(f"/charts/finding?finding={stalled.pk}").json()
        page = " ".join(tight(client.get(f"/findings/{stalled.pk}").content.decode()).split())

    seen = evidence(stalled.its_job, "checkpoint_stall")
    [counted] = [sign.value for sign in seen.signs if sign.feature == "long_n"]
    shades = {(each["x0"], each["x1"]) for each in figure["layout"]["shapes"]}
    assert len(shades) == counted
    assert f"Shaded:<b>{counted:.0f}</b>pauses of 5 s and more that began in this time." in page
    begin = re.findall(r'data-label="Pauses begun">(\d)<', page)
    assert "The 6 minutes with most pauses, at full resolution: 1 begins" in page
    assert begin.count("1") == 1


def test_of_a_rhythm_that_goes_on_words_and_signs_count_pauses_up_to_when_it_was_judged(client):
    """What came in the three minutes since then, a pause too, is in neither."""
    says = [*[PARTLY, PAUSED, *[SAVES] * 8] * 12, PARTLY, PAUSED, SAVES, PARTLY, PAUSED]
    job = a_job(name="train", start_ms=T0 - HOUR_MS, submit_ms=T0 - HOUR_MS)
    judged = 122
    sender = Sender()
    holds = [held(end=None)]
    post(sender.batch(T0, *says[:judged], jobs=[job], allocations=holds))
    services.diagnose(from_ms(T0 + judged * MINUTE), 1000)
    post(sender.batch(T0 + judged * MINUTE, *says[judged:], jobs=[job], allocations=holds))
    stalled = Finding.objects.get(cause="checkpoint_stall")

    seen = evidence(stalled.its_job, "checkpoint_stall")

    [counted] = [sign.value for sign in seen.signs if sign.feature == "long_n"]
    assert seen.end_ms == T0 + judged * MINUTE
    assert gpu_windows.begun(gpu_windows.long_pauses(seen), seen) == counted


def test_its_page_has_the_minute_with_the_most_pauses_window_by_window(client, starved):
    page = tight(client.get(f"/findings/{starved.pk}").content.decode())
    table = page.partition("The minute with most pauses")[2].partition("</table>")[0]
    rows = table.partition("<tbody>")[2].split("<tr>")[1:]

    assert table.startswith(", at full resolution: 30 begin<")
    assert "a row is the summary of 10 s that was sent" in table
    [row] = rows  # they read the same
    assert '<td class="nowrap">07:35:00<span class="sub">to 07:36:00: 6 rows, each</span>' in row
    shown = re.findall(r'data-label="([^"]+)">(?:<b>)?([^<]+)<', row)
    assert shown[:5] == [
        ("Lowest", "0 %"), ("Median", "40 %"), ("Highest", "100 %"), ("At zero", "45 %"),
        ("Pauses begun", "5"),
    ]  # fmt: skip
    assert '<td class="num" data-label="Longest low">1.7 s</td>' in row


@pytest.mark.parametrize(
    ("dips", "zeros", "first"),
    [
        ([0, 1, 4, 1, 0], [0, 0, 0, 0, 0], 1),
        ([0, 0, 0, 0, 0], [0, 0, 0.2, 0.9, 0], 2),
        ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0], 0),
        ([None, 9, None, 1, 1], [None, 0, None, 0, 0], 3),
    ],
)
def test_of_minutes_that_were_read_the_one_with_the_most_pauses_is_shown(dips, zeros, first):
    lowest = [None if value is None else 0.0 for value in dips]

    columns = {"util_min": lowest, "util_max": lowest, "util_dips": dips}
    assert most_pauses(columns | {"util_zero_fraction": zeros}, 2) == first


def test_of_minutes_without_a_pause_one_that_shows_work_and_rest_is_shown():
    """In the first two windows it rests, in the last it works; the middle one has both."""
    columns = {
        "util_min": [0.0, 0.0, 0.0, 0.8],
        "util_max": [0.0, 0.0, 0.9, 0.9],
        "util_dips": [0, 0, 0, 0],
        "util_zero_fraction": [1.0, 1.0, 0.5, 0.0],
    }

    assert most_pauses(columns, 2) == 1


@pytest.mark.parametrize(("highest", "is_idle"), [(0.09, True), (0.1, False), (None, False)])
def test_a_minute_is_idle_where_each_of_its_readings_is_low(highest, is_idle):
    quiet = WindowReadings(0, 0.0, 0.0, 0.0, 1.0, 0, 10.0)

    assert Excerpt(10, (quiet, replace(quiet, highest=highest))).is_idle == is_idle


def test_what_an_unused_gpu_does_not_do_is_idle_in_its_chart_and_no_pause(client):
    """Of two GPUs the first is idle for three hours; the last of them ends with its job at 8:52."""
    end = T0 + 172 * MINUTE
    batch = Sender(gpus=2).batch(
        T0,
        *[QUIET] * 172,
        jobs=[a_job(name="train", start_ms=T0, submit_ms=T0, end_ms=end)],
        allocations=[held(gpu, end=end) for gpu in (0, 1)],
    )
    windows = batch["windows"]
    for name in ("util_mean", "util_max"):
        windows[name] = [float(gpu == 1) for gpu in windows["gpu"]]
    post(batch)
    services.diagnose(NOW, 1000)
    unused = Finding.objects.get(cause="partial_idle")
    with time_machine.travel(NOW, tick=False):
        client.force_login(factories.user())
        names = set(traces(client, unused))
        page = tight(client.get(f"/findings/{unused.pk}").content.decode())

    assert "<h2>GPU 0 at 0 %, GPU 1 beside it at 100 %</h2>" in page
    seen = evidence(unused.job, "partial_idle")
    assert ("idle" in names, "pause" in names) == (True, False)
    # the last half hour that its job held whole
    assert (seen.end_ms - seen.start_ms, seen.end_ms) == (30 * MINUTE, end - 2 * MINUTE)


@pytest.mark.parametrize(("started_ms", "seen_ms"), [(T0 + 1, T0 + 1), (T0 - 1, T0), (None, T0)])
def test_a_finding_is_not_seen_before_its_job_began(started_ms, seen_ms):
    """Its first cell begins at a clock's five minutes."""
    assert Finding(job=Job(start_ms=started_ms), first_ms=T0).seen_from_ms == seen_ms


def test_of_what_is_shorter_than_a_minute_all_is_shown_and_of_nothing_nothing():
    one = {"util_min": [0.1], "util_max": [0.1], "util_dips": [None]}
    one["util_zero_fraction"] = [None]
    none = {name: [None, None] for name in one}

    assert (most_pauses(one, 6), most_pauses(none, 6)) == (0, None)


@pytest.mark.parametrize(
    ("hours", "said"),
    [(1, "Fri 20 Nov, 06:00 to 07:00"), (24, "Fri 20 Nov, 06:00 to Sat 21 Nov, 06:00")],
)
def test_a_range_names_the_day_of_its_end_where_that_is_another(hours, said):
    assert span({}, T0, T0 + hours * HOUR_MS) == said


@pytest.fixture
def began_ms(request):
    """When the job that goes idle begins."""
    return getattr(request, "param", T0)


@pytest.fixture
def beside_hours(request):
    """For how long of the four hours another job held the GPU beside it, until their end."""
    return getattr(request, "param", 4)


@pytest.fixture
def idle(client, began_ms, beside_hours):
    """A job that works for two hours and then rests for two; the GPU beside it works all along."""
    minutes = 120
    batch = Sender(gpus=2).batch(
        T0,
        *[BUSY] * minutes,
        *[QUIET] * minutes,
        jobs=[a_job(name="train", start_ms=began_ms, submit_ms=T0)],
        allocations=[held(start=began_ms, end=T0 + 4 * HOUR_MS)],
    )
    windows = batch["windows"]
    windows["util_mean"] = [
        1.0 if gpu == 1 else util
        for gpu, util in zip(windows["gpu"], windows["util_mean"], strict=True)
    ]
    post(batch)
    matrices.refresh_recent(from_ms(T0 + 4 * HOUR_MS - 1), count=48)
    services.diagnose(NOW, 1000)
    on, end = GPU.objects.get(index=1), from_ms(T0 + 4 * HOUR_MS)
    other = factories.job("slurm/della/97")
    factories.hold(on, other, hours_ago=beside_hours, hours=beside_hours, now=end)
    with time_machine.travel(NOW, tick=False):
        client.force_login(factories.user())
        yield Finding.objects.get(cause="idle_held")


def test_an_idle_jobs_chart_has_its_work_before_and_the_gpu_beside_it(client, idle):
    figure = client.get(f"/charts/finding?finding={idle.pk}").json()
    # of a band its edge comes before what is filled
    drawn = {trace["name"]: trace["y"] for trace in figure["data"] if "fill" not in trace}

    assert list(drawn) == ["GPU 0, this job", "GPU 1 beside it"]
    [key] = [trace for trace in figure["data"] if trace["name"] == "idle, counted here"]
    # a field of the colour that is shaded
    assert (key["fill"], key["line"]["width"], key["meta"]["token"]) == ("toself", 0, "idle")
    # four hours by five minutes
    assert drawn["GPU 0, this job"] == [1.0] * 24 + [0.0] * 24
    assert drawn["GPU 1 beside it"] == [1.0] * 48
    [shade] = figure["layout"]["shapes"]
    assert (shade["x0"], shade["x1"], shade["name"]) == (
        "2026-11-20T08:00:00", "2026-11-20T10:00:00", "idle",
    )  # fmt: skip


def test_the_gpu_beside_an_idle_one_is_drawn_until_something_is_wrong_with_it_too(client, idle):
    on = GPU.objects.get(index=1)
    told.cause("healthy", of=factories.job("slurm/della/90"), on=on, start=from_ms(T0))
    at = from_ms(T0 + 2 * HOUR_MS)
    told.cause("data_starved", of=factories.job("slurm/della/91"), on=on, start=at)

    shown = contrast(idle, evidence(idle.its_job, idle.cause))

    assert shown.beside.name == "GPU 1 beside it"
    assert [*shown.beside.values[:24]] == [1.0] * 24
    assert np.isnan(shown.beside.values[24:]).all()
    page = in_text(tight(client.get(f"/findings/{idle.pk}").content.decode()))
    assert "GPU 1 beside it: 100 % until Fri 20 Nov, 08:00 (then it wasted time too" in page


@pytest.mark.parametrize("beside_hours", [1.5], indirect=True)
def test_a_gpu_that_was_free_is_compared_with_from_when_a_job_held_it(client, idle):
    """It works as much all along; until 08:30 no job held it."""
    shown = contrast(idle, evidence(idle.its_job, idle.cause))

    assert np.isnan(shown.beside.values[:30]).all()
    assert [*shown.beside.values[30:]] == [1.0] * 18
    page = in_text(tight(client.get(f"/findings/{idle.pk}").content.decode()))
    assert (
        "GPU 1 beside it: 100 % from Fri 20 Nov, 08:30 (no job held it before, or it was not read)"
        in page
    )


def test_a_rhythm_of_checkpoints_is_drawn_over_what_was_judged_and_not_over_the_whole_run(starved):
    seen = evidence(starved.its_job, starved.cause)
    starved.cause = "checkpoint_stall"

    assert drawn(starved, seen) == (seen.start_ms, seen.end_ms)


def test_an_idle_jobs_page_says_the_contrast_in_words_and_other_signs_in_a_line(client, idle):
    page = tight(client.get(f"/findings/{idle.pk}").content.decode())

    assert (
        "100 % busy before it went idle, 0 % in the time counted here</h2><p>GPU 1 beside it: 100 %"
        in page
    )
    assert "beside it: 100 % until" not in page
    assert "at full resolution" not in page


@pytest.fixture
def stirring(client):
    """A job that works for two hours and then rests for two, but for readings of 1 %."""
    quiet, busy = QUIET | {"util_min": 0.0, "util_max": 0.01}, BUSY | {"util_min": 0.9}
    holds = [held(end=T0 + 4 * HOUR_MS)]
    job = a_job(name="train", start_ms=T0, submit_ms=T0)
    says = [*[busy] * 120, *[quiet] * 120]
    post(Sender().batch(T0, *says, jobs=[job], allocations=holds))
    matrices.refresh_recent(from_ms(T0 + 4 * HOUR_MS - 1), count=48)
    services.diagnose(NOW, 1000)
    with time_machine.travel(NOW, tick=False):
        client.force_login(factories.user())
        yield Finding.objects.get(cause="idle_held")


def test_an_idle_jobs_chart_has_the_band_of_its_readings_and_its_page_the_highest(client, stirring):
    drawn = traces(client, stirring)
    page = tight(client.get(f"/findings/{stirring.pk}").content.decode())

    assert drawn["lowest reading"]["y"] == [0.9] * 24 + [0.0] * 24
    assert set(drawn["lowest to highest"]["y"]) >= {0.0, 0.01, 0.9, 1.0}
    assert "Highest reading in the time counted here: 1 %" in page


def test_an_idle_job_alone_on_its_node_is_beside_its_own_good_hour(client, stirring):
    page = tight(client.get(f"/findings/{stirring.pk}").content.decode())

    assert "This job when it went well: 100 %" in page
    assert "Nothing to compare with" not in page


def test_who_sees_only_their_own_has_the_jobs_own_good_hour_as_reference(idle):
    nobodys = Sight(NOBODY, frozenset(), (), with_pseudonyms=False)

    with seeing(lambda: nobodys):
        shown = contrast(idle, evidence(idle.its_job, idle.cause))

    assert shown.beside.name == "when well"
    assert (shown.before, shown.during, shown.went_idle) == (1.0, 0.0, True)


@pytest.mark.parametrize("began_ms", [T0 + 2 * HOUR_MS - 2 * MINUTE], indirect=True)
def test_work_of_whoever_held_the_gpu_before_is_not_the_jobs(idle):
    """It begins two minutes before its GPU goes quiet: these are no five minutes of its own."""
    shown = contrast(idle, evidence(idle.its_job, idle.cause))

    assert (shown.before, shown.during, shown.went_idle) == (None, 0.0, False)


@pytest.mark.parametrize(
    ("before", "during", "went_idle"),
    [
        (0.1, 0.0, True),
        (0.09, 0.0, False),
        (0.6, 0.3, False),
        (0.61, 0.3, True),
        (None, 0.0, False),
    ],
)
def test_a_job_went_idle_that_worked_before_and_twice_as_much(before, during, went_idle):
    values = np.array([np.nan if before is None else before, during])
    gpu = GPU(index=0)

    shown = Contrast(gpu, range(0, 600_000, 300_000), values, [(300_000, 600_000)], None)

    assert shown.went_idle == went_idle


def test_what_to_decide_stands_before_what_was_measured(client, idle):
    page = tight(client.get(f"/findings/{idle.pk}").content.decode())

    places = [page.index(text) for text in ("Mark fixed", "Not waste", "Assign", "data-figure-url")]
    assert places == sorted(places)


def test_a_finding_is_seen_until_the_end_of_the_window_that_shows_it_last(client, starved):
    """Of its last hour nothing could be saved."""
    Finding.objects.filter(pk=starved.pk).update(last_ms=T0 + HOUR_MS)

    page = in_text(tight(client.get(f"/findings/{starved.pk}").content.decode()))

    assert "· seen Fri 20 Nov, 06:10 to Fri 20 Nov, 08:00" in page


@pytest.mark.parametrize("kind", ["service", "batch"])
def test_why_a_known_service_needs_less_of_the_same_sign_is_said(kind):
    words = of_kind("bursty_service", kind).bounds_words

    assert words == (
        "Of a known service time below 10 % of 15 % is enough: it waits for requests; of another"
        " job it takes 30 %."
    )


def test_a_sessions_pages_tell_it_by_the_pauses_that_the_ledger_has(client):
    """Of 60, 29 and 32 quiet minutes between uses the ledger calls 92 idle; beyond 30 are 32."""
    says = [QUIET] * 60 + [BUSY] + [QUIET] * 29 + [BUSY] * 10 + [QUIET] * 32 + [BUSY] * 5
    end = T0 + len(says) * MINUTE
    session = a_job(kind="interactive", name="vscode", start_ms=T0, end_ms=end)
    post(Sender().batch(T0, *says, jobs=[session], allocations=[held(end=end)]))
    services.diagnose(NOW, 1000)
    [finding] = Finding.objects.filter(cause="idle_held")
    with time_machine.travel(NOW, tick=False):
        client.force_login(factories.user())
        Finding.objects.update(step_saved_ms=20 * MINUTE, step_of_ms=80 * MINUTE)  # minutes ago
        page = in_text(tight(client.get(f"/findings/{finding.pk}").content.decode()))
        of_job = in_text(tight(client.get(f"/jobs/{finding.its_job.key}").content.decode()))

    told_of_it = (
        "A session is used on and off, and keeps its GPUs idle between uses.",
        "End sessions that are idle for 30 minutes, or give them a time limit: of the 1.53 GPU-hours"
        " in which this job was idle that would have saved 0.53 GPU-hours",
    )
    assert [words for words in told_of_it if words not in page or words not in of_job] == []
    assert "0.53 GPU-hours, by step" in page
    assert "30 min or longer without a break: 2 times ; 1.53 GPU-hours idle in all" in page
    first = "Fri 20 Nov, 06:00 Fri 20 Nov, 07:00 1 h"
    assert f"From To Idle for Fri 20 Nov, 07:40 Fri 20 Nov, 08:12 32 min {first}" in page
    assert "Idle 67 %" in of_job  # 92 of 137 minutes
    assert "nobody uses" not in page + of_job
