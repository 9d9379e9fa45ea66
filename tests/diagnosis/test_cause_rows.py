"""Findings of jobs, refreshed from rows of causes."""

from datetime import timedelta

import pytest

from fleetwatch.diagnosis import cause_rows
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.diagnosis.told import NOW, cause, finding, gpu, job

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
FIRST_MS, LAST_MS = to_ms(NOW - 2 * HOUR), to_ms(NOW - HOUR)


def cells(places: str, **facts) -> CauseEntry:
    """A row of these cells of its hour, by their places from 0 to 11."""
    entry = cause(**facts)
    entry.cells = sum(1 << int(place) for place in places.split())
    entry.save()
    return entry


def refreshed(*pairs) -> set[tuple[int, int]]:
    """In cells since FIRST_MS, where the findings of these jobs and causes begin and end."""
    cause_rows.refresh_findings({(one.pk, name) for one, name in pairs})
    return {
        ((one.first_ms - FIRST_MS) // CELL_MS, (one.last_ms - FIRST_MS) // CELL_MS)
        for one in Finding.objects.all()
    }


@pytest.mark.parametrize(
    ("places", "span"), [("0", (0, 1)), ("11", (11, 12)), ("3 5", (3, 6)), ("0 11", (0, 12))]
)
def test_a_finding_is_as_long_as_from_its_first_cell_to_its_last(places, span):
    entry = cells(places)

    assert refreshed((entry.job, "idle_held")) == {span}


def test_its_first_and_its_last_cell_may_be_of_different_gpus_and_hours():
    cells("4", start=NOW - 2 * HOUR, on=gpu(0))
    cells("2 9", start=NOW - 2 * HOUR, on=gpu(1))
    cells("7", start=NOW - HOUR, on=gpu(0))
    entry = cells("0 1", start=NOW - HOUR, on=gpu(1))

    # cell 2 of the first hour to cell 7 of the second: 12 + 7 + 1
    assert refreshed((entry.job, "idle_held")) == {(2, 20)}


def test_of_an_hour_in_two_cuts_the_cells_count_from_the_clock_hour_on():
    cells("1", start=NOW - 2 * HOUR)
    entry = cells("8", start=NOW - 1.5 * HOUR)

    assert refreshed((entry.job, "idle_held")) == {(1, 9)}


def test_time_of_which_nothing_can_be_won_is_no_finding():
    cells("0", start=NOW - 2 * HOUR, low=0, high=0)
    cells("6", start=NOW - 2 * HOUR, on=gpu(1))
    entry = cells("11", start=NOW - HOUR, low=0, high=0)

    assert refreshed((entry.job, "idle_held")) == {(6, 7)}

    CauseEntry.objects.update(low_ms=0, high_ms=0)
    assert refreshed((entry.job, "idle_held")) == set()


@pytest.mark.parametrize("name", ["healthy", "undetermined", "throttled", "gpu_fault"])
def test_what_is_well_and_what_is_a_nodes_are_no_findings_of_jobs(name):
    entry = cells("0", cause=name)

    assert refreshed((entry.job, name)) == set()


def test_only_the_causes_that_changed_are_looked_at():
    other = finding(job("slurm/della/8"), first_ms=FIRST_MS, last_ms=LAST_MS)
    also = finding(cause="hung", first_ms=FIRST_MS, last_ms=LAST_MS)
    entry = cells("5")

    assert refreshed((entry.job, "idle_held")) == {(0, HOUR_MS // CELL_MS), (5, 6)}
    assert set(Finding.objects.filter(first_ms=FIRST_MS)) == {other, also}


def test_what_people_decided_stays():
    entry = cells("5")
    finding(entry.job, first_ms=0, last_ms=1, status="accepted")

    assert refreshed((entry.job, "idle_held")) == {(5, 6)}
    assert Finding.objects.get().status == "accepted"


def row_of(entry: CauseEntry) -> cause_rows.Row:
    values = {name: getattr(entry, name) for name in cause_rows.COLUMNS} | {"also": "{}"}
    return tuple(values.values())


def replaced(*rows: cause_rows.Row) -> cause_rows.Changed:
    return cause_rows.replace(list(rows), [gpu().node_id], FIRST_MS, LAST_MS)


def test_a_row_that_is_as_it_should_be_stays_and_is_no_change():
    kept, gone, same = cause(), cause("hung", on=gpu(1)), cause(on=gpu(2))
    wanted = row_of(gone)
    gone.held_ms -= 1
    gone.save()

    changed = replaced(row_of(kept), wanted, row_of(same))

    assert changed == {(gone.job_id, "hung")}
    assert set(CauseEntry.objects.exclude(cause="hung")) == {kept, same}
    assert [row_of(entry) for entry in CauseEntry.objects.filter(cause="hung")] == [wanted]


def test_what_is_stored_and_judged_no_more_goes_and_twice_the_same_goes_once():
    entry, twice, other_hour = cause(), cause(), cause(start=NOW - HOUR)
    gone = cause("hung", on=gpu(1))

    changed = replaced(row_of(entry))

    assert changed == {(entry.job_id, "idle_held"), (gone.job_id, "hung")}
    assert CauseEntry.objects.filter(pk__in=[entry.pk, twice.pk]).count() == 1
    assert set(CauseEntry.objects.all()) - {entry, twice} == {other_hour}
