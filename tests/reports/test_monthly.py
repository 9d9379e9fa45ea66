"""A month's reports: what they say, by hand; versions; and that everything sums to the fleet's
cost.
"""

import random
from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.selectors import organisation
from fleetwatch.costs.mapping.mappings import add_rule
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, Terms
from fleetwatch.figures import pricing
from fleetwatch.figures import selectors as costs
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports import monthly
from fleetwatch.reports.models import MonthRun, Report, ReportPart
from tests.costs.factories import HOUR_MS, a_gpu, a_job, a_rate
from tests.reports.factories import (
    HOUR,
    NOW,
    OCTOBER,
    SEPTEMBER,
    a_fleet,
    an_adjustment,
    computed,
    counted,
    newest,
    work,
)

pytestmark = pytest.mark.django_db


def test_without_a_month_before_nothing_is_compared():
    counted(a_gpu(), job=a_job())

    computed()

    assert newest("nlp").content["comparison"] is None
    assert newest().content["comparison"] is None


def test_a_team_that_had_gpus_the_month_before_gets_a_statement_of_nothing():
    gpu = a_gpu()
    a_rate("4", gpu=gpu)
    counted(gpu, job=a_job(team="gone"), start=SEPTEMBER)
    counted(gpu, "free")

    computed()

    gone = newest("gone").content
    assert (gone["lines"], gone["total"]["cost_usd"], gone["comparison"]["volume_usd"]) == (
        [],
        "0.000000",
        "-4.000000",
    )


def test_time_without_a_rate_is_said_and_in_no_dollar_figure():
    counted(a_gpu(), job=a_job())

    computed()

    content = newest("nlp").content
    assert (
        content["unpriced_ms"],
        content["lines"][0]["usd_per_gpu_hour"],
        content["lines"][0]["priced_ms"],
    ) == (HOUR_MS, None, 0)


def test_hours_belong_to_the_organisations_month():
    home = organisation()
    home.time_zone = "Asia/Kolkata"
    home.save(update_fields=["time_zone"])
    gpu, job = a_gpu(), a_job()
    counted(gpu, job=job, start=OCTOBER - timedelta(hours=5, minutes=30), gpu_ms=1)
    counted(gpu, job=job, start=OCTOBER - timedelta(hours=6), gpu_ms=10)

    computed()

    assert newest().content["total"]["gpu_ms"] == 1


def test_a_ledger_that_changes_meanwhile_starts_the_run_again_and_mixes_nothing():
    big, _ = a_fleet()
    monthly.ask("2026-10", now=NOW)
    monthly.plan_waiting(NOW)
    first, *rest = monthly.hand_out(NOW)
    monthly.compute_part(first, NOW)

    counted(big, job=Job.objects.get(key="slurm/della/1"), start=OCTOBER + 20 * HOUR)
    assert monthly.compute_part(rest[0], NOW) == {"computed": 0}
    work(NOW)

    assert list(MonthRun.objects.order_by("pk").values_list("state", "restarts")) == [
        ("stale", 0),
        ("done", 1),
    ]
    parts = ReportPart.objects.filter(run__state="done")
    assert parts.get(kind="fleet").report.content["total"]["cost_usd"] == "23.000000"
    assert parts.get(subject="nlp").report.content["total"]["cost_usd"] == "13.000000"


def test_a_part_that_fails_three_times_ends_the_run_where_people_see_it(monkeypatch):
    a_fleet()
    monthly.ask("2026-10", now=NOW)
    monthly.plan_waiting(NOW)
    part = monthly.hand_out(NOW)[0]
    Team.objects.filter(slug="nlp").update(name="x" * 90)
    monkeypatch.setattr(monthly.inputs, "digest", lambda *_: 1 / 0)

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            monthly.compute_part(part, NOW)

    run = MonthRun.objects.get()
    assert run.state == "failed"
    assert "ZeroDivisionError" in run.note
    assert monthly.hand_out(NOW + HOUR) == []


def test_a_part_is_handed_out_once_and_again_when_nothing_came_of_it():
    a_fleet()
    monthly.ask("2026-10", now=NOW)
    monthly.plan_waiting(NOW)

    parts = monthly.hand_out(NOW)

    assert len(parts) == 4  # nlp, vision, (none), fleet
    assert monthly.hand_out(NOW + timedelta(minutes=5)) == []
    assert monthly.hand_out(NOW + timedelta(minutes=5, seconds=1)) == parts


def test_two_people_who_ask_get_one_run():
    first = monthly.ask("2026-10", now=NOW, by="ann")

    assert monthly.ask("2026-10", now=NOW, by="bob") == first


def test_a_month_without_gpu_time_has_no_report():
    run = computed()

    assert (run.state, run.note) == (
        "done",
        "the ledger has no GPU time in this month, and nothing was paid beside it",
    )
    assert Report.objects.count() == 0


