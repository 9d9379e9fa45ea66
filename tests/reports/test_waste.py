import csv
import io
from datetime import timedelta

import pytest

from fleetwatch.diagnosis.causes import title
from fleetwatch.diagnosis.judgement.verdicts import UNDETERMINED
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports import selectors, waste
from tests.costs.factories import HOUR, a_gpu, a_job, a_rate, an_entry
from tests.diagnosis import told

ONE_HOUR = Interval(HOUR, HOUR + timedelta(hours=1))
HALF_HOUR_MS = 1_800_000


def rows(report: waste.WasteReport) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(waste.to_csv(report))))


def two_teams() -> None:
    """nlp: half an hour useful, half an hour idle at $4/h; vision: an hour idle at $2/h; both
    certain.
    """
    dear, cheap = a_gpu(model="H100 SXM"), a_gpu(model="L4")
    a_rate("4", gpu=dear)
    a_rate("2", gpu=cheap)
    nlp, vision = (
        a_job(key="slurm/della/1", user="ann", team="nlp"),
        a_job(key="slurm/della/2", user="ben", team="vision"),
    )
    an_entry(dear, "useful", HALF_HOUR_MS, job=nlp)
    an_entry(dear, "idle", HALF_HOUR_MS, job=nlp, tier="certain")
    an_entry(cheap, "idle", 2 * HALF_HOUR_MS, job=vision, tier="probable")


@pytest.mark.django_db
def test_the_csv_says_who_wasted_what_in_named_units():
    two_teams()

    by_team = {row["team"]: row for row in rows(selectors.waste_rows(ONE_HOUR, "team"))}

    nlp = by_team["nlp"]
    assert (nlp["from_utc"], nlp["to_utc"]) == ("2026-11-02T09:00:00Z", "2026-11-02T10:00:00Z")
    assert (nlp["capacity_gpu_hours"], nlp["useful_gpu_hours"], nlp["idle_gpu_hours"]) == (
        "1.000000",
        "0.500000",
        "0.500000",
    )
    assert (
        nlp["cost_usd"],
        nlp["wasted_usd"],
        nlp["waste_certain_usd"],
        nlp["waste_probable_usd"],
    ) == (
        "4.000000",
        "2.000000",
        "2.000000",
        "0.000000",
    )
    assert (nlp["wasted_share_of_observed"], nlp["spend_efficiency"], nlp["coverage"]) == (
        "0.500000",
        "0.500000",
        "1.000000",
    )
    assert by_team["vision"]["wasted_usd"] == "2.000000"
    assert by_team["vision"]["waste_probable_gpu_hours"] == "1.000000"


@pytest.mark.django_db
def test_the_csv_has_what_is_only_utilisation_and_what_only_waits_as_states_of_their_own():
    gpu = a_gpu()
    a_rate("3", gpu=gpu)
    ocr = a_job(team="nlp")
    an_entry(gpu, "useful", HALF_HOUR_MS, job=ocr, efficiency_source="none")
    an_entry(gpu, "stalled", HALF_HOUR_MS, job=ocr, tier="potential")

    [row, *_] = [
        row for row in rows(selectors.waste_rows(ONE_HOUR, "team")) if row["team"] == "nlp"
    ]

    assert (row["useful_gpu_hours"], row["busy_unverified_gpu_hours"]) == ("0.000000", "0.500000")
    assert (row["cost_usd"], row["busy_unverified_usd"]) == ("3.000000", "1.500000")
    assert (row["stalled_gpu_hours"], row["waiting_gpu_hours"]) == ("0.000000", "0.500000")
    assert row["waiting_usd"] == "1.500000"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("group_by", "keys"),
    [
        ("user", {"ann", "ben"}),
        ("job", {"slurm/della/1", "slurm/della/2"}),
        ("gpu_model", {"H100 SXM", "L4"}),
    ],
)
def test_the_same_by_user_job_and_model(group_by, keys):
    two_teams()

    report = selectors.waste_rows(ONE_HOUR, group_by)

    assert {line.key for line in report.lines} == keys
    assert sum(line.totals.wasted_usd for line in report.lines) == report.total.wasted_usd == 4


