"""Capacity, and what other GPUs would have meant, as somebody sees it and as the API answers."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.template.loader import render_to_string

from fleetwatch.costs.models import Commitment, Rate
from fleetwatch.dashboard.views.capacity import Step, first_fall, gentler
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.models import Allocation, Job
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.planning.replayed_runs import Outcome
from fleetwatch.planning.what_if import whole_days
from tests.dashboard import factories
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db

PERIOD = "from=now-4h&to=now"


@pytest.fixture
def machines(admin):
    """Two GPUs of a node at $2 an hour, over the last four hours: of one a job held three hours,
    the other one was free.
    """
    node = factories.node()
    busy = factories.gpu(node, index=0, hours=4)
    free = factories.gpu(node, index=1, hours=4)
    factories.rate("2.00")
    job = factories.job()
    factories.hold(busy, job, hours_ago=4, hours=3)
    states = {4: "useful", 3: "useful", 2: "idle"}
    entries = [
        factories.entry(busy, hours_ago=ago, state=state, held_by=job)
        for ago, state in states.items()
    ]
    entries += [factories.entry(free, hours_ago=ago, state="free") for ago in range(1, 5)]
    Entry.objects.bulk_create([*entries, factories.entry(busy, hours_ago=1, state="free")])
    return admin


def test_what_there_was_stands_beside_what_jobs_held(machines):
    answer = machines.get(f"/capacity?{PERIOD}")

    whole = answer.context["whole"]
    # the last hour is not posted to its end, ten minutes after which it counts
    hours = (answer.context["hours"].end - answer.context["hours"].start) // timedelta(hours=1)
    assert whole.capacity_ms == 2 * hours * 3_600_000
    assert (whole.gpus, whole.held.p50, whole.held.p95) == (2, 1, 1)
    assert (whole.free_ms - whole.whole_ms) == whole.held_ms == 3 * 3_600_000
    assert "H100 SXM" in answer.content.decode()
    assert answer.context["free_usd"]["H100 SXM"] == whole.free_ms * 2 / Decimal(3_600_000)


@pytest.mark.parametrize(
    ("period", "says"),
    [
        # the running hour is not posted yet; of two whole hours that are, all count
        (PERIOD, "3 of 4 hours, those that are whole and posted"),
        ("from=2026-11-20T08:00Z&to=2026-11-20T10:00Z", "all 2 hours"),
    ],
)
def test_it_says_how_many_of_the_periods_hours_count(machines, period, says):
    page = tight(machines.get(f"/capacity?{period}").content.decode())

    assert says in page


@pytest.mark.parametrize(
    ("days", "hours"),
    # clocks go back on the 25th of October, and forward on the 29th of March
    [(("2026-10-20", "2026-10-27"), 169), (("2026-03-24", "2026-03-31"), 167)],
)
def test_a_week_in_which_clocks_change_has_an_hour_more_or_less(machines, days, hours):
    start, end = days
    answer = machines.get(f"/capacity?from={start}&to={end}&tz=Europe/Berlin")

    assert answer.context["asked_hours"] == hours


def test_the_api_has_the_same_figures_as_the_page(machines):
    page = machines.get(f"/capacity?{PERIOD}").context["whole"]
    answer = machines.get(f"/api/v1/capacity?{PERIOD}").json()
    rows = machines.get(f"/charts/capacity?{PERIOD}&as=csv").content.decode().splitlines()

    week = machines.get(f"/charts/capacity-week?{PERIOD}").json()

    assert len(week["data"][0]["z"]) == len(week["layout"]["yaxis"]["tickvals"]) == 7
    assert answer["whole"]["held"] == {"p50": 1, "p95": 1, "most": 1}
    assert answer["whole"]["free_ms"] == page.free_ms
    assert [row["gpu_model"] for row in answer["rows"]] == ["H100 SXM"]
    assert len([cell for day in answer["by_hour_of_week"] for cell in day if cell is not None]) == (
        page.capacity_ms // 7_200_000
    )
    assert len(rows) == 1 + page.capacity_ms // 7_200_000


@pytest.mark.parametrize("name", ["node", "gpu_model", "cluster"])
def test_what_nothing_is_called_has_no_capacity(machines, name):
    assert "No GPU time matches the filters" in tight(
        machines.get(f"/capacity?{PERIOD}&{name}=nobody").content.decode()
    )
    assert machines.get(f"/api/v1/capacity?{PERIOD}&{name}=nobody").json()["rows"] == []


def test_a_commitment_stands_beside_its_use_and_where_it_breaks_even(machines):
    model = factories.gpu_model()
    model.rates.update(pricing_class="on_demand")
    Commitment.objects.create(
        name="three years",
        gpu_model=model,
        gpus=2,
        price_per_gpu_hour=Decimal("1.50"),
        valid_from=factories.NOW - timedelta(days=9),
        created_at=factories.NOW,
    )

    [use] = machines.get(f"/capacity?{PERIOD}").context["commitments"]

    # $1.50 of $2: three quarters of its time; a job held three hours of eight, or of six posted
    assert (use.break_even, use.is_worth_it) == (0.75, False)
    assert use.covered.coverage == 1


def test_with_both_gpus_away_no_job_would_have_run(machines):
    address = "/capacity/what-if?less=2&less_of=H100+SXM"
    answer = machines.get(address)

    replayed = answer.context["replayed"]
    assert (replayed.outcome.runs, replayed.outcome.unfit) == (1, 1)
    assert replayed.saved_usd == pytest.approx(Decimal(replayed.saved_ms) * 2 / 3_600_000)
    api = machines.get(f"/api/v1{address}").json()
    assert api["outcome"]["unfit_ms"] == replayed.outcome.unfit_ms > 0
    assert (api["rows"][0]["gpus"], api["rows"][0]["fewer"]) == (2, 2)


def test_with_one_less_the_job_runs_as_it_did_and_with_none_nothing_is_saved(machines):
    one = machines.get("/capacity/what-if?less=1&less_of=H100+SXM").context["replayed"]
    none = machines.get("/api/v1/capacity/what-if").json()

    assert (one.outcome.waited, one.outcome.unfit, one.outcome.late_ms) == (0, 0, 0)
    assert one.saved_ms > 0
    assert one.days == 1  # with data, not thirty
    assert (none["saved_ms"], none["outcome"]["waited"], none["outcome"]["runs"]) == (0, 0, 1)


def test_while_a_commitment_pays_for_what_is_less_nothing_is_saved(machines):
    """One GPU at the contract's $1.50 an hour is $1,095 a month, once the commitment of both has
    ended.
    """
    Commitment.objects.create(
        name="held",
        gpu_model=GPU.objects.first().model,
        gpus=2,
        price_per_gpu_hour=Decimal("1.50"),
        valid_from=factories.NOW - timedelta(days=9),
        valid_to=datetime(2999, 11, 13, tzinfo=UTC),
        created_at=factories.NOW,
    )

    answer = machines.get("/capacity/what-if?less=1&less_of=H100+SXM")

    paid = answer.context["paid"]
    assert (paid.bound_gpus, paid.now_usd, paid.later_usd) == (1, 0, 1095)
    assert paid.free_from.year == 2999
    page = tight(answer.content.decode())
    text = " ".join(page.split())
    assert "then it saves $1,100 a month, these at their contract’s price" in text
    assert '<td class="num" data-label="Saved now">$0.00</td>' in page
    assert '<td class="num" data-label="Saved later">$1,100</td>' in page


def test_the_headline_says_how_many_of_the_models_own_runs_would_wait(machines):
    """Another model's runs are not asked of."""
    other = factories.gpu(
        factories.node("node-002"), model=factories.gpu_model("L40S"), model_name="NVIDIA L40S"
    )
    factories.hold(other, factories.job("slurm/della/2"), hours_ago=4, hours=3)

    one = tight(machines.get("/capacity/what-if?less=1&less_of=H100+SXM").content.decode())
    both = tight(machines.get("/capacity/what-if?less=2&less_of=H100+SXM").content.decode())

    assert "Of 1 H100 SXM run none would wait" in one
    assert "on 1 of 2 GPUs" in one
    assert "Saves $1,460 a month." in one  # one GPU at $2 an hour for 730 hours
    assert "Not advisable: of 1 H100 SXM run none could run: too few GPUs" in both
    assert "none can run" in both
    assert "all would have started" not in both


