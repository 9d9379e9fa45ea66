"""Explain, as a page and as a fragment."""

import csv
import html
import re
from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine

from fleetwatch.costs.models import Rate
from fleetwatch.dashboard.state_terms import by_state
from fleetwatch.dashboard.views import explain
from fleetwatch.figures.breakdown import Term
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.models import Posted
from fleetwatch.lib.intervals import HOUR_MS, floor_hour_ms, from_ms, to_ms
from tests.costs.factories import an_entry
from tests.dashboard import factories
from tests.diagnosis import told
from tests.ledger.fleet import BUSY, NOW, QUIET, T0, Sender, a_job, held, post
from tests.markup import tight

pytestmark = pytest.mark.django_db

PERIOD = "from=2026-11-20T06:00Z&to=2026-11-20T07:00Z"


@pytest.fixture
def reader(client):
    with time_machine.travel(NOW, tick=False):
        client.force_login(factories.user(role="engineer"))
        yield client


@pytest.fixture
def gpu(db):
    hostile = "slurm/della/<script>alert(1)</script>"
    post(
        Sender().batch(
            T0, *[BUSY] * 30, *[QUIET] * 30, jobs=[a_job() | {"key": hostile}], allocations=[held()]
        )
    )
    found = GPU.objects.get()
    factories.rate("3.60", model=found.model)
    return found


def test_the_page_tells_entries_windows_and_the_rule(reader, gpu):
    page = reader.get(f"/explain?gpu={gpu.uuid}&{PERIOD}").content.decode()

    assert "<h1>GPU 0 explained</h1>" in page
    assert "at least the 15 min after which a batch job is idle: idle from its start" in page
    assert "$3.60" in page
    assert "<script>alert" not in page


def test_htmx_gets_the_fragment_alone(reader, gpu):
    page = reader.get(
        f"/explain?gpu={gpu.uuid}&{PERIOD}&state=idle", headers={"HX-Request": "true"}
    ).content.decode()

    assert "<h1>" not in page
    assert page.count("in a quiet run since") == 1
    assert "30 windows" in page


def test_what_is_posted_ends_before_the_minute_and_the_page_says_where(reader, gpu):
    """The minutes after 06:10 are to be posted still; two hours later nothing says so."""
    Posted.objects.update(spans=[[T0, T0 + 10 * 60_000]])
    until = "from=2026-11-20T05:00Z&to=2026-11-20T"

    behind = words_of(reader.get(f"/explain?gpu={gpu.uuid}&{until}06:15Z").content.decode())
    whole = words_of(reader.get(f"/explain?gpu={gpu.uuid}&{PERIOD}").content.decode())

    assert "posted until 06:10" in behind
    assert "posted until" not in whole


def words_of(page: str) -> str:
    return " ".join(re.sub("<[^>]*>", " ", tight(page)).split())


def test_a_long_period_says_what_it_comes_to_above_its_newest_hours(reader, gpu):
    """An hour at $3.60 is in the newest six hours, and another one before them."""
    early = floor_hour_ms(to_ms(NOW)) - 20 * HOUR_MS
    an_entry(gpu, start=from_ms(early))
    page = words_of(reader.get(f"/explain?gpu={gpu.uuid}&range=24h").content.decode())

    assert "$7.20 for 2.00 GPU-hours" in page
    below = page.partition("Below:")[2]
    assert "$3.60 for 1.00 GPU-hours of it" in below.partition("the hours before")[0]


def test_a_long_period_has_its_days_each_with_its_dollars_and_the_way_to_its_hours(reader, gpu):
    """At $3.60: an hour nine days ago, and today half an hour useful and half an hour idle."""
    an_entry(gpu, start=from_ms(T0 - 9 * 24 * HOUR_MS))
    address = f"/explain?gpu={gpu.uuid}&from=2026-11-08T00:00Z&to=2026-11-22T00:00Z"
    page = tight(reader.get(address).content.decode())

    text = words_of(page).partition("By day")[2]
    assert "20 Nov 2026" in text
    assert "below Busy, unverified 50 % Idle 50 % 1.00 $3.60 11 Nov 2026" in text
    [day] = re.findall(r'href="(/explain\?[^"]*)">11 Nov 2026</a>', page)
    of_day = reader.get(html.unescape(day))
    assert of_day.context["asked"].start.isoformat() == "2026-11-11T00:00:00+00:00"
    assert of_day.context["asked"].end.isoformat() == "2026-11-12T00:00:00+00:00"
    assert "By hour" in of_day.content.decode()
    [(step, _, gpu_hours, usd)] = of_day.context["steps"]
    assert (f"{step.interval.start:%H:%M}", step.is_shown) == ("06:00", True)
    assert (gpu_hours, usd) == (Decimal("1.00"), Decimal("3.60"))


