"""Costs by a grouping beside the period before."""

import csv
import io
from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.figures.comparison import compared, ordered
from fleetwatch.figures.selectors import totals, totals_by
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports.explored import explored, table
from fleetwatch.reports.exports.files import to_csv
from tests.costs.factories import HOUR, HOUR_MS, a_gpu, a_job, a_rate, an_entry

pytestmark = pytest.mark.django_db

HOUR_BEFORE = HOUR - timedelta(hours=1)
NOW = Interval(HOUR, HOUR + timedelta(hours=1))
BEFORE = Interval(HOUR_BEFORE, HOUR)
HALF_MS = HOUR_MS // 2


@pytest.fixture
def fleet():
    """At $4 an hour: nlp had $4 and has $2, vision had nothing and has $2, robotics had $2 and has
    nothing; $2 stood free before.
    """
    first, second = a_gpu(), a_gpu()
    a_rate("4", gpu=first)
    nlp, vision, robotics = (
        a_job(key=key, user=key, team=key) for key in ("nlp", "vision", "robotics")
    )
    an_entry(first, "useful", HOUR_MS, job=nlp, start=HOUR_BEFORE)
    an_entry(second, "useful", HALF_MS, job=robotics, start=HOUR_BEFORE)
    an_entry(second, "free", HALF_MS, start=HOUR_BEFORE)
    an_entry(first, "useful", HALF_MS, job=nlp)
    an_entry(first, "idle", HALF_MS, job=vision, tier="certain")


def dollars(line):
    before = None if line.before is None else line.before.cost_usd
    return line.totals.cost_usd, before, line.change_usd


def test_each_line_stands_beside_what_it_cost_before(fleet):
    seen = explored(NOW, BEFORE, "team")

    assert {line.key: dollars(line) for line in seen.lines} == {
        "nlp": (2, 4, -2),
        "vision": (2, 0, 2),
        "robotics": (0, 2, -2),
        "": (0, 2, -2),
    }
    assert dollars(seen.whole) == (4, 8, -4)
    ratios = {line.key: line.change_ratio for line in seen.lines}
    assert ratios == {"nlp": -0.5, "vision": None, "robotics": -1.0, "": -1.0}


def test_shown_lines_and_the_others_are_the_whole_of_both_periods(fleet):
    seen = explored(NOW, BEFORE, "team", size=1)
    [first] = seen.lines
    rest = seen.others.line

    assert seen.others.count == 3
    assert first.totals.cost_usd + rest.totals.cost_usd == totals(NOW).cost_usd
    assert first.before.cost_usd + rest.before.cost_usd == totals(BEFORE).cost_usd


@pytest.mark.parametrize(
    ("began", "is_compared"),
    [(timedelta(0), True), (timedelta(hours=-1), True), (timedelta(milliseconds=1), False)],
)
def test_a_period_before_the_ledgers_first_hour_is_nothing_to_compare_with(began, is_compared):
    gpu = a_gpu()
    an_entry(gpu, "useful", HOUR_MS)
    an_entry(gpu, "useful", HALF_MS, start=HOUR_BEFORE + began)

    seen = explored(NOW, BEFORE, "node")

    assert (seen.before is not None) == is_compared
    assert (seen.whole.before is not None) == is_compared
    assert all((line.before is not None) == is_compared for line in seen.lines)


def test_nothing_was_ever_posted():
    seen = explored(NOW, BEFORE, "team")

    assert (seen.lines, seen.before, seen.whole.totals.capacity_ms) == ([], None, 0)


def test_jobs_are_compared_with_nothing_and_those_after_the_dearest_are_one_line(fleet):
    seen = explored(NOW, BEFORE, "job", size=1)

    assert len(seen.lines) == 1
    assert seen.lines[0].before is None
    assert (seen.others.count, seen.others.line.totals.cost_usd) == (1, 2)
    assert dollars(seen.whole) == (4, 8, -4)