def test_the_headline_says_the_harm_alone_and_no_step_is_advised_where_one_less_is_long(machines):
    """On one GPU two runs wait for the first one's end, from 3 and 2 hours ago to one hour ago, where
    the replayed time ends.
    """
    for number in (2, 3):
        later = factories.job(f"slurm/della/{number}")
        factories.hold(GPU.objects.get(index=1), later, hours_ago=5 - number, hours=0.5)

    page = machines.get("/capacity/what-if?less=1&less_of=H100+SXM").content.decode()

    text = " ".join(re.sub("<[^>]*>", " ", page).split())
    headlines = [" ".join(each.split()) for each in re.findall(r"<h2>(.*?)</h2>", page, re.DOTALL)]
    assert (
        "Not advisable: of 3 H100 SXM runs 2 would wait, at least 1 h on average of all, the longest"
        " at least 2 h"
    ) in headlines
    assert text.count("Saves $1,460 a month.") == 1
    assert (
        "None can go without long waits : even 1 fewer means at least 1 h on average of all" in text
    )
    assert "at least 1 h 30 min on average of these, 1 h of all" in text
    assert "really wait" not in text  # no job says when it was submitted
    assert "1 day replayed" in text
    assert "the last day, replayed" in tight(machines.get("/capacity/what-if").content.decode())
    assert text.count("Delayed past this day") == 2
    assert "some runs still wait where the replayed time ends" in text