def test_six_hours_or_less_have_no_steps(reader, gpu):
    page = reader.get(f"/explain?gpu={gpu.uuid}&{PERIOD}").content.decode()

    assert "By hour" not in page
    assert "By day" not in page


def test_the_hours_after_are_one_step_away_until_now(reader, gpu):
    """Now is 18:00."""
    of = f"/explain?gpu={gpu.uuid}&state=idle"
    page = tight(reader.get(f"{of}&from=2026-11-20T07:00Z&to=2026-11-20T08:00Z").content.decode())

    for step, hour in (("before", "06"), ("after", "08")):
        [way] = re.findall(rf'href="(/explain\?[^"]*)">the hours {step}', page)
        asked = reader.get(html.unescape(way)).context["asked"]
        assert f"{asked.start:%H:%M}" == f"{hour}:00"
        assert asked.duration_ms == HOUR_MS
        assert "state=idle" in way
    last = reader.get(f"{of}&from=2026-11-20T17:00Z&to=2026-11-20T18:00Z").content.decode()
    assert "the hours after" not in last


def test_the_policy_that_judged_all_is_said_once_above_them(reader, gpu):
    page = tight(reader.get(f"/explain?gpu={gpu.uuid}&{PERIOD}").content.decode())

    assert "judged by policy 1 " in words_of(page)
    assert re.search(r'href="/settings/policy"\s*>\s*policy', page)
    assert ">Policy</th>" not in page


def test_windows_have_a_total_of_the_time_that_was_asked_for(reader, gpu):
    """From 06:25 to 06:40 five minutes were useful and ten idle; entries are of the whole hour."""
    asked = "from=2026-11-20T06:25Z&to=2026-11-20T06:40Z"
    page = words_of(reader.get(f"/explain?gpu={gpu.uuid}&{asked}").content.decode())

    windows = page.partition("2. An entry is made of measured windows")[2]
    assert "Of 20 Nov 2026, 06:25 – 06:40" in windows
    assert "Total, 0.25 GPU-hours Busy, unverified 5 min Idle 10 min 15 windows" in windows


def test_time_in_other_states_is_not_in_the_windows_of_a_state(reader, gpu):
    answer = reader.get(f"/explain?gpu={gpu.uuid}&{PERIOD}&state=idle")

    assert answer.context["decided"].parts == {"idle": 1_800_000}


def test_the_hours_before_the_newest_ones_are_one_step_away(reader, gpu):
    page = reader.get(f"/explain?gpu={gpu.uuid}&state=idle&range=7d").content.decode()

    found = re.search(r'href="(/explain\?[^"]*)">the hours before', tight(page))
    assert found is not None
    before = reader.get(html.unescape(found[1]))
    assert before.status_code == 200
    assert "state=idle" in found[1]
    assert "can&#x27;t read" not in before.content.decode()


def test_the_hours_before_and_after_keep_the_period_and_its_list_of_days(reader, gpu):
    """An hour at 06:00 today, one twenty hours before now: each six hours from the other."""
    early = from_ms(floor_hour_ms(to_ms(NOW)) - 20 * HOUR_MS)
    an_entry(gpu, start=early)
    newest = reader.get(f"/explain?gpu={gpu.uuid}&range=24h")

    def way(answer, name: str) -> str:
        page = tight(answer.content.decode())
        return html.unescape(re.findall(rf'href="(/explain[?][^"]*)">the hours {name}', page)[0])

    before = reader.get(way(newest, "before"))
    back = reader.get(way(before, "after"))

    assert [each.context["asked"] for each in (before, back)] == [newest.context["asked"]] * 2
    days = [[step[0].interval for step in each.context["steps"]] for each in (newest, before)]
    assert days[0] == days[1]
    assert before.context["interval"].end == early + timedelta(hours=1)
    assert back.context["interval"].start < from_ms(T0) < back.context["interval"].end


