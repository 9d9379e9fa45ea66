import pytest

from fleetwatch.dashboard.data_age import data_age
from fleetwatch.lib.intervals import to_ms
from tests.dashboard.factories import NOW

NOW_MS = to_ms(NOW)
MINUTE = 60_000


@pytest.mark.parametrize(
    ("newest_ms", "age_ms", "word", "colour"),
    [
        (None, None, "no data yet", ""),
        (NOW_MS + 5000, 0, "live", "good"),  # of a clock that is ahead
        (NOW_MS - 2 * MINUTE, 2 * MINUTE, "live", "good"),
        (NOW_MS - 2 * MINUTE - 1, 2 * MINUTE + 1, "late", "warn"),
        (NOW_MS - 10 * MINUTE, 10 * MINUTE, "late", "warn"),
        (NOW_MS - 10 * MINUTE - 1, 10 * MINUTE + 1, "stale", "bad"),
    ],
)
def test_data_is_live_for_two_minutes_late_for_ten_then_stale(newest_ms, age_ms, word, colour):
    age = data_age(newest_ms, NOW_MS)

    assert (age.age_ms, age.word, age.colour) == (age_ms, word, colour)