def test_what_jobs_really_waited_stands_beside_the_replay(machines):
    """Of two jobs that began in these days one had waited an hour, the other none."""
    began_ms = to_ms(factories.NOW - timedelta(hours=2))
    for number, wait_ms in ((2, HOUR_MS), (3, 0)):
        factories.job(f"slurm/della/{number}", start_ms=began_ms, submit_ms=began_ms - wait_ms)

    page = in_text(machines.get("/capacity/what-if?less=1&less_of=H100+SXM").content.decode())

    assert "the 2 that began in these days had waited 30 min on average." in page
    assert "Runs are counted otherwise: a job’s GPUs of one model" in page


def test_replayed_days_are_the_length_of_their_span_rounded():
    began = datetime(2026, 11, 15, 18, 58, tzinfo=UTC)
    lengths = {"2 minutes over": 14 * 24 + 2 / 60, "most of a day over": 14 * 24 + 13, "short": 2}

    days = {name: whole_days(timedelta(hours=hours)) for name, hours in lengths.items()}

    assert days == {"2 minutes over": 14, "most of a day over": 15, "short": 1}
    assert whole_days(datetime(2026, 11, 29, 19, 0, tzinfo=UTC) - began) == 14


def test_a_gentler_step_is_the_largest_with_half_an_hour_of_waiting_at_which_all_fit():
    waits = {1: (9, 0), 2: (30, 0), 4: (31, 0), 6: (0, 1)}  # minutes; runs that never fit, of ten
    steps = [
        Step(fewer, Outcome(runs=10, wait_ms=10 * minutes * 60_000, unfit=unfit), None, None)
        for fewer, (minutes, unfit) in waits.items()
    ]

    asked = {fewer: gentler(steps, fewer) for fewer in waits}
    assert {fewer: step and step.fewer for fewer, step in asked.items()} == {
        1: None, 2: None, 4: 2, 6: 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("after", "is_explained"),
    [
        ({"wait_ms": 94 * 1000, "waited": 10}, True),  # the average falls by 6 %
        ({"wait_ms": 95 * 1000, "waited": 10}, False),
        ({"wait_ms": 200 * 1000, "waited": 9}, True),
        ({"wait_ms": 94 * 1000, "waited": 10, "cut": 1}, False),  # the chart says so
        ({"wait_ms": 0, "waited": 0, "cut": 1, "unfit": 50}, True),
    ],
)
def test_only_a_figure_that_clearly_dips_is_explained_and_no_wait_that_is_cut_off(
    after, is_explained
):
    steps = [
        Step(6, Outcome(runs=100, wait_ms=100 * 1000, waited=10), None, None),
        Step(8, Outcome(runs=100, **after), None, None),
    ]

    assert (first_fall(steps) is not None) is is_explained


