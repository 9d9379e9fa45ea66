"""The queries of docs/sql.md answer what the API answers."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from django.db import ProgrammingError, connection, transaction

from fleetwatch.costs.models import Attribution
from tests.costs.factories import LONG_AGO, a_gpu, a_job, a_rate, an_entry
from tests.diagnosis.told import cause

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sql.md"
SUNDAY = datetime(2026, 11, 1, tzinfo=UTC)
MONDAY = SUNDAY + timedelta(days=1)
NINE = timedelta(hours=9)
BOTH_DAYS = "from=2026-11-01T00:00Z&to=2026-11-03T00:00Z"


def answered(start: str) -> list[dict[str, object]]:
    """What the page's query that begins so answers."""
    [query] = [
        each
        for each in re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
        if each.startswith(start)
    ]
    with connection.cursor() as cursor:
        cursor.execute(query)
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@pytest.fixture
def fleet(db):
    """Two days of two GPUs at $3, from Monday on at $1.10 and of the second model without a rate:
    a team's, an unmapped and a nameless job, and an hour that nobody held.
    """
    gpu, unpriced = a_gpu(model="H100 SXM"), a_gpu(model="T4")
    a_rate("3.00", gpu=gpu, valid_from=LONG_AGO, valid_to=MONDAY)
    a_rate("1.10", gpu=gpu, valid_from=MONDAY)
    owned = a_job(key="slurm/della/1", user="ann", team="nlp")
    moving = a_job(key="slurm/della/2", user="bob", team=None)
    of_nlp = {"valid_from": LONG_AGO, "valid_to": MONDAY, "team": owned.team}
    for owner in (of_nlp, {"valid_from": MONDAY, "team": None}):
        Attribution.objects.create(job=owned, is_named=True, **owner)
    nameless = a_job(key="slurm/della/4", user="", team=None)
    for day in (SUNDAY, MONDAY):
        an_entry(gpu, "useful", 600_000, start=day + NINE, job=owned)
        an_entry(gpu, "idle", 1_200_000, start=day + NINE, job=owned, tier="certain")
        an_entry(gpu, "idle", 700_000, start=day + NINE, job=moving, tier="probable")
        an_entry(gpu, "stalled", 1_100_000, start=day + NINE, job=nameless, tier="potential")
        an_entry(gpu, "free", start=day + 2 * NINE)
        an_entry(unpriced, "idle", start=day + NINE, job=moving, tier="certain")
        idle = {"start": day + NINE, "low": 0.5, "high": 0.9}
        cause("idle_held", of=owned, on=gpu, hours=1 / 3, **idle)
        cause("straggler", of=moving, on=gpu, hours=7 / 36, waste="idle_probable_ms", **idle)
        cause("idle_held", of=moving, on=unpriced, **idle)


def wasted(row: dict[str, object]) -> float:
    return sum(row["waste"][tier]["usd"] for tier in ("certain", "probable"))


def test_waste_by_team_by_day(fleet, api):
    answers = answered("SELECT day, team")

    by_day = {}
    for day in (SUNDAY, MONDAY):
        period = f"from={day:%Y-%m-%d}T00:00Z&to={day + timedelta(days=1):%Y-%m-%d}T00:00Z"
        rows = api.get(f"/api/v1/waste?group_by=team&{period}").json()["rows"]
        by_day |= {
            (day.date(), row["key"]): (row["cost_usd"]["total"], wasted(row)) for row in rows
        }
    assert {
        (row["day"], row["team"]): (float(row["usd"]), float(row["wasted_usd"])) for row in answers
    } == {key: pytest.approx(dollars, abs=1e-6) for key, dollars in by_day.items()}
    # by hand: 20 of 30 minutes of the team's on Sunday were idle
    assert by_day[SUNDAY.date(), "nlp"] == (1.5, 1.0)
    assert (MONDAY.date(), "nlp") not in by_day
    assert {key for _, key in by_day} == {"nlp", "(unmapped)", "(none)", ""}


def test_what_waste_comes_from(fleet, api):
    answers = answered("SELECT cause")

    rows = api.get(f"/api/v1/waste?group_by=cause&{BOTH_DAYS}").json()["rows"]
    by_cause = {row["key"]: wasted(row) for row in rows}
    assert {row["cause"]: float(row["wasted_usd"]) for row in answers} == {
        key: pytest.approx(dollars, abs=1e-6)
        for key, dollars in by_cause.items()
        if key != "undetermined"
    }
    # a third of an hour at $3 and at $1.10, half to nine tenths of it
    [idle] = [row for row in answers if row["cause"] == "idle_held"]
    assert [round(idle[name], 6) for name in ("wasted_usd", "low_usd", "high_usd")] == [
        Decimal("1.366667"),
        Decimal("0.683333"),
        Decimal("1.230000"),
    ]


def test_the_jobs_that_wasted_most(fleet, api):
    answers = answered("SELECT\n    job")

    rows = api.get(f"/api/v1/jobs?{BOTH_DAYS}").json()["rows"]
    assert [
        (row["job"], row["user_name"], float(row["gpu_hours"]), float(row["wasted_usd"]))
        for row in answers
    ] == [
        (
            row["key"],
            row["user"],
            pytest.approx(sum(row["gpu_hours"].values())),
            pytest.approx(wasted(row), abs=1e-6),
        )
        for row in rows
    ]
    assert answers[0]["job"] == "slurm/della/1"


def test_a_role_of_a_bi_tool_reads_the_views_and_nothing_else(fleet):
    page = PAGE.read_text(encoding="utf-8")
    [grants] = re.findall(r"```\n(CREATE ROLE bi .*?)```", page, re.S)
    views = re.findall(r"^\| `(gpu_\w+)` \|", page, re.M)
    with connection.cursor() as cursor:
        cursor.execute(grants)
        cursor.execute("SET LOCAL ROLE bi")

        for view in views:
            cursor.execute(f"SELECT count(*) FROM {view}")
        cursor.execute(
            "SELECT table_name FROM information_schema.table_privileges WHERE grantee = 'bi'"
        )
        assert sorted(row[0] for row in cursor.fetchall()) == sorted(views)
        for table in ("accounts_apitoken", "notify_channel", "jobs_job"):
            with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
                cursor.execute(f"SELECT 1 FROM {table}")
        cursor.execute("RESET ROLE")
