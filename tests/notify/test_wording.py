from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from fleetwatch.dashboard import numbers
from fleetwatch.notify import wording


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (Decimal("21.6"), "$21.60"),
        (Decimal("999.994"), "$1,000"),
        (Decimal("426.31"), "$426"),
        (Decimal("4745.4"), "$4,745"),
        (Decimal(0), "$0.00"),
        (None, "unknown"),
    ],
)
def test_dollars(amount, said):
    assert wording.usd(amount) == said


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (0.41, "41 %"),
        (0.9968, "99.7 %"),
        (0.00035, "<0.1 %"),
        (0.0, "0 %"),
        (1.0, "100 %"),
        (None, "unknown"),
    ],
)
def test_a_small_share_is_not_zero_and_an_unknown_one_neither(ratio, said):
    assert wording.share(ratio) == said


@pytest.mark.parametrize(
    ("now", "before", "said"),
    [
        (Decimal(104), Decimal(100), "+4 %"),
        (Decimal(50), Decimal(100), "-50 %"),
        (Decimal("100.4"), Decimal(100), "unchanged"),
        (Decimal(5), Decimal(0), ""),
        (Decimal(5), None, ""),
    ],
)
def test_changes(now, before, said):
    assert wording.change(now, before) == said


@pytest.mark.parametrize(
    ("now", "before", "said"),
    [(0.52, 0.5, "+2.0 points"), (0.5, 0.5, "unchanged"), (None, 0.5, "")],
)
def test_points(now, before, said):
    assert wording.points(now, before) == said


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        (0, "0 m"),
        (59, "59 m"),
        (60, "1 h 00 m"),
        (200, "3 h 20 m"),
        (1439, "23 h 59 m"),
        (1440, "1 d 0 h"),
        (3000, "2 d 2 h"),
    ],
)
def test_durations(minutes, said):
    assert wording.duration(minutes * 60_000) == said


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (85_520_809_984, "80 GB"),  # nvidia-smi: 81559 MiB of an "H100 80GB"
        (9.95 * 2**30, "10 GB"),
        (9.4 * 2**30, "9.4 GB"),
        (2**30 - 1, "1023 MB"),
        (0.0, "0 MB"),
        (None, "unknown"),
    ],
)
def test_gigabytes(amount, said):
    assert wording.gigabytes(amount) == said
    assert amount is None or numbers.gigabytes(amount) == said


def test_a_moment_carries_its_zone_and_another_day_its_date():
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)

    assert (
        wording.moment(
            datetime(2026, 11, 20, 8, 10, tzinfo=UTC), ZoneInfo("Europe/Berlin"), now=now
        )
        == "09:10 CET"
    )
    assert (
        wording.moment(datetime(2026, 11, 19, 8, 10, tzinfo=UTC), ZoneInfo("UTC"), now=now)
        == "Thu 19 Nov, 08:10 UTC"
    )