def test_the_interval_that_was_asked_for_stands_above_its_whole_hours(reader, gpu):
    """Of an hour at $3.60, half an hour useful and half an hour idle, a quarter is $0.90; entries are
    of the whole hour.
    """
    asked = "from=2026-11-20T06:15Z&to=2026-11-20T06:30Z"
    page = tight(reader.get(f"/explain?gpu={gpu.uuid}&{asked}").content.decode())
    text = " ".join(re.sub("<[^>]*>", " ", page).split())

    assert "$0.90 for 0.25 GPU-hours 20 Nov 2026, 06:15 – 06:30" in text
    assert "these are of 20 Nov 2026, 06:00 – 07:00" in text
    assert "Total of these hours 1.00 $3.60" in text
    assert re.search(r"Of that, 06:15(:00)? to 06:30(:00)? 0.25 \$0.90", text)


def test_the_states_sum_to_the_span(reader, gpu):
    """From 06:25 to 06:40 five minutes were useful ($0.30) and ten idle ($0.60)."""
    asked = "from=2026-11-20T06:25Z&to=2026-11-20T06:40Z"
    page = tight(reader.get(f"/explain?gpu={gpu.uuid}&{asked}").content.decode())
    text = " ".join(re.sub("<[^>]*>", " ", page).split())

    assert "Busy, unverified 0.08 $0.30 Idle 0.17 $0.60 Total 0.25 $0.90" in text


def test_rules_stand_in_order_of_time_and_those_that_decided_most_are_shown(
    reader, gpu, monkeypatch
):
    """From 06:25 to 06:40 it worked for five minutes and was then quiet for ten."""
    asked = f"/explain?gpu={gpu.uuid}&from=2026-11-20T06:25Z&to=2026-11-20T06:40Z"

    every = reader.get(asked).context["windows"]
    monkeypatch.setattr(explain, "MAX_RULES", 1)
    longest = reader.get(asked)

    assert [rule.parts for rule, _ in every] == [{"unverified": 300_000}, {"idle": 600_000}]
    assert [rule.parts for rule, _ in longest.context["windows"]] == [{"idle": 600_000}]
    assert "1 more decided less each" in " ".join(longest.content.decode().split())


def test_no_hour_of_an_explanation_ends_after_now(client, gpu):
    with time_machine.travel("2026-11-20T06:40:00Z", tick=False):
        client.force_login(factories.user(role="engineer"))
        page = client.get(f"/explain?gpu={gpu.uuid}&{PERIOD}").content.decode()

    card = page.partition('id="explain"')[2]
    assert "20 Nov 2026, 06:00 – 06:40" in card
    assert "– 07:00" not in card


def test_pages_that_show_the_figure_lead_to_it(reader, gpu):
    for page in (f"/gpus/{gpu.uuid}?{PERIOD}", f"/nodes/n1?{PERIOD}"):
        assert "/explain?" in reader.get(page).content.decode()
    now = tight(reader.get(f"/gpus/{gpu.uuid}?from=now-2h&to=now").content.decode())
    hours = re.findall(r'href="/explain\?gpu=[^"&]*&amp;from=(\d+)&amp;to=(\d+)"', now)
    last_ms = floor_hour_ms(to_ms(NOW) - 1)  # the hour after it is still to come
    assert [int(first_ms) for first_ms, _ in hours] == [last_ms - HOUR_MS, last_ms]


def test_a_figure_is_gpu_time_times_rate_and_leads_to_its_jobs(reader, gpu):
    page = reader.get(f"/explain?user=ann&{PERIOD}").content.decode()

    assert "GPU time × rate = dollars" in page
    assert page.count("0.5000") >= 2  # hours that stand to be multiplied have four places
    assert "rounded to the total: a cent may differ" in " ".join(page.split())
    assert page.count("$1.80") >= 2  # half an hour useful and half an hour idle, at 3.60
    assert "job=slurm%2Fdella%2F%3Cscript%3E" in page
    assert '<div class="sub">ann' in tight(
        page
    )  # many jobs bear one name: whose it is stands beside it
    assert "<script>alert" not in page