def test_a_price_has_the_digits_that_the_dollars_are_the_product_of(machines):
    """1 GPU at $1.861 for 730 hours is $1,358.53; at $1.86 it were $1,357.80."""
    Rate.objects.update(price_per_gpu_hour=Decimal("1.861"))

    page = tight(machines.get("/capacity/what-if?less=1&less_of=H100+SXM").content.decode())

    assert "at $1.861 an hour less" in " ".join(page.split())


def test_what_is_asked_for_is_marked_among_the_steps(machines):
    node = Node.objects.get()
    for index in range(2, 5):
        factories.gpu(node, index=index, hours=4)

    answer = machines.get("/capacity/what-if?less=3&less_of=H100+SXM")

    assert [step.fewer for step in answer.context["steps"]] == [1, 2, 3, 4]
    assert answer.content.decode().count('<tr aria-current="true">') == 1


def test_a_saving_that_commitments_pay_for_is_nothing_and_said_first(machines):
    Commitment.objects.create(
        name="held",
        gpu_model=GPU.objects.first().model,
        gpus=2,
        price_per_gpu_hour=Decimal(2),
        valid_from=factories.NOW - timedelta(days=9),
        created_at=factories.NOW,
    )

    page = tight(machines.get("/capacity/what-if?less=1&less_of=H100+SXM").content.decode())

    assert "Saves nothing now." in page
    assert "Commitments go on paying for 1 of the 1 GPU that goes, with no end." in page
    api = machines.get("/api/v1/capacity/what-if?less=1&less_of=H100+SXM").json()
    # 1 GPU at the contract's $2 x 730 h, once it has ended
    assert (api["month_now_usd"], api["month_later_usd"], api["free_from"]) == (0, 1460, None)
    assert (api["rows"][0]["by_the_hour"], api["rows"][0]["bound_gpus"]) == (0, 1)


def test_the_default_is_replayed_without_being_asked_for(machines):
    asked = 'hx-get="/capacity/what-if?less=1&amp;less_of=H100%20SXM"'

    form = tight(machines.get("/capacity/what-if").content.decode())
    answer = tight(machines.get("/capacity/what-if?less=1&less_of=H100+SXM").content.decode())

    assert asked in form
    assert asked in tight(machines.get(f"/capacity?{PERIOD}").content.decode())
    assert "H100 SXM, 2 now" in form
    assert '<div id="answer">' in answer
    assert "hx-get" not in answer.split("<main")[1]


def test_the_steps_are_drawn_and_what_looks_odd_in_them_is_explained(machines):
    """A job of one GPU of two never fits without both: then there is no wait."""
    answer = machines.get("/capacity/what-if?less=1&less_of=H100+SXM")
    page = tight(answer.content.decode())

    steps = answer.context["steps"]
    assert [step.fewer for step in steps] == [1, 2]
    assert [step.now_usd for step in steps] == pytest.approx([Decimal(1460), Decimal(2920)])
    assert "Average wait of all its runs, by GPUs fewer. 0: 0, 1: 0 s" in page
    assert "Saved a month, by GPUs fewer. 0: $0, 1: $1,460, 2: $2,920" in page


