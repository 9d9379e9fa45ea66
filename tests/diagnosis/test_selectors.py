"""Findings by dollars and waste by cause, from rows of causes whose sums were worked out by
hand.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from decimal import Decimal
from threading import Event

import pytest
from django.db import connection, transaction

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.selectors import organisation
from fleetwatch.dashboard.pages import page_of
from fleetwatch.diagnosis import cause_checks, cause_rows, selectors, sums
from fleetwatch.diagnosis.cause_time import CauseTime
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.findings.inbox import Which, inbox
from fleetwatch.diagnosis.models import CauseEntry, Finding, Said
from fleetwatch.figures import engine
from fleetwatch.figures.totals import Scope
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from tests.costs.factories import an_entry
from tests.diagnosis.told import DAY, NOW, cause, diagnosed, finding, gpu, job, rate

pytestmark = pytest.mark.django_db

WEEK = Interval(NOW - 7 * DAY, NOW)


def found(interval: Interval = WEEK, **filters):
    return selectors.findings(interval, now=NOW, **filters)[:]


def test_a_finding_costs_its_hours_at_the_rate_of_their_hours():
    rate("2.00")
    rate("4.00", valid_from=NOW - timedelta(hours=2))
    for hours_ago in (3, 2):
        cause(start=NOW - timedelta(hours=hours_ago))
    finding()

    [line] = found()

    # one hour at $2 and one at $4, of which half to all
    assert (line.caused.wasted_usd, line.caused.saving.low_usd, line.caused.saving.high_usd) == (
        6,
        3,
        6,
    )
    assert (line.caused.held_ms, line.caused.tier_ms) == (
        2 * HOUR_MS,
        {"certain": 2 * HOUR_MS, "probable": 0, "potential": 0},
    )


def test_the_largest_saving_stands_first():
    rate()
    small, large = job("slurm/della/1"), job("slurm/della/2")
    cause(of=small, hours=0.5)
    cause(of=large, on=gpu(1))
    finding(small)
    finding(large)

    assert [line.finding.job_id for line in found()] == [large.pk, small.pk]


def test_every_finding_is_on_exactly_one_page_and_what_appears_before_the_cursor_shifts_nothing():
    rate()
    for number, hours in enumerate((0.5, 1, 1, 0.25)):
        run = job(f"slurm/della/{number}")
        cause(of=run, on=gpu(number), hours=hours)
        finding(run)
    numbers = [line.finding.its_job.key[-1] for line in found()]

    every = selectors.findings(WEEK, now=NOW)
    wanted, first = page_of(every, after="", size=2)
    lines = every[wanted]
    late = job("slurm/della/9")
    cause(of=late, on=gpu(9), hours=2)
    finding(late)
    every = selectors.findings(WEEK, now=NOW)
    wanted, second = page_of(every, after=first.after, size=2)
    others = every[wanted]

    assert numbers == ["1", "2", "0", "3"]
    assert [[line.finding.its_job.key[-1] for line in page] for page in (lines, others)] == [
        ["1", "2"],
        ["0", "3"],
    ]
    assert (first.total, first.is_first, second.total, second.is_first, second.after) == (
        4,
        True,
        5,
        False,
        "",
    )
    _, of_nonsense = page_of(selectors.findings(WEEK, now=NOW), after="x~y~z", size=2)
    assert of_nonsense.is_first


def test_findings_are_counted_and_summed_by_status_and_by_whom_they_are_given_to():
    rate()
    ann = User.objects.create(username="ann")
    for number, facts in enumerate(
        ({}, {"status": "accepted", "assignee": ann}, {"status": "snoozed", "snoozed_until": NOW})
    ):
        run = job(f"slurm/della/{number}")
        cause(of=run, on=gpu(number))
        finding(run, **facts)

    every = selectors.findings(WEEK, now=NOW)

    assert every.counts() == {"open": 2, "accepted": 1}
    # an hour each at $2, of which half to all
    assert every.of_status("open").lines.whole().saving == Saving(
        HOUR_MS, 2 * HOUR_MS, Decimal(2), Decimal(4)
    )
    found = {name: inbox(WEEK, now=NOW, which=Which(assignee=name)) for name in ("ann", "", "no")}
    assert {name: len(one.of_jobs) for name, one in found.items()} == {"ann": 1, "": 2, "no": 0}


def test_what_is_outside_the_period_or_saves_nothing_is_not_listed():
    cause(start=NOW - 8 * DAY)
    finding()
    other = job("slurm/della/8")
    cause(of=other, low=0, high=0)
    finding(other)

    assert found() == []


def test_findings_are_narrowed_to_a_team_a_user_a_job_and_a_cause():
    team = Team.objects.create(slug="nlp", name="NLP")
    mine, other = job("slurm/della/1", team=team, user="ann"), job("slurm/della/2", user="bo")
    for of, index in ((mine, 0), (other, 1)):
        cause(of=of, on=gpu(index))
        an_entry(gpu(index), "idle", HOUR_MS, start=NOW - DAY, job=of)
        finding(of)

    for scope in (Scope(team="nlp"), Scope(user="ann"), Scope(job="slurm/della/1")):
        assert [line.finding.job_id for line in found(scope=scope)] == [mine.pk]
    assert found(scope=Scope(team="none such")) == []
    assert found(cause="hung") == []


def test_without_a_rate_hours_are_counted_and_dollars_are_not():
    cause()
    finding()

    [line] = found()

    assert (line.caused.saving.high_ms, line.caused.saving.high_usd, line.caused.unpriced_ms) == (
        HOUR_MS,
        0,
        HOUR_MS,
    )


def test_sums_of_days_say_what_entries_say_also_around_a_change_of_rates():
    rate("2.00")
    rate("3.00", valid_from=NOW - 3 * DAY + timedelta(hours=4))
    for days in range(1, 6):
        diagnosed(NOW - days * DAY)
        for hour in (0, 7):
            cause(start=NOW - days * DAY - timedelta(hours=hour))
    finding()
    [before] = found()

    assert sums.sum_days(NOW, 100) == 5
    assert sums.sum_days(NOW, 100) == 0

    assert found() == [before]
    CauseEntry.objects.filter(start__lt=NOW - 5 * DAY).delete()
    # the sum of that day still answers: entries of summed days are not read
    assert found()[0].caused.held_ms == before.caused.held_ms


def test_a_day_that_is_not_over_is_not_summed():
    diagnosed(NOW)
    cause()

    assert sums.sum_days(NOW, 100) == 0


def test_a_sum_that_is_wrong_is_found():
    day = diagnosed(NOW - 2 * DAY)
    entry = cause(start=NOW - 2 * DAY)
    sums.sum_days(NOW, 100)
    whole = Interval(NOW - 10 * DAY, NOW)
    assert not [fault for fault in cause_checks.faults(whole) if fault.startswith("sums")]

    CauseEntry.objects.filter(pk=entry.pk).update(held_ms=1)

    assert "sums of causes are those of their hours: n1 on 2026-11-18 differs in 1 lines" in list(
        cause_checks.faults(whole)
    )
    assert day.pk


def test_causes_that_no_entry_has_do_not_balance():
    diagnosed(NOW - 2 * DAY)
    cause(start=NOW - 2 * DAY)

    [fault] = cause_checks.faults(Interval(NOW - 10 * DAY, NOW))

    assert (
        fault
        == f"causes sum to idle, stalled and underused: n1 at 2026-11-18 12:00 is {HOUR_MS} ms off"
    )


@pytest.mark.parametrize("verdict", ["healthy", "busy", "video_engines", "no_telemetry"])
@pytest.mark.parametrize(
    ("wasted_ms", "off_ms"), [(540_000, 0), (540_001, 1), (HOUR_MS, HOUR_MS - 540_000)]
)
def test_what_is_called_well_and_wastes_more_than_it_may_does_not_balance(
    verdict, wasted_ms, off_ms
):
    diagnosed(NOW - 2 * DAY)
    cause(verdict, start=NOW - 2 * DAY, low=0, high=0)
    CauseEntry.objects.update(idle_certain_ms=wasted_ms)

    faults = [
        fault
        for fault in cause_checks.faults(Interval(NOW - 10 * DAY, NOW))
        if fault.startswith("what is called")
    ]

    told = f"{cause_checks.RULES['well']}: n1 at 2026-11-18 12:00 is {off_ms} ms off"
    assert faults == ([told] if off_ms else [])


def test_a_cause_that_wastes_is_no_fault():
    diagnosed(NOW - 2 * DAY)
    cause("undetermined", start=NOW - 2 * DAY)

    assert not [
        fault
        for fault in cause_checks.faults(Interval(NOW - 10 * DAY, NOW))
        if fault.startswith("what is called")
    ]


def test_a_snooze_that_is_over_is_open_again():
    cause()
    finding(status="snoozed", snoozed_until=NOW)

    assert found()[0].status == "open"


def test_a_jobs_cause_is_that_of_most_of_its_waste():
    cause("idle_held", hours=0.4)
    cause("hung", hours=0.5, on=gpu(1), waste="stalled_probable_ms")
    cause("undetermined", hours=0.1, on=gpu(2), low=0, high=0)

    primary, saving = selectors.primary_causes(WEEK)[job().pk]

    assert (primary.cause, saving.high_ms) == ("hung", HOUR_MS * 9 // 10)


def test_of_a_job_that_wastes_nothing_most_of_its_time_says_what_it_is():
    cause("healthy", waste="", low=0, high=0)

    assert selectors.primary_causes(WEEK)[job().pk][0].cause == "healthy"


def test_precision_is_told_from_twenty_answers_on_and_the_last_word_counts():
    for number in range(20):
        one = finding(job(f"slurm/della/{number}"))
        one.said.create(kind=Said.Kind.CONFIRMED if number < 15 else Said.Kind.REJECTED, at=NOW)
    changed = Finding.objects.get(job__key="slurm/della/0")
    assert selectors.precision()["idle_held"].share == 0.75

    changed.said.create(kind=Said.Kind.REJECTED, at=NOW + DAY)
    assert selectors.precision()["idle_held"].share == 0.70

    Said.objects.filter(finding__job__key="slurm/della/1").delete()
    assert selectors.precision()["idle_held"].share is None


def test_dollars_are_divided_once():
    rate("1.000001")
    for index in range(3):
        cause(on=gpu(index), hours=1 / 3)
    finding()

    assert found()[0].caused.wasted_usd == Decimal("1.000001")


def an_idle_hour(on: GPU, of: Job, start: datetime) -> cause_rows.Row:
    return (
        on.node_id,
        on.pk,
        start,
        of.pk,
        "idle_held",
        3,
        "{}",
        0b111111111111,
        HOUR_MS,
        HOUR_MS,
        0,
        0,
        0,
        0,
        0,
        HOUR_MS,
        None,  # its clock was not lowered
    )


@pytest.mark.django_db(transaction=True)
def test_a_day_that_is_summed_while_its_causes_are_written_loses_none():
    start = NOW - 2 * DAY
    diagnosed(start)
    finding()
    row = an_idle_hour(gpu(), job(), start)
    is_written, is_summed = Event(), Event()

    def write():
        with closing(connection), transaction.atomic():
            cause_rows.replace([row], [gpu().node_id], to_ms(start), to_ms(start) + HOUR_MS)
            is_written.set()
            is_summed.wait(60)

    def sum_up():
        with closing(connection):
            is_written.wait(60)
            sums.sum_days(NOW, 100)
            is_summed.set()

    with ThreadPoolExecutor(2) as workers:
        for one in [workers.submit(write), workers.submit(sum_up)]:
            one.result()

    assert [line.caused.held_ms for line in found()] == [HOUR_MS]


def by_cause() -> dict[str, int]:
    return {line.key: line.totals.capacity_ms for line in selectors.waste_by_cause(WEEK).lines}


def test_causes_of_an_hour_that_goes_on_are_told_though_its_ledger_has_gone_on():
    start, on, of = NOW - 2 * DAY, gpu(), job()
    diagnosed(start, version=1, posted=2)
    an_entry(on, "idle", job=of, start=start, tier="certain")
    cause(of=of, on=on, start=start, hours=0.25)

    assert by_cause() == {"idle_held": HOUR_MS // 4, "undetermined": HOUR_MS * 3 // 4}


def test_where_the_ledger_took_back_what_a_cause_had_explained_only_hours_that_are_as_they_were_are_told():
    on, of = gpu(), job()
    for start, posted, tier in ((NOW - 2 * DAY, 2, "probable"), (NOW - 3 * DAY, 1, "certain")):
        diagnosed(start, version=1, posted=posted)
        an_entry(on, "idle", job=of, start=start, tier=tier)
        cause(of=of, on=on, start=start)

    assert by_cause() == {"idle_held": HOUR_MS, "undetermined": HOUR_MS}


@pytest.mark.django_db(transaction=True)
def test_waste_by_cause_is_of_one_moment(monkeypatch):
    start, on, of = NOW - 2 * DAY, gpu(), job()
    diagnosed(start)
    organisation()

    def post():
        with closing(connection):
            an_entry(on, "idle", job=of, start=start, tier="certain")
            cause(of=of, on=on, start=start)

    def read(vocabulary, *args, **options):
        if isinstance(vocabulary, CauseTime):
            with ThreadPoolExecutor(1) as another:
                another.submit(post).result()
        return undisturbed(vocabulary, *args, **options)

    undisturbed = engine.read
    monkeypatch.setattr(engine, "read", read)

    assert (
        selectors.waste_by_cause(WEEK).lines,
        selectors.waste_by_cause(WEEK).totals.capacity_ms,
    ) == ([], HOUR_MS)


def test_of_what_no_job_held_there_is_no_finding():
    rate()
    cause()
    finding()

    assert (found(scope=Scope(user="")), found(scope=Scope(job="", is_allocated=True))) == ([], [])
    assert len(found(scope=Scope(is_allocated=True))) == 1
