"""What a figure is made of: the API's explain of any figure, down to the windows."""

from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine
from django.test import Client

from fleetwatch.accounts.selectors import organisation
from fleetwatch.costs.models import Rate
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import Scope
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from tests.costs.factories import a_gpu, a_rate, an_entry
from tests.ledger.fleet import BUSY, MINUTE, NOW, QUIET, T0, Sender, a_job, held, hour, post

pytestmark = pytest.mark.django_db

PERIOD = "from=2026-11-20T06:00Z&to=2026-11-20T08:00Z"


@pytest.fixture(autouse=True)
def at_midnight():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def fleet(db):
    """Two GPUs for two hours: ann's job idles the second half of the first hour, bob's works
    through it; in the second both are free.
    """
    sender = Sender(gpus=2)
    jobs = [a_job("slurm/della/7"), a_job("slurm/della/8") | {"user": "bob"}]
    holds = [held(0, 0, end=T0 + HOUR_MS), held(1, 1, end=T0 + HOUR_MS)]
    first = sender.batch(T0, *[BUSY] * 30, *[QUIET] * 30, jobs=jobs, allocations=holds)
    windows = first["windows"]
    for name in ("util_mean", "util_max"):
        windows[name] = [
            1.0 if place == 1 else value
            for place, value in zip(windows["gpu"], windows[name], strict=True)
        ]
    post(first, sender.batch(T0 + HOUR_MS, *[QUIET] * 60))
    a_rate("3.60", gpu=GPU.objects.first())


def test_the_terms_are_gpu_time_by_state_and_rate_and_sum_to_the_figure(api, fleet):
    told = api.get(f"/api/v1/explain/figure?user=ann&{PERIOD}").json()

    assert (told["usd"], told["gpu_ms"], told["unpriced_ms"]) == (3.6, 60 * MINUTE, 0)
    assert {
        (term["state"], term["gpu_ms"], term["usd_per_gpu_hour"], term["usd"])
        for term in told["terms"]
    } == {
        ("useful", 30 * MINUTE, 3.6, 1.8),
        ("idle", 30 * MINUTE, 3.6, 1.8),
    }


def test_its_parts_lead_down_to_the_windows_and_the_sum_stays(api, fleet):
    figure = api.get(f"/api/v1/explain/figure?{PERIOD}").json()
    by_job = {part["key"]: part for part in figure["parts"]}
    of_job = api.get(by_job["slurm/della/7"]["explain"]).json()
    of_gpu = api.get(of_job["parts"][0]["explain"]).json()

    assert figure["usd"] == float(costs.totals(Interval(hour(0), hour(2))).cost_usd) == 14.4
    assert figure["usd"] == sum(part["cost_usd"]["total"] for part in figure["parts"])
    assert set(by_job) == {"slurm/della/7", "slurm/della/8", ""}
    assert (of_job["parts_by"], of_job["usd"]) == (
        "gpu",
        by_job["slurm/della/7"]["cost_usd"]["total"],
    )
    assert of_gpu["usd"] == of_job["usd"]
    assert {entry["job"] for entry in of_gpu["entries"]} == {"slurm/della/7"}


def test_what_no_job_held_is_a_part_by_its_gpus(api, fleet):
    told = api.get(f"/api/v1/explain/figure?{PERIOD}").json()
    nobody = next(part for part in told["parts"] if not part["key"])
    of_nobody = api.get(nobody["explain"]).json()
    of_gpu = api.get(of_nobody["parts"][0]["explain"]).json()

    assert [part["cost_usd"]["total"] for part in of_nobody["parts"]] == [3.6, 3.6]
    assert of_gpu["usd"] == 3.6
    assert {entry["job"] for entry in of_gpu["entries"]} == {None}


def test_a_state_narrows_it_and_what_follows(api, fleet):
    told = api.get(f"/api/v1/explain/figure?state=idle&{PERIOD}").json()

    assert told["usd"] == float(
        costs.totals(Interval(hour(0), hour(2)), scope=Scope(states=("idle",))).cost_usd
    )
    assert "state=idle" in told["parts"][0]["explain"]


