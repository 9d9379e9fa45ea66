"""A month that was computed once: what its reports say, by hand, and what makes a new version."""

from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.models import Team
from fleetwatch.costs.mapping.mappings import add_rule
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, Terms
from fleetwatch.costs.models import Rate
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.reports import monthly
from fleetwatch.reports.models import MonthRun, Report
from fleetwatch.reports.statement_choices import choose_free_capacity
from tests.costs.factories import HOUR_MS, a_job
from tests.diagnosis import told as diagnosed
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
)
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def _computed_month(django_db_setup, django_db_blocker) -> Iterator[GPU]:
    with shared_rows(django_db_blocker):
        big, _ = a_fleet()
        computed()
        yield big


@pytest.fixture(autouse=True)
def big(_computed_month, db) -> GPU:
    """The one that costs $4; October is computed."""
    return deepcopy(_computed_month)


def test_a_statement_has_a_line_per_job_and_gpu_model_with_hours_price_and_waste():
    statement = newest("nlp")
    train, tune = statement.content["lines"]
    assert MonthRun.objects.get().state == "done"
    assert (train["job"], train["name"], train["user"], train["gpu_model"]) == (
        "slurm/della/1",
        "train",
        "ann",
        "H100",
    )
    assert train["states"] == {"useful": HOUR_MS, "idle": HOUR_MS}
    assert (train["cost_usd"], train["usd_per_gpu_hour"]) == ("8.000000", "4.00")
    assert train["waste_usd"] == {
        "certain": "4.000000",
        "probable": "0.000000",
        "potential": "0.000000",
    }
    assert (tune["user"], tune["gpu_model"], tune["cost_usd"]) == ("bob", "L4", "1.000000")
    assert statement.cost_usd == Decimal(9)
    assert statement.content["total"]["cost_usd"] == "9.000000"
    assert statement.content["total"]["wasted_usd"] == "4.000000"
    assert [
        (user["user"], user["jobs"], user["cost_usd"]) for user in statement.content["users"]
    ] == [
        ("ann", 1, "8.000000"),
        ("bob", 1, "1.000000"),
    ]


def test_the_difference_to_the_month_before_is_told_by_its_reasons():
    # 2 h for $8, then 3 h for $9: one hour more at $4, and a third of the hours on a GPU that was
    # not used before ($1)
    assert newest("nlp").content["comparison"] == {
        "cost_usd": "8.000000",
        "difference_usd": "1.000000",
        "volume_usd": "4.000000",
        "mix_usd": "-3.000000",
        "rate_usd": "0.000000",
    }
    assert newest("vision").content["comparison"]["volume_usd"] == "4.000000"


def test_the_fleets_report_has_every_team_and_own_lines_for_what_no_team_held():
    fleet = newest().content
    assert [(team["slug"], team["cost_usd"]) for team in fleet["teams"]] == [
        ("nlp", "9.000000"),
        ("vision", "4.000000"),
        ("(none)", "1.000000"),
    ]
    assert [
        (line["state"], line["gpu_model"], line["cost_usd"]) for line in fleet["own_lines"]
    ] == [
        ("free", "H100", "4.000000"),
        ("unobserved", "L4", "1.000000"),
    ]
    assert fleet["total"]["cost_usd"] == "19.000000"
    assert [
        (line["job"], line["user"], line["team"], line["wasted_usd"]) for line in fleet["savings"]
    ] == [("slurm/della/1", "ann", "NLP", "4.000000")]
    assert (
        newest("(none)").content["team"]["name"]
        == "Jobs without a team: the job names no user or account"
    )


def test_a_new_version_leaves_out_of_the_savings_list_what_was_dismissed(big):
    """A decision alone changes no figure, and makes none."""
    job = Job.objects.get(key="slurm/della/1")
    diagnosed.cause("idle_held", of=job, on=GPU.objects.first(), start=OCTOBER + HOUR)
    diagnosed.finding(job, "idle_held", status="dismissed")
    computed(now=NOW + HOUR)
    assert [line["job"] for line in newest().content["savings"]] == [job.key]

    Rate.objects.filter(gpu_model=big.model).update(price_per_gpu_hour=5)
    computed(now=NOW + 2 * HOUR)

    content = newest().content
    assert content["savings"] == []
    assert content["savings_agreed"] == {"jobs": 1, "wasted_usd": "5.000000"}


def test_computing_again_from_the_same_inputs_makes_no_new_version():
    run = computed(now=NOW + HOUR)

    assert (run.state, run.note) == ("done", "nothing has changed since the newest version")
    assert set(Report.objects.values_list("version", flat=True)) == {1}


def test_a_change_makes_a_new_version_of_what_changed_and_the_old_one_stays(big):
    Rate.objects.filter(gpu_model=big.model).update(price_per_gpu_hour=5)
    computed(now=NOW + HOUR)

    first, second = Report.objects.filter(kind="statement", subject="nlp").order_by("version")
    assert (first.version, first.content["total"]["cost_usd"], first.computed_at) == (
        1,
        "9.000000",
        NOW,
    )
    assert (second.version, second.content["total"]["cost_usd"], second.computed_at) == (
        2,
        "11.000000",
        NOW + HOUR,
    )
    assert first.inputs != second.inputs
    assert Report.objects.filter(subject="(none)").count() == 1


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda gpu: counted(gpu, "free", start=OCTOBER + 9 * HOUR), id="a posted hour"
        ),
        pytest.param(
            lambda gpu: counted(gpu, "free", start=SEPTEMBER + 9 * HOUR),
            id="an hour of the month before",
        ),
        pytest.param(
            lambda gpu: Job.objects.filter(key="slurm/della/1").update(user="zoe"),
            id="a job's user",
        ),
        pytest.param(
            lambda gpu: Team.objects.filter(slug="nlp").update(name="Words"), id="a team's name"
        ),
        pytest.param(
            lambda gpu: Job.objects.filter(key="slurm/della/1").update(team=None), id="a job's team"
        ),
        pytest.param(lambda gpu: Rate.objects.update(is_example=True), id="an example rate"),
        pytest.param(lambda gpu: choose_free_capacity("even"), id="how free capacity is told"),
    ],
)
def test_every_input_counts(big, change):
    change(big)
    computed(now=NOW + HOUR)

    assert Report.objects.filter(version=2).exists()


def test_what_lies_outside_of_both_months_does_not_count(big):
    counted(big, "free", start=OCTOBER + timedelta(days=31))
    a_job(
        key="slurm/della/99",
        start_ms=monthly.months.month(
            "2026-10", now=NOW, zone=monthly.organisation_zone()
        ).interval.end_ms,
    )

    assert computed(now=NOW + HOUR).note == "nothing has changed since the newest version"


def test_a_new_correction_makes_a_new_version(big):
    an_adjustment(big, HOUR_MS, state="free")
    computed(now=NOW + HOUR)

    assert (newest().version, newest("nlp").version) == (2, 1)


def test_a_rule_makes_a_new_version_and_one_of_another_month_does_not():
    add_rule(
        Terms(
            Conditions(user="ann"),
            Gives(team="vision"),
            valid_from=datetime(2026, 11, 1, tzinfo=UTC),
        ),
        now=NOW,
    )
    computed(now=NOW + HOUR)
    assert not Report.objects.filter(version=2).exists()

    add_rule(Terms(Conditions(user="ann"), Gives(team="vision"), valid_from=OCTOBER), now=NOW)
    computed(now=NOW + 2 * HOUR)
    assert newest("vision").version == 2