def test_the_rate_has_the_digits_by_which_the_dollars_come_out(reader, gpu):
    Rate.objects.update(price_per_gpu_hour=Decimal("1.861"))

    assert "$1.861" in reader.get(f"/explain?{PERIOD}").content.decode()
    assert "$1.861" in reader.get(f"/explain?gpu={gpu.uuid}&{PERIOD}").content.decode()


def test_a_job_leads_to_its_gpus_and_a_gpu_to_windows(reader, gpu):
    job = "slurm%2Fdella%2F%3Cscript%3Ealert%281%29%3C%2Fscript%3E"
    page = reader.get(f"/explain?user=ann&job={job}&{PERIOD}").content.decode()

    found = re.search(r'href="(/explain\?[^"]*gpu=GPU-n1-0)"', page)
    assert found is not None
    assert "user=" not in found[1]
    assert "in a quiet run since" in reader.get(html.unescape(found[1])).content.decode()


def test_of_what_no_job_held_only_that_is_told(reader, gpu):
    page = reader.get(f"/explain?gpu={gpu.uuid}&job=&{PERIOD}").content.decode()

    assert ", unallocated" in page
    assert "No ledger entries in this time" in page


@pytest.mark.parametrize("query", ["team=nowhere", "state=lazy&user=", "state=idle,lazy"])
def test_a_period_without_gpu_time_says_so(reader, gpu, query):
    page = reader.get(
        f"/explain?{query}&from=2026-11-19T00:00Z&to=2026-11-19T01:00Z"
    ).content.decode()

    assert "No GPU time in this period" in page


def test_figures_lead_to_what_they_are_made_of(reader, gpu):
    assert "/explain?" in reader.get(f"/overview?{PERIOD}").content.decode()
    assert (
        "user=ann"
        in re.findall(
            r'"/explain\?([^"]*)"', reader.get(f"/waste?group_by=user&{PERIOD}").content.decode()
        )[0]
    )


@pytest.mark.parametrize(
    ("step", "figure", "beside"),
    [
        ("useful", "$5.00", "useful time alone; without what is busy, unverified"),
        ("useful,underused,unverified", "$9.00", "useful, underused, busy, unverified time alone"),
    ],
)
def test_the_page_that_a_figure_opens_shows_that_figure(admin, step, figure, beside):
    factories.rate("2.00")
    gpu, job = factories.gpu(factories.node(), hours=5), factories.job()
    for hours_ago, state, says in (
        (4, "useful", {"efficiency_source": "sensors"}),
        (3, "useful", {"efficiency_source": "sensors"}),
        (2, "useful", {"efficiency_source": "none"}),
        (1, "underused", {}),
    ):
        factories.entry(gpu, hours_ago=hours_ago, state=state, held_by=job, **says).save()
    half = {"gpu_ms": 1_800_000, "efficiency_source": "sensors"}
    factories.entry(gpu, hours_ago=5, held_by=job, **half).save()

    overview = admin.get("/overview?from=now-5h&to=now").content.decode()
    address = re.search(rf'href="(/explain[^"]*state={step})"', overview)
    page = admin.get(html.unescape(address[1])).content.decode()

    text = " ".join(re.sub("<[^>]*>", "", page).split())
    assert f"{figure} explained" in text
    assert beside is None or beside in text


@pytest.mark.parametrize("query", ["gpu=", "gpu=GPU-nowhere", "gpu=GPU-n1-0&job=slurm/della/404"])
def test_what_is_not_there_is_404(reader, gpu, query):
    assert reader.get(f"/explain?{query}").status_code == 404


def test_a_stranger_is_sent_to_the_login(client, gpu):
    for query in (f"?gpu={gpu.uuid}", ""):
        assert client.get(f"/explain{query}")["Location"].startswith("/accounts/login/")


def rows_of(answer) -> list[dict[str, str]]:
    assert answer.status_code == 200
    return list(csv.DictReader(answer.content.decode().splitlines()))


