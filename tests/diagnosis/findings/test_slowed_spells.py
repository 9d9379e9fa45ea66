"""Each time in which a GPU was slowed, with what was read of it then."""

from datetime import timedelta

import pytest

from fleetwatch.diagnosis.causes import SLOWED
from fleetwatch.diagnosis.findings import slowed_spells
from fleetwatch.diagnosis.findings.slowed_spells import MAX_SPELLS, lowest_clock
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import HOUR_MS, MINUTE_MS, Interval, from_ms
from fleetwatch.telemetry.steps import StepSeries
from tests.diagnosis.told import cause, gpu
from tests.ledger.fleet import BUSY, T0, Sender, post

pytestmark = pytest.mark.django_db
CELL_MS = 5 * MINUTE_MS
END = from_ms(T0 + HOUR_MS)
ALL = Interval(from_ms(T0), END)
NOW = END + timedelta(days=1)


def slowed(*cells: int, on: GPU | None = None) -> None:
    """In these five minutes of the hour."""
    entry = cause(SLOWED, on=on or gpu(1), start=from_ms(T0))
    CauseEntry.objects.filter(pk=entry.pk).update(cells=sum(1 << cell for cell in cells))


def spans(now=NOW, on: GPU | None = None) -> list[tuple[int, int | None]]:
    """From which five minutes to which."""
    spells = slowed_spells.slowed_spells([on or gpu(1)], ALL, now=now)
    return [
        ((each.start_ms - T0) // CELL_MS, each.end_ms and (each.end_ms - T0) // CELL_MS)
        for each in spells.shown
    ]


def test_five_minutes_in_a_row_are_one_and_the_last_comes_first():
    slowed(0, 1, 2, 4, 7, 8)

    assert spans() == [(7, 9), (4, 5), (0, 3)]


@pytest.mark.parametrize(("minutes", "is_still"), [(19, True), (20, True), (21, False)])
def test_it_is_slowed_still_as_far_as_diagnosis_looked(minutes, is_still):
    slowed(10, 11)

    [(first, last)] = spans(now=END + timedelta(minutes=minutes))

    assert (first, last) == (10, None if is_still else 12)


def test_of_many_the_newest_are_shown_and_all_are_counted():
    slowed(0, 2, 4, 6, 8, 10)
    slowed(1, 3, 5, on=gpu(2))

    spells = slowed_spells.slowed_spells([gpu(1), gpu(2)], ALL, now=NOW)

    assert (len(spells.shown), spells.count) == (MAX_SPELLS, 9)
    assert spells.shown[-1].start_ms == T0 + CELL_MS  # the first of GPU 1 alone is left out


def test_one_that_goes_on_from_before_the_period_is_cut_there():
    """Slowed for the first quarter of the hour, of which the period has all but five minutes."""
    slowed(0, 1, 2, 4)
    later = Interval(from_ms(T0 + CELL_MS), END)

    spells = slowed_spells.slowed_spells([gpu(1)], later, now=NOW).shown
    whole = slowed_spells.slowed_spells([gpu(1)], ALL, now=NOW).shown

    assert [(each.start_ms, each.is_cut) for each in spells] == [
        (T0 + 4 * CELL_MS, False),
        (T0 + CELL_MS, True),
    ]
    assert [each.is_cut for each in whole] == [False, False]


def test_one_that_ends_as_the_period_begins_is_none_of_it():
    slowed(0, 4)

    later = Interval(from_ms(T0 + CELL_MS), END)

    assert slowed_spells.slowed_spells([gpu(1)], later, now=NOW).count == 1


def test_what_was_not_read_is_not_told():
    slowed(0)

    [spell] = slowed_spells.slowed_spells([gpu(1)], ALL, now=NOW).shown

    assert (spell.clock, spell.temperature_c) == (None, None)
    assert slowed_spells.slowed_spells([], ALL, now=NOW).count == 0


def test_a_spell_says_its_lowest_clock_and_how_hot_it_was_and_nothing_of_other_times():
    """Five minutes at 60 %, five at 80 %, then as cold as slow."""
    clocks = [(1.2e9, 80.0), (1.6e9, 91.0), (0.4e9, 99.0)]
    told = [
        BUSY | {"sm_clock_hz": clock, "sm_clock_max_hz": 2e9, "temperature_c": hot}
        for clock, hot in clocks
    ]
    post(Sender().batch(T0, *[each for each in told for _ in range(5)]))
    one = GPU.objects.get()
    slowed(0, 1, on=one)

    [spell] = slowed_spells.slowed_spells([one], ALL, now=NOW).shown

    assert spell.clock == pytest.approx(0.6)
    assert spell.temperature_c == 91


@pytest.mark.parametrize(
    ("utils", "clocks", "highest", "lowest"),
    [
        ([0.9, 0.9], [1.2e9, 1.8e9], [2e9, 2e9], 0.6),
        ([0.5, 0.9], [1.2e9, 1.8e9], [2e9, 2e9], 0.9),  # at half it says nothing yet
        ([0.51, 0.9], [1.2e9, 1.8e9], [2e9, 2e9], 0.6),
        ([None, 0.9], [1.2e9, None], [2e9, 2e9], None),
        ([0.9], [1.2e9], [None], None),
        ([], [], [], None),
    ],
)
def test_the_lowest_clock_is_of_busy_time_alone(utils, clocks, highest, lowest):
    columns = {"util_mean": utils, "sm_clock_hz": clocks, "sm_clock_max_hz": highest}

    read = lowest_clock(StepSeries(CELL_MS, [], columns))

    assert read == (None if lowest is None else pytest.approx(lowest))
