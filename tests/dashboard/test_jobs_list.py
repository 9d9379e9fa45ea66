"""The list of jobs: how long each ran beside the period's dollars, and the list as a file."""

import csv
import re
from datetime import timedelta

import pytest

from fleetwatch.accounts.models import Identity, Organisation, OthersShown, Team
from fleetwatch.accounts.people import Name, give_name, join
from fleetwatch.dashboard.views import job_list
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.costs.factories import an_entry
from tests.dashboard import factories
from tests.diagnosis.told import NOW, gpu, job, rate
from tests.markup import tight

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_frozen")]
DAY = "from=2026-11-19T12:00:00Z&to=2026-11-20T12:00:00Z"


def ran(key: str, *, began: int, ended: int | None, user: str = "ann", name: str = "train") -> Job:
    """From so many hours before now to so many before; an hour of it cost $2, an hour ago."""
    start_ms = to_ms(NOW) - began * HOUR_MS
    end_ms = None if ended is None else to_ms(NOW) - ended * HOUR_MS
    state = "COMPLETED" if ended else "RUNNING"
    of = job(key, user=user, name=name, start_ms=start_ms, end_ms=end_ms, state=state)
    on = gpu(int(of.external_id))
    factories.hold(on, of, hours_ago=2, hours=1, now=NOW)
    an_entry(on, "idle", job=of, start=NOW - timedelta(hours=2), tier="certain")
    return of


@pytest.fixture
def three() -> None:
    rate()
    ran("slurm/della/1", began=52, ended=None)
    ran("slurm/della/2", began=20, ended=1)
    ran("slurm/della/3", began=5, ended=1, user="bob", name="=cmd()")


def rows_of(answer) -> list[dict[str, str]]:
    assert answer.status_code == 200
    return list(csv.DictReader(answer.content.decode().splitlines()))


def test_a_run_that_began_before_the_period_says_how_much_of_it_lies_there(admin, three):
    page = tight(admin.get(f"/jobs?{DAY}").content.decode())

    assert "2 d 4 h<div" in page
    assert page.count("of it<br>in this period") == 1
    assert "1 d of it<br>in this period" in page


def test_the_list_as_a_file_has_its_rows_in_its_order_with_both_durations(admin, three):
    rows = rows_of(admin.get(f"/jobs.csv?{DAY}&sort=start"))

    assert [row["job"] for row in rows] == ["slurm/della/3", "slurm/della/2", "slurm/della/1"]
    last = rows[-1]
    assert (last["duration_s"], last["duration_in_period_s"]) == ("187200", "86400")
    assert (last["gpu_hours"], last["cost_usd"], last["wasted_usd"]) == (
        "1.000000",
        "2.000000",
        "2.000000",
    )
    assert (last["state"], last["ended_utc"], last["started_utc"]) == (
        "running",
        "",
        "2026-11-18T08:00:00Z",
    )


@pytest.mark.parametrize(
    ("asked", "numbers"), [("user=bob", ["3"]), ("q=della/2", ["2"]), ("running=yes", ["1"])]
)
def test_the_file_is_narrowed_as_the_page_is(admin, three, asked, numbers):
    rows = rows_of(admin.get(f"/jobs.csv?{DAY}&{asked}"))

    assert [row["job"].rpartition("/")[2] for row in rows] == numbers


def test_a_spreadsheet_runs_nothing_of_the_file(admin, three):
    [row] = rows_of(admin.get(f"/jobs.csv?{DAY}&user=bob"))

    assert row["name"] == "'=cmd()"


def test_the_file_ends_at_its_cap(admin, three, monkeypatch):
    monkeypatch.setattr(job_list, "MAX_ROWS", 2)

    assert len(rows_of(admin.get(f"/jobs.csv?{DAY}"))) == 2


def test_a_stranger_gets_no_file_and_a_wrong_address_says_why(client, admin, three):
    assert admin.get("/jobs.csv?from=never").status_code == 422
    assert admin.get("/jobs.csv?colour=red").status_code == 422
    client.logout()
    assert client.get("/jobs.csv").status_code == 302


def test_who_sees_own_teams_alone_has_no_others_in_the_file(client, three):
    Organisation.objects.update_or_create(pk=1, defaults={"others_shown": OthersShown.OWN_TEAMS})
    client.force_login(factories.user(role="engineer", username="vera"))

    assert rows_of(client.get(f"/jobs.csv?{DAY}")) == []


def test_the_headline_says_what_the_listed_jobs_cost_and_wasted(admin, three):
    """An hour of each at $2, all of it idle."""
    every, of_one = (
        admin.get(f"/jobs?{DAY}{narrowed}").content.decode() for narrowed in ("", "&user=bob")
    )

    assert "3 jobs cost $6.00, of which $6.00 (100 %) was wasted" in text_of(every)
    assert "1 job cost $2.00, of which $2.00 (100 %) was wasted" in text_of(of_one)


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", page).split())


def test_the_reader_narrows_the_list_to_own_jobs_and_the_own_team(client, three):
    vera = factories.user(role="engineer", username="vera")
    give_name(vera, Name("unix", "bob", ""), source=Identity.Source.ADMIN, now=NOW)
    join(vera, Team.objects.create(slug="nlp", name="nlp"), since=NOW - timedelta(days=9))
    client.force_login(vera)

    every, mine, team = (
        tight(client.get(f"/jobs?{DAY}{narrowed}").content.decode())
        for narrowed in ("", "&user=bob", "&team=nlp")
    )

    assert "user=bob" in every
    assert "team=nlp" in every
    assert 'aria-current="true">Mine<' in mine
    assert "1 job cost" in text_of(mine)
    assert 'aria-current="true">nlp<' in team
    assert 'aria-current="true">Mine<' not in team
    assert 'aria-current="true">All<' in every
    assert 'aria-current="true">All<' not in mine


def test_who_has_no_name_and_no_team_has_no_tab_of_an_own_list(admin, three):
    assert "Mine" not in admin.get(f"/jobs?{DAY}").content.decode()