def test_the_entries_of_a_gpu_are_a_file(reader, gpu):
    """Half an hour useful and half of one idle, at $3.60."""
    page = reader.get(f"/explain?gpu={gpu.uuid}&{PERIOD}").content.decode()
    rows = rows_of(reader.get(f"/explain.csv?gpu={gpu.uuid}&{PERIOD}"))

    assert "/explain.csv?gpu=" in page
    assert [(row["state"], row["gpu_hours"], row["cost_usd"]) for row in rows] == [
        ("idle", "0.500000", "1.800000"),
        ("unverified", "0.500000", "1.800000"),
    ]
    assert {(row["hour_utc"], row["usd_per_gpu_hour"]) for row in rows} == {
        ("2026-11-20T06:00:00Z", "3.600000")
    }
    assert [row["why"] for row in rows] == [
        "a context is held, by utilisation",
        "by utilisation, efficiency not measured",
    ]
    only = rows_of(reader.get(f"/explain.csv?gpu={gpu.uuid}&{PERIOD}&state=idle"))
    assert [row["state"] for row in only] == ["idle"]


def test_a_file_has_all_entries_of_the_period_and_names_it_with_its_gpu(reader, gpu):
    """The hour from 06:00, of which the page shows no more, and an hour nine days before it."""
    an_entry(gpu, start=from_ms(T0 - 9 * 24 * HOUR_MS))
    period = "from=2026-11-08T00:00Z&to=2026-11-22T00:00Z"

    answer = reader.get(f"/explain.csv?gpu={gpu.uuid}&{period}")

    assert [row["hour_utc"] for row in rows_of(answer)] == [
        "2026-11-11T06:00:00Z",
        *["2026-11-20T06:00:00Z"] * 2,
    ]
    name = "fleetwatch-entries-n1-gpu0-2026-11-08-to-2026-11-20.csv"
    assert answer["Content-Disposition"] == f'attachment; filename="{name}"'
    page = words_of(reader.get(f"/explain?gpu={gpu.uuid}&{period}").content.decode())
    assert "All entries of the period as CSV" in page


def test_what_of_a_files_entries_lies_in_the_period_sums_to_the_page(reader, gpu):
    """From 06:15 to 06:45, of an hour of half an hour useful and then half an hour idle."""
    half = "from=2026-11-20T06:15Z&to=2026-11-20T06:45Z"

    rows = rows_of(reader.get(f"/explain.csv?gpu={gpu.uuid}&{half}"))
    whole = reader.get(f"/explain?gpu={gpu.uuid}&{half}").context["whole"]

    within = [(row["state"], row["gpu_hours"], row["gpu_hours_in_period"]) for row in rows]
    assert sum(Decimal(row["gpu_hours_in_period"]) for row in rows) == Decimal("0.5")
    assert sum(Decimal(row["cost_usd_in_period"]) for row in rows) == whole.cost_usd
    assert within == [("idle", "0.500000", "0.250000"), ("unverified", "0.500000", "0.250000")]


@pytest.mark.parametrize(("limit", "status"), [(2, 200), (1, 422)])
def test_a_file_of_too_many_entries_is_refused_and_says_what_to_do(
    reader, gpu, monkeypatch, limit, status
):
    monkeypatch.setattr(explain, "MAX_ENTRIES", limit)

    answer = reader.get(f"/explain.csv?gpu={gpu.uuid}&{PERIOD}")

    assert answer.status_code == status
    refusal = (
        "This period has 2 ledger entries of the GPU, and a file holds 1:"
        " choose a shorter period, or one state.\n"
    )
    assert (answer.content.decode() == refusal) == (status == 422)


def test_a_file_is_refused_as_its_page_is(reader, gpu, client):
    assert reader.get("/explain.csv?gpu=GPU-none").status_code == 404
    assert reader.get(f"/explain.csv?gpu={gpu.uuid}&job=slurm/x/1").status_code == 404
    assert reader.get("/explain.csv?from=never").status_code == 422
    assert reader.get("/explain.csv?colour=red").status_code == 422
    client.logout()
    assert client.get("/explain.csv").status_code == 302