@pytest.mark.django_db
def test_by_cause_lines_and_what_has_none_sum_to_the_total():
    gpu = told.gpu()
    told.rate("2")
    job = told.job()
    start = told.NOW - timedelta(hours=2)
    an_entry(gpu, "idle", 2 * HALF_HOUR_MS, start=start, job=job, tier="certain")
    useful = {"start": start + timedelta(hours=1), "job": job, "efficiency_source": "none"}
    an_entry(gpu, "useful", HALF_HOUR_MS, **useful)
    an_entry(
        gpu, "stalled", HALF_HOUR_MS, start=start + timedelta(hours=1), job=job, tier="probable"
    )
    told.cause(of=job, on=gpu, start=start)

    report = selectors.waste_rows(Interval(start, told.NOW), "cause")
    lines = rows(report)

    assert [
        (line["cause"], line["label"], line["cost_usd"], line["wasted_usd"]) for line in lines
    ] == [
        ("idle_held", "Idle: still held", "2.000000", "2.000000"),
        ("undetermined", title(UNDETERMINED), "1.000000", "1.000000"),
        ("", "no cause: useful time", "1.000000", "0.000000"),
    ]
    # what is unverified is in the line that has it, as in every other grouping
    unverified = [
        (line["busy_unverified_gpu_hours"], line["busy_unverified_usd"]) for line in lines
    ]
    assert unverified == [("0.000000", "0.000000")] * 2 + [("0.500000", "1.000000")]
    assert report.lines[-1].totals.shown_states["unverified"] == HALF_HOUR_MS
    assert report.total.cost_usd == 4


def test_another_breakdown_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="team, project, cost_centre, user, job"):
        selectors.waste_rows(ONE_HOUR, "colour")


@pytest.mark.django_db
def test_a_period_without_entries_is_a_head_without_lines():
    assert waste.to_csv(selectors.waste_rows(ONE_HOUR, "team")).splitlines() == [
        "from_utc,to_utc,team,label,capacity_gpu_hours,"
        "useful_gpu_hours,busy_unverified_gpu_hours,underused_gpu_hours,stalled_gpu_hours,"
        "waiting_gpu_hours,idle_gpu_hours,starting_gpu_hours,"
        "orphaned_gpu_hours,free_gpu_hours,unavailable_gpu_hours,unobserved_gpu_hours,"
        "waste_certain_gpu_hours,waste_probable_gpu_hours,waste_potential_gpu_hours,"
        "cost_usd,waste_certain_usd,waste_probable_usd,waste_potential_usd,wasted_usd,"
        "wasted_share_of_observed,spend_efficiency,coverage,unpriced_gpu_hours,has_example_rates,"
        "busy_unverified_usd,waiting_usd"
    ]


@pytest.mark.django_db
def test_three_thirds_of_a_dollar_sum_to_the_dollar():
    gpu = a_gpu()
    a_rate("1", gpu=gpu)
    for number in range(3):
        an_entry(gpu, "idle", 1_200_000, job=a_job(key=f"slurm/della/{number}"), tier="certain")

    lines = rows(selectors.waste_rows(ONE_HOUR, "job"))

    assert sorted(line["cost_usd"] for line in lines) == ["0.333333", "0.333333", "0.333334"]


@pytest.mark.django_db
def test_what_is_unknown_is_an_empty_cell():
    an_entry(a_gpu(), "unobserved", job=a_job())

    (line,) = rows(selectors.waste_rows(ONE_HOUR, "team"))

    assert (line["coverage"], line["wasted_share_of_observed"], line["spend_efficiency"]) == (
        "0.000000",
        "",
        "",
    )
    assert line["unpriced_gpu_hours"] == "1.000000"


@pytest.mark.django_db
def test_a_hostile_user_stays_in_its_cell():
    an_entry(a_gpu(), "idle", job=a_job(user='=cmd|" /C calc"!A0,\n"x"'))

    (line,) = rows(selectors.waste_rows(ONE_HOUR, "user"))

    assert line["user"] == '\'=cmd|" /C calc"!A0,\n"x"'
    assert line["idle_gpu_hours"] == "1.000000"


@pytest.mark.django_db
def test_a_hostile_user_stays_in_its_cell_where_semicolons_cut_lines():
    an_entry(a_gpu(), "idle", job=a_job(user="ann;=1+1"))

    (line,) = rows(selectors.waste_rows(ONE_HOUR, "user"))

    assert line["user"] == "ann;'=1+1"