def test_nothing_is_saved_of_the_time_before_gpus_were_on_the_bill(machines):
    """A scheduler says that the job held its GPU an hour before the agents began."""
    before = machines.get("/capacity/what-if?less=2&less_of=H100+SXM").context["replayed"]
    gpu, job = GPU.objects.get(index=0), Job.objects.get()
    Allocation.objects.all().delete()
    factories.hold(gpu, job, hours_ago=5, hours=4)

    after = machines.get("/capacity/what-if?less=2&less_of=H100+SXM").context["replayed"]

    assert (after.saved_ms, after.saved_usd) == (before.saved_ms, before.saved_usd)
    assert after.outcome.unfit_ms > before.outcome.unfit_ms


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 200),
        ("less=-1&less_of=H100+SXM", 422),
        ("less=many&less_of=H100+SXM", 422),
        ("less=100001&less_of=H100+SXM", 422),
        ("less=1&less_of=<script>", 422),
        ("less=1", 422),
        ("more=3&more_of=H100+SXM&elsewhere=1", 200),
    ],
)
def test_what_cannot_be_replayed_is_said(machines, query, status):
    page = machines.get(f"/capacity/what-if?{query}")

    assert page.status_code == status
    assert "<script>'" not in page.content.decode()
    assert machines.get(f"/api/v1/capacity/what-if?{query}").status_code == status


def test_of_a_longer_period_the_last_hundred_days_count(machines):
    factories.entry(GPU.objects.first(), hours_ago=24 * 150, state="free").save()

    whole, cut = (machines.get(f"/capacity?from=now-{days}d&to=now") for days in (100, 101))

    assert (whole.context["is_cut"], cut.context["is_cut"]) == (False, True)
    assert cut.context["hours"].end - cut.context["hours"].start == timedelta(days=100)
    assert "for at most 100 days" in tight(cut.content.decode())


def test_before_an_hour_is_over_the_page_says_so(admin):
    factories.gpu(factories.node())

    assert "No whole hour in this period yet" in tight(
        admin.get("/capacity?from=now-20m&to=now").content.decode()
    )


def test_a_swap_tells_gpus_that_go_and_come_and_what_it_costs_more(machines):
    factories.gpu(factories.node("l4-1"), model=factories.gpu_model("L4"))
    swap = "less=1&less_of=H100+SXM&more=3&more_of=H100+SXM"
    l4 = "/capacity/what-if?less=1&less_of=H100+SXM&more=2&more_of=L4"

    page = " ".join(re.sub("<[^>]*>", " ", machines.get(l4).content.decode()).split())
    freely = tight(machines.get(f"{l4}&elsewhere=1").content.decode())
    more = machines.get(f"/capacity/what-if?{swap}").content.decode()

    assert "with 1 H100 SXM less and 2 L4 more" in page
    assert "Of 1 run none would wait" in freely  # it keeps to the H100 that is left
    assert "if jobs run as fast" not in page
    assert "of the 0 GPUs" not in page
    assert "$−" not in more
    assert "−$" not in more


def test_that_nobody_waits_where_runs_move_is_said_to_depend_on_the_other_models_speed(machines):
    """Both H100 go, and the one run of three hours finds an L4."""
    factories.gpu(factories.node("l4-1"), model=factories.gpu_model("L4"))

    answer = machines.get("/capacity/what-if?less=2&less_of=H100+SXM&elsewhere=1")
    page = " ".join(re.sub("<[^>]*>", " ", answer.content.decode()).split())

    assert "Of 1 run none would wait if jobs run as fast on L4 as on H100 SXM" in page
    assert "1 run ( 3.00 GPU-hours) would run on L4 instead of H100 SXM." in page


def test_runs_that_move_in_are_seen_to_delay_those_of_the_other_model(machines):
    """The one L4 had its own job a little later: the H100's run is there by then."""
    l4 = factories.gpu(factories.node("l4-1"), model=factories.gpu_model("L4"), hours=4)
    factories.hold(l4, factories.job("slurm/della/2"), hours_ago=3, hours=1)

    answer = machines.get("/capacity/what-if?less=2&less_of=H100+SXM&elsewhere=1")

    assert answer.context["outcome"].waited == 1
    assert "none would wait" not in answer.content.decode()