@pytest.fixture
def five(db):
    """Jobs that cost $5, $4, $3, $2 and $1: hours of a GPU at $1."""
    gpu = told.gpu()
    told.rate("1.00")
    for number in (5, 4, 3, 2, 1):
        of = told.job(f"slurm/della/{number}")
        for hours_ago in range(number):
            start = told.NOW - timedelta(hours=10 * number + hours_ago)
            an_entry(gpu, job=of, start=start)


def test_parts_are_paged_by_the_address_and_each_page_sums_to_the_figure(reader, five, monkeypatch):
    monkeypatch.setattr(explain, "MAX_PARTS", 2)
    address = "/explain?from=2026-11-16T00:00Z&to=2026-11-21T00:00Z"

    first = tight(reader.get(address).content.decode())
    [after] = re.findall(r'href="([?][^"]*after=[^"]*)"', first)
    second = tight(reader.get(f"/explain{html.unescape(after)}").content.decode())

    assert re.findall(r"job=slurm%2Fdella%2F(\d)", first) == ["5", "4"]
    assert re.findall(r"job=slurm%2Fdella%2F(\d)", second) == ["3", "2"]
    assert [re.findall(r"(\d+) (larger|smaller)</td>", page) for page in (first, second)] == [
        [("3", "smaller")],
        [("2", "larger"), ("1", "smaller")],
    ]
    assert all("$15.00" in page for page in (first, second))


def test_all_parts_are_in_the_file_and_sum_to_the_figure(reader, five):
    rows = rows_of(reader.get("/explain.csv?from=2026-11-16T00:00Z&to=2026-11-21T00:00Z"))

    assert [(row["job"], row["cost_usd"]) for row in rows] == [
        (f"slurm/della/{number}", f"{number}.000000") for number in (5, 4, 3, 2, 1)
    ]


def text_of(answer) -> str:
    assert answer.status_code == 200
    return " ".join(re.sub("<[^>]*>", "", answer.content.decode()).split())


def test_a_jobs_figure_names_it_and_its_owner_and_leads_back_to_it(admin):
    factories.rate("2.00")
    job = factories.job("slurm/della/7", name="train", user="ann")
    gpu = factories.gpu(factories.node(), hours=5)
    factories.entry(gpu, hours_ago=2, held_by=job).save()

    page = admin.get(f"/explain?job={job.key}&from=now-5h&to=now")

    assert "train of ann, slurm/della/7" in text_of(page)
    assert "A job holds the GPU and its units work" in text_of(page)
    crumb = page.content.decode().partition('class="crumb"')[2].partition("</p>")[0]
    assert 'href="/jobs/slurm/della/7' in crumb


def test_a_state_of_several_lines_has_its_sum_and_small_lines_are_one():
    """Two models of 4 and 2 hours, and two of a minute each."""
    hours = (("H100", 4.0), ("A100", 2.0), ("L4", 1 / 60), ("T4", 1 / 60))
    rows = [
        (_term(model, each), Decimal(str(round(each, 2))), Decimal(str(round(2 * each, 2))))
        for model, each in hours
    ]

    [useful, idle] = by_state([*rows, (_term("H100", 1, "idle"), Decimal(1), Decimal(2))])

    assert [term.gpu_model for term, *_ in useful.terms] == ["H100", "A100"]
    assert (useful.small.count, useful.small.shown_hours) == (2, Decimal("0.04"))
    assert (useful.whole.count, useful.whole.shown_usd) == (4, Decimal("12.06"))
    assert (idle.small, idle.whole) == (None, None)


def _term(model: str, hours: float, state: str = "useful") -> Term:
    gpu_ms = round(hours * HOUR_MS)
    return Term(state, "", False, model, gpu_ms, Decimal(2), False, Decimal(2) * gpu_ms / HOUR_MS)


def test_what_is_wasted_is_the_sum_of_its_lines_to_the_cent():
    """Of $0.506 useful and $67.194 stalled, $67.70: the cent that is over is no stalled one."""
    usd = [Decimal("0.506"), Decimal("67.194")]
    total = {"gpu_hours": Decimal(0), "cost_usd": Decimal("67.70"), "wasted_usd": Decimal("67.19")}

    dollars = explain._dollars(usd, [False, True], total)

    assert dollars == [Decimal("0.51"), Decimal("67.19")]
