"""What is kept, and what it comes to by the settings."""

from datetime import UTC, datetime, timedelta

from fleetwatch.dashboard.stored_data import Kept, Stored, kept, whole

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def stored(size: int, days: float) -> Stored:
    return Stored(size, NOW - timedelta(days=days))


def test_a_day_adds_what_is_there_over_its_days_and_in_full_it_is_kept_so_long():
    assert kept(stored(1000, 10), 35, NOW) == Kept(stored(1000, 10), 100, 3500)


def test_what_is_older_than_it_is_kept_is_full_already():
    assert kept(stored(1000, 10), 8, NOW).in_full == 1000


def test_of_less_than_a_day_no_pace_is_known():
    assert kept(stored(1000, 0.9), 35, NOW) == Kept(stored(1000, 0.9), None, None)
    assert kept(Stored(0, None), 35, NOW).in_full is None


def test_what_is_kept_for_hours_is_as_large_as_it_gets():
    assert kept(stored(500, 0.04), None, NOW) == Kept(stored(500, 0.04), None, 500)


def test_the_total_is_of_all_and_in_full_known_where_that_of_each_is():
    known = [kept(stored(1000, 10), 35, NOW), kept(stored(500, 0.04), None, NOW)]

    assert whole(known) == Kept(Stored(1500, None), 100, 4000)
    assert whole([*known, kept(Stored(0, None), 35, NOW)]).in_full is None