def test_a_saving_that_turns_dearer_once_a_commitment_ends_is_said_and_summed(machines):
    """One H100 at $2 an hour goes; an L4 comes that a contract of $3 pays for until it ends, and
    then is rented at $3: -$1,460 + $2,190 a month.
    """
    l4 = factories.gpu_model("L4")
    there = factories.gpu(factories.node("l4-1"), model=l4, hours=4)
    factories.rate("3.00", model=l4)
    factories.entry(there, hours_ago=2, state="free").save()
    Commitment.objects.create(
        name="held",
        gpu_model=l4,
        gpus=2,
        price_per_gpu_hour=Decimal(3),
        valid_from=factories.NOW - timedelta(days=9),
        created_at=factories.NOW,
    )

    answer = machines.get("/capacity/what-if?less=1&less_of=H100+SXM&more=1&more_of=L4")
    page = tight(answer.content.decode())

    assert "Saves $1,460 a month now." in page
    assert "Once it ends, it costs $730 more a month." in page
    total = page.split("<tfoot>")[1].split("</tfoot>")[0]
    assert '<td class="num" data-label="Saved now">$1,460</td>' in total
    assert '<span class="up">costs $730 more</span>' in total


def test_no_steps_of_another_replay_stand_under_a_swap(machines):
    factories.gpu(factories.node("l4-1"), model=factories.gpu_model("L4"))
    alone = "/capacity/what-if?less=1&less_of=H100+SXM"

    assert 'id="steps"' in machines.get(alone).content.decode()
    for more in ("more=1&more_of=L4", "elsewhere=1"):
        assert 'id="steps"' not in machines.get(f"{alone}&{more}").content.decode()


def test_where_none_is_spare_the_verdict_says_what_the_busiest_hours_leave(machines):
    Entry.objects.all().delete()
    job = factories.job("slurm/della/all-day")
    for gpu in GPU.objects.all():
        factories.hold(gpu, job, hours_ago=30, hours=30)
        entries = [
            factories.entry(gpu, hours_ago=ago, state="useful", held_by=job) for ago in range(1, 31)
        ]
        Entry.objects.bulk_create(entries)

    page = tight(machines.get("/capacity?from=now-30h&to=now").content.decode())

    assert "In the busiest 5 % of hours less than one GPU of each model is left" in page
    assert "in the other 95 % at least H100 SXM 0." in page
    assert "an empty field had no hour in this period that is over" in page


def test_what_free_time_of_each_model_cost_adds_up_to_the_cent(machines):
    for place, name in enumerate(("A100", "L40S", "V100")):
        model = factories.gpu_model(name)
        gpu = factories.gpu(factories.node(f"n{place}"), hours=4, model=model)
        factories.rate("0.333", model=model)
        factories.entry(gpu, hours_ago=2, state="free").save()

    answer = machines.get(f"/capacity?{PERIOD}")

    cents = answer.context["free_cents"]
    assert sorted(cents.values())[:3] == [Decimal("0.33"), Decimal("0.33"), Decimal("0.34")]
    page = answer.content.decode()
    assert page.count(">$0.33<") == 2
    assert page.count(">$0.34<") == 1


def test_free_time_beside_a_queue_says_what_of_it_was_in_pieces_too_small():
    whole = {"pieces_share": 0.5, "free_ms": 4 * HOUR_MS, "whole_ms": 0, "pieces_ms": 0}
    waiting = {"free_ms": 3 * HOUR_MS, "unfit_ms": 2 * HOUR_MS}

    part = in_text(
        render_to_string(
            "dashboard/_capacity_pieces.html",
            {"whole": whole, "while_waiting": waiting},
        )
    )

    assert "Free while jobs waited 3.00 GPU-hours" in part
    assert "of which in pieces too small for any waiting job 2.00 GPU-hours at least" in part
