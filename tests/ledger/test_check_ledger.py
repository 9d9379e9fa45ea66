"""What does not balance is found, named, and the exit status says so."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db.models import F, Sum

from fleetwatch.accounts.models import Team
from fleetwatch.inventory.models import Node
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import Adjustment, Entry, HourRuns
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.telemetry.services import touch_hours
from tests.ledger.balance import unbalanced
from tests.ledger.fleet import BUSY, HALF, NOW, QUIET, T0, Sender, a_job, held, hour, post

pytestmark = pytest.mark.django_db


@pytest.fixture
def posted():
    post(
        Sender().batch(
            T0, *[BUSY] * 20, *[QUIET] * 20, *[HALF] * 20, jobs=[a_job()], allocations=[held()]
        )
    )


def rules():
    return {fault.rule for fault in unbalanced(hour(-1), hour(3), now=NOW)}


def command(*arguments):
    """Exit status, standard output and error of `manage.py check_ledger`."""
    out, err = StringIO(), StringIO()
    try:
        call_command("check_ledger", *arguments, stdout=out, stderr=err)
    except SystemExit as stop:
        return stop.code, out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_an_empty_ledger_balances():
    assert command() == (0, "the ledger is empty\n", "")


def test_a_posted_ledger_balances(posted):
    status, out, _ = command()

    assert (status, out) == (
        0,
        "the ledger balances from 2026-11-20 06:00 to 2026-11-20 07:00 UTC\n",
    )


def test_one_millisecond_too_many_is_found(posted):
    Entry.objects.filter(state="useful", efficiency_source="none").update(gpu_ms=F("gpu_ms") + 1)

    assert rules() == {
        "states sum to capacity",
        "runs hold the entries",
        "entries are what telemetry says",
    }


@pytest.mark.parametrize(
    ("account", "team", "balances"),
    [
        ("nlp", "nlp", True),
        (" nlp ", "nlp", True),
        ("", "", True),
        ("nlp", "", False),
        ("", "nlp", False),
        ("nlp", "vision", False),
    ],
)
def test_a_jobs_team_is_the_one_that_its_account_names(posted, account, team, balances):
    row = Team.objects.create(slug=team, name=team) if team else None
    Job.objects.update(account=account, team=row)

    status, out, _ = command()

    assert (rules() == set(), status == 0) == (balances, balances)
    assert (f"job slurm/della/7: team {team!r}, its account names {account!r}" in out) == (
        not balances
    )


def test_a_missing_hour_is_found(posted):
    Entry.objects.all().delete()

    assert "states sum to capacity" in rules()


def test_time_moved_between_states_is_found_though_the_sum_is_right(posted):
    Entry.objects.filter(state="idle").update(state="useful", kind="", tier="")

    assert rules() == {"runs hold the entries", "entries are what telemetry says"}


def test_a_time_outside_capacity_is_found(posted):
    entry = Entry.objects.first()
    entry.pk, entry.start = None, hour(2)
    entry.save()

    assert "states sum to capacity" in rules()


def test_an_entry_at_no_cut_is_found(posted):
    Entry.objects.filter(state="idle").update(start=hour(0) + timedelta(minutes=30))

    assert "no time outside capacity" in rules()


def test_wrong_energy_tier_word_and_holder_are_found(posted):
    Entry.objects.filter(state="idle").update(tier="surely")
    Entry.objects.filter(state="stalled").update(energy_j=-1.0)
    Entry.objects.filter(state="useful").update(state="free")

    assert {"known words", "time and energy are positive", "held time is its holder's"} <= rules()


@pytest.mark.parametrize(
    ("energy_j", "is_wrong"),
    [(None, False), (0.0, False), (-1.0, True), (float("inf"), True), (float("nan"), True)],
)
def test_energy_that_no_meter_gives_is_found(posted, energy_j, is_wrong):
    Entry.objects.filter(state="idle").update(energy_j=energy_j)

    assert ("time and energy are positive" in rules()) == is_wrong


def test_an_adjustment_of_an_open_month_is_found_and_one_that_corrects_nothing(posted):
    entry = Entry.objects.filter(state="idle").get()
    columns = {name: getattr(entry, name) for name in ("node", "gpu", "job", "state", "policy")}
    Adjustment.objects.create(
        **columns, start=entry.start, gpu_ms=0, energy_j=0.0, cause="late data", booked_at=NOW
    )

    assert rules() == {"adjustments correct closed months", "known words"}


def test_a_run_that_ends_before_it_begins_is_found(posted):
    HourRuns.objects.update(begins=F("ends"), ends=F("begins"))

    assert "runs lie in their hour" in rules()


def test_a_run_of_an_unknown_condition_is_found(posted):
    HourRuns.objects.update(conditions=[99])

    assert "runs lie in their hour" in rules()


def test_a_run_that_leaves_its_hour_is_found(posted):
    HourRuns.objects.update(cut_ms=F("cut_ms") + 1, ends=[HOUR_MS])

    assert "runs lie in their hour" in rules()


def test_the_command_says_what_and_where_and_exits_1(posted):
    Entry.objects.filter(state="idle").delete()

    status, out, _ = command("--from", "2026-11-20", "--to", "2026-11-21T00:00+00:00")

    assert status == 1
    assert "states sum to capacity: node n1, 2026-11-20 06:00 UTC: GPU" in out
    assert "do not balance" in out


def test_stored_rows_alone_are_compared_where_that_is_asked(posted):
    Entry.objects.filter(state="idle").update(signal="other")  # as no rule of sums can tell

    status, out, _ = command("--stored")

    assert command()[0] == 1
    assert (status, out.splitlines()) == (
        0,
        [
            "not compared with telemetry: --stored",
            "the ledger balances from 2026-11-20 06:00 to 2026-11-20 07:00 UTC",
        ],
    )


def test_outside_the_period_nothing_is_looked_at(posted):
    Entry.objects.all().delete()

    assert command("--from", "2026-11-21", "--to", "2026-11-22")[0] == 0


@pytest.mark.parametrize(
    "arguments", [("--from", "yesterday"), ("--from", "2026-11-21", "--to", "2026-11-20")]
)
def test_bad_arguments_are_refused_with_one_clear_line(arguments):
    status, _, err = command(*arguments)

    assert status == 2
    assert "--from" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("end", ["9999-12-31T23:30", "9000-01-01"])
def test_a_period_that_never_ends_is_checked_to_where_the_ledger_ends(posted, end):
    assert command("--to", end) == (
        0,
        "the ledger balances from 2026-11-20 06:00 to 2026-11-20 07:00 UTC\n",
        "",
    )


def test_hours_that_wait_to_be_posted_are_named(posted):
    touch_hours(Node.objects.get().pk, [(T0, T0 + 1), (T0, T0 + 2)])

    status, out, _ = command()

    assert (status, out.splitlines()[0]) == (
        0,
        "not compared with telemetry: hours of nodes that wait to be posted (1)",
    )


def test_a_gpu_that_moved_is_billed_once_and_its_past_stays(posted):
    moved = Sender("n2").batch(T0 + 2 * 3_600_000, *[BUSY] * 60)
    moved["gpus"][0]["uuid"] = "GPU-n1-0"

    post(moved)

    assert unbalanced(hour(-1), hour(4), now=NOW) == []
    assert Entry.objects.filter(node__name="n1").aggregate(ms=Sum("gpu_ms")) == {"ms": 3_600_000}
    assert Entry.objects.filter(node__name="n2").aggregate(ms=Sum("gpu_ms")) == {"ms": 3_600_000}