def test_states_are_in_the_ledgers_order(fleet):
    seen = explored(NOW, BEFORE, "state")

    assert [(line.key, line.totals.cost_usd) for line in seen.lines] == [
        ("useful", 2),
        ("idle", 2),
        ("free", 0),
    ]


def test_what_is_told_apart_from_its_state_has_a_line_of_its_own():
    gpu, job = a_gpu(), a_job(kind="service")
    a_rate("4", gpu=gpu)
    for minutes, state, told in (
        (15, "useful", {"efficiency_source": "sensors"}),
        (9, "useful", {"efficiency_source": "none"}),
        (6, "stalled", {"tier": "probable"}),
        (30, "stalled", {"tier": "potential"}),
    ):
        an_entry(gpu, state, minutes * 60_000, job=job, **told)

    seen = explored(NOW, None, "state")

    told = [(line.key, line.label, line.totals.cost_usd) for line in seen.lines]
    assert told == [
        ("useful", "Useful", Decimal("1.0")),
        ("unverified", "Busy, unverified", Decimal("0.6")),
        ("stalled", "Stalled", Decimal("0.4")),
        ("waiting", "Waiting", Decimal("2.0")),
    ]
    assert {line.key: line.totals.cost_usd for line in seen.lines} == {
        key: usd for key, usd in seen.whole.totals.shown_cost.items() if usd
    }
    assert [row[2] for row in table(seen).rows] == [usd for _, _, usd in told]


@pytest.mark.parametrize(
    ("sort", "keys"),
    [
        ("cost", ["nlp", "vision", "robotics", ""]),
        ("before", ["nlp", "robotics", "vision", ""]),
        ("change", ["nlp", "robotics", "vision", ""]),
        ("waste", ["vision", "nlp", "robotics", ""]),
        ("time", ["nlp", "vision", "robotics", ""]),
    ],
)
def test_lines_are_sorted_by_size_then_by_name_and_nobodys_comes_last(fleet, sort, keys):
    lines = compared(totals_by(NOW, "team"), totals_by(BEFORE, "team"))

    assert [line.key for line in ordered(lines, sort)] == keys


def test_the_table_sums_to_the_micro_dollar(fleet):
    written = table(explored(NOW, BEFORE, "team"))
    rows = list(csv.DictReader(io.StringIO(to_csv(written.columns, written.rows))))

    assert sum(Decimal(row["cost_usd"]) for row in rows) == 4
    assert sum(Decimal(row["before_usd"]) for row in rows) == 8
    assert sum(Decimal(row["change_usd"]) for row in rows) == -4
    nlp = next(row for row in rows if row["team"] == "nlp")
    assert list(nlp.items()) == [
        ("team", "nlp"),
        ("team_name", "NLP"),
        ("cost_usd", "2.000000"),  # then as on the page: change, before, hours, shares, waste
        ("change_usd", "-2.000000"),
        ("before_usd", "4.000000"),
        ("gpu_hours", "0.500000"),
        ("share_of_cost", "0.500000"),
        ("usd_per_gpu_hour", "4.000000"),
        ("wasted_usd", "0.000000"),
        ("from_utc", "2026-11-02T09:00:00Z"),
        ("to_utc", "2026-11-02T10:00:00Z"),
        ("before_from_utc", "2026-11-02T08:00:00Z"),
        ("before_to_utc", "2026-11-02T09:00:00Z"),
    ]


def test_the_table_ends_with_what_no_job_held_as_its_page_does(fleet):
    """What stood free costs twice what each team had."""
    an_entry(a_gpu(), "free", HOUR_MS)

    written = table(explored(NOW, None, "team"))

    assert [row[0] for row in written.rows] == ["nlp", "vision", ""]


def test_what_is_not_compared_is_an_empty_cell(fleet):
    written = table(explored(NOW, BEFORE, "job"))
    rows = list(csv.DictReader(io.StringIO(to_csv(written.columns, written.rows))))

    assert {row[name] for row in rows for name in ("before_usd", "change_usd")} == {""}