def test_time_without_a_rate_has_no_dollars(api, fleet):
    Rate.objects.all().delete()
    told = api.get(f"/api/v1/explain/figure?user=ann&{PERIOD}").json()

    assert (told["usd"], told["unpriced_ms"], {term["usd"] for term in told["terms"]}) == (
        0,
        60 * MINUTE,
        {None},
    )


def test_the_parts_of_all_pages_sum_to_the_figure(api, fleet):
    parts, cursor = [], ""
    for _ in range(3):
        page = api.get(f"/api/v1/explain/figure?limit=1&cursor={cursor}&{PERIOD}").json()
        parts, cursor = parts + page["parts"], page["next_cursor"]

    assert cursor is None
    assert sum(part["cost_usd"]["total"] for part in parts) == page["usd"]


@pytest.mark.parametrize(
    ("query", "field"),
    [("state=lazy", "state"), ("team=%00", "team"), ("limit=0", "limit"), ("cursor=x", "cursor")],
)
def test_a_question_that_cannot_be_answered_says_why(api, fleet, query, field):
    answer = api.get(f"/api/v1/explain/figure?{query}")

    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_a_name_that_nothing_bears_is_an_empty_figure(api, fleet):
    told = api.get(f"/api/v1/explain/figure?team=nowhere&{PERIOD}").json()

    assert (told["usd"], told["terms"], told["parts"]) == (0, [], [])


def test_a_stranger_gets_401(fleet):
    assert Client().get(f"/api/v1/explain/figure?{PERIOD}").status_code == 401


def test_a_model_state_and_rate_is_one_term_whoever_has_the_rate():
    for model, source in (("H100 SXM", "sensors"), ("H200", "none")):
        gpus = [a_gpu(model=model), a_gpu(model=model)]
        for gpu in gpus:
            an_entry(gpu, start=hour(0), gpu_ms=MINUTE, efficiency_source=source)
        a_rate("3.60", gpu=gpus[0], valid_from=hour(-len(model)))

    terms = costs.traced(Interval(hour(0), hour(1)), size=1).terms

    assert [(term.shown, term.gpu_model, term.gpu_ms, term.usd) for term in terms] == [
        ("useful", "H100 SXM", 2 * MINUTE, Decimal("0.12")),
        ("unverified", "H200", 2 * MINUTE, Decimal("0.12")),
    ]


def test_terms_sum_to_the_figure_where_it_lies_between_two_micro_dollars(api):
    """9 ms at a dollar an hour are 2.5 micro-dollars: 2, as even ones are; the three terms are a
    hair more than that.
    """
    for state, gpu_ms in (("useful", 1), ("idle", 6), ("free", 2)):
        an_entry(on := a_gpu(), state, gpu_ms, start=hour(0))
    a_rate("1.00", gpu=on)

    told = api.get(f"/api/v1/explain/figure?{PERIOD}").json()

    assert told["usd"] == 2e-6
    assert sum(Decimal(repr(term["usd"])) for term in told["terms"]) == Decimal("0.000002")


def test_where_midnight_is_at_half_past_a_day_is_explained_from_there_on(api):
    here = organisation()
    here.time_zone = "Asia/Kolkata"
    here.save()
    before, after = hour(12), hour(12) + timedelta(minutes=30)  # 18:00 UTC, and midnight
    on = a_gpu()
    for start in (before, after):
        an_entry(on, start=start, gpu_ms=30 * MINUTE)
    a_rate("2.00", gpu=on)
    period = f"from={to_ms(after)}&to={to_ms(hour(13))}"

    figure = api.get(f"/api/v1/explain/figure?{period}&job=").json()
    of_gpu = api.get(figure["parts"][0]["explain"]).json()

    assert (figure["usd"], of_gpu["usd"], len(of_gpu["entries"])) == (1, 1, 1)