def test_the_clock_asks_for_the_last_month_once_a_day_from_six():
    at_six = NOW.replace(hour=6)

    asked = [
        monthly.ask_for_last_month(when)["asked"]
        for when in (at_six - timedelta(seconds=1), at_six, at_six + HOUR)
    ]
    work(at_six)
    tomorrow = monthly.ask_for_last_month(at_six + timedelta(days=1))["asked"]

    assert (asked, tomorrow) == ([0, 1, 0], 1)
    assert set(MonthRun.objects.values_list("month", "asked_by")) == {("2026-10", "")}


@pytest.mark.parametrize("seed", range(4))
def test_statements_and_own_lines_sum_to_the_fleets_cost_to_the_micro_dollar(seed):
    chance = random.Random(seed)
    gpus = [
        a_gpu(model=model, node=f"n{i % 3}") for i, model in enumerate(["H100", "L4", "T4", None])
    ]
    for gpu in gpus[:3]:
        a_rate(f"{chance.randrange(1, 9_999_999) / 10**6:.6f}", gpu=gpu)
    jobs = [
        a_job(team=chance.choice(["a", "b", "c", None]), user=chance.choice(["x", "y", ""]))
        for _ in range(9)
    ]
    for hour in range(40):
        job = chance.choice([*jobs, None, None])
        state = chance.choice(
            ["useful", "underused", "idle", "stalled"]
            if job
            else ["free", "orphaned", "unavailable", "unobserved"]
        )
        start = chance.choice([SEPTEMBER, OCTOBER]) + hour * HOUR
        counted(chance.choice(gpus), state, chance.randrange(1, HOUR_MS), job=job, start=start)

    computed()

    month = Interval(OCTOBER, OCTOBER + timedelta(days=31))
    fleet, whole = newest(), pricing.usd(costs.totals(month).cost_usd)
    statements = [newest(part.subject) for part in ReportPart.objects.filter(kind="statement")]
    lines = [line for each in statements for line in each.content["lines"]] + fleet.content[
        "own_lines"
    ]
    assert (
        sum(Decimal(line["cost_usd"]) for line in lines)
        == fleet.cost_usd
        == Decimal(fleet.content["total"]["cost_usd"])
        == whole
    )
    assert sum(line["gpu_ms"] for line in lines) == costs.totals(month).capacity_ms
    for report in (*statements, fleet):
        comparison = report.content["comparison"]
        parts = [Decimal(comparison[name]) for name in ("volume_usd", "mix_usd", "rate_usd")]
        assert (
            sum(parts)
            == Decimal(comparison["difference_usd"])
            == report.cost_usd - Decimal(comparison["cost_usd"])
        )
        assert Decimal(report.content["total"]["cost_usd"]) == report.cost_usd


def test_corrections_of_closed_months_are_lines_of_the_month_they_were_booked_in():
    big, _ = a_fleet()
    gone = a_job(team="gone")
    an_adjustment(big, -HOUR_MS // 2, job=Job.objects.get(key="slurm/della/1"))
    an_adjustment(big, HOUR_MS // 4, job=gone)
    an_adjustment(big, HOUR_MS // 4, state="free")
    an_adjustment(big, HOUR_MS, job=gone, booked_at=OCTOBER - HOUR)

    computed()

    nlp, other, fleet = newest("nlp").content, newest("gone").content, newest().content
    line = {
        "team": "nlp",
        "corrects": "2026-09",
        "cause": "late data",
        "state": "",
        "gpu_ms": -HOUR_MS // 2,
        "cost_usd": "-2.000000",
    }
    assert nlp["adjustments"] == [line]
    assert (nlp["total"]["cost_usd"], nlp["adjustments_usd"], nlp["adjusted_usd"]) == (
        "9.000000",
        "-2.000000",
        "7.000000",
    )
    assert (other["total"]["cost_usd"], other["adjusted_usd"]) == ("0.000000", "1.000000")
    assert [(each["team"], each["state"], each["cost_usd"]) for each in fleet["adjustments"]] == [
        ("", "free", "1.000000"),
        ("gone", "", "1.000000"),
        ("nlp", "", "-2.000000"),
    ]
    assert (fleet["total"]["cost_usd"], fleet["adjusted_usd"]) == ("19.000000", "19.000000")


def test_statements_follow_mapping_rules_moment_by_moment_and_tell_projects_and_cost_centres():
    a_fleet()
    gives = Gives(team="vision", project="Apollo")
    add_rule(Terms(Conditions(user="ann"), gives, valid_from=OCTOBER + HOUR), now=NOW)

    computed()

    fleet, nlp, vision = newest(), newest("nlp"), newest("vision")
    # the second hour of the job at $4 moved
    assert (nlp.cost_usd, vision.cost_usd, fleet.cost_usd) == (5, 8, 19)
    assert [(line["key"], line["cost_usd"]) for line in vision.content["projects"]] == [
        ("(unmapped)", "4.000000"),
        ("Apollo", "4.000000"),
    ]
    assert (
        nlp.content["projects"],
        nlp.content["cost_centres"],
        fleet.content["cost_centres"],
    ) == ([], [], [])
    # what jobs held
    assert sum(Decimal(line["cost_usd"]) for line in fleet.content["projects"]) == 14
