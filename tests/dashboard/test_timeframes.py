"""fleetwatch/lib/timeframes.py: the period of a page."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.timeframes import TimeframeError, parse

NOW = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
UTC_ZONE = ZoneInfo("UTC")
KOLKATA = ZoneInfo("Asia/Kolkata")
BERLIN = ZoneInfo("Europe/Berlin")


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


def test_without_parameters_it_is_the_last_seven_days():
    timeframe = parse({}, now=NOW, zone=UTC_ZONE)

    assert timeframe.interval == Interval(at(2026, 11, 13, 12, 30), NOW)
    assert (timeframe.label, timeframe.preset, timeframe.step) == ("Last 7 days", "7d", "hour")


@pytest.mark.parametrize(
    ("name", "start", "end"),
    [
        ("1h", at(2026, 11, 20, 11, 30), NOW),
        ("6h", at(2026, 11, 20, 6, 30), NOW),
        ("24h", at(2026, 11, 19, 12, 30), NOW),
        ("30d", at(2026, 10, 21, 12, 30), NOW),
        ("MTD", at(2026, 11, 1), NOW),
        ("last-month", at(2026, 10, 1), at(2026, 11, 1)),
    ],
)
def test_every_preset_has_a_name_and_the_same_ends_by_from_and_to(name, start, end):
    named = parse({"range": name}, now=NOW, zone=UTC_ZONE)
    spelled = parse({"from": named.start, "to": named.end}, now=NOW, zone=UTC_ZONE)

    assert named.interval == Interval(start, end)
    assert named == spelled
    assert named.preset == name


def test_months_are_the_organisations():
    timeframe = parse({"range": "MTD"}, now=at(2026, 10, 31, 20), zone=KOLKATA)

    # 20:00 UTC on 31 October is 01:30 on 1 November in India, whose midnight is 18:30 UTC
    assert timeframe.interval.start == at(2026, 10, 31, 18, 30)


def test_last_month_with_the_autumn_clock_change_is_an_hour_longer():
    timeframe = parse({"range": "last-month"}, now=NOW, zone=BERLIN)

    assert timeframe.interval == Interval(at(2026, 9, 30, 22), at(2026, 10, 31, 23))
    assert timeframe.interval.duration_ms == (31 * 24 + 1) * 3_600_000


def test_a_month_before_the_31st_is_the_30th():
    timeframe = parse({"from": "now-1M"}, now=at(2026, 10, 31, 12), zone=UTC_ZONE)

    assert timeframe.interval.start == at(2026, 9, 30, 12)


def test_today_starts_at_midnight():
    assert parse({"from": "now/d"}, now=NOW, zone=UTC_ZONE).interval.start == at(2026, 11, 20)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-01T00:00:00+00:00",
        "2026-11-01T00:00:00Z",
        "2026-11-01",
        "2026-11-01T01:00+01:00",
        "2026-11-01T01:00 01:00",
        "1793491200000",
    ],
)
def test_one_moment_can_be_written_in_many_ways(text):
    assert parse({"from": text}, now=NOW, zone=KOLKATA).interval == Interval(at(2026, 11, 1), NOW)


@pytest.mark.parametrize(
    ("params", "field", "sentence"),
    [
        ({"from": "yesterday"}, "from", "can't read 'yesterday'"),
        ({"from": "now-1h", "to": "soon"}, "to", "can't read 'soon'"),
        ({"from": "now", "to": "now"}, "from", "the start has to be earlier"),
        ({"from": "now", "to": "now-1h"}, "from", "the start has to be earlier"),
        ({"from": "now-9999d"}, "from", "at most 1100 days"),
        ({"from": "9999-99-99"}, "from", "can't read"),
        ({"from": "now-999999w"}, "from", "can't read"),
        ({"from": "now-99999M"}, "from", "can't read"),
        ({"to": "now"}, "from", "needs a `from`"),
        ({"range": "2y"}, "range", "There is no range '2y'"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(params, field, sentence):
    with pytest.raises(TimeframeError, match=sentence) as caught:
        parse(params, now=NOW, zone=UTC_ZONE)

    assert caught.value.field == field


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("0001-01-01T00:30Z", "0001-01-02T00:00Z"),
        ("9999-12-31T00:00Z", "9999-12-31T23:59Z"),
        ("now+90000M", "now+90001M"),
    ],
)
def test_a_period_at_the_ends_of_the_calendar_is_refused_in_every_zone(start, end, zone):
    with pytest.raises(TimeframeError, match="between 1990 and 2200"):
        parse({"from": start, "to": end}, now=NOW, zone=ZoneInfo(zone))


@pytest.mark.parametrize(
    ("start", "step"), [("now-400h", "hour"), ("now-401h", "day"), ("now-30d", "day")]
)
def test_the_step_keeps_a_chart_under_400_points(start, step):
    assert parse({"from": start}, now=at(2026, 11, 20, 12), zone=UTC_ZONE).step == step


@pytest.mark.parametrize(
    ("start", "step_s"),
    [("now-1h", 10), ("now-4000s", 10), ("now-4001s", 30), ("now-24h", 300), ("now-7d", 1800)],
)
def test_a_series_has_the_finest_round_step(start, step_s):
    assert parse({"from": start}, now=NOW, zone=UTC_ZONE).step_s == step_s


def test_a_free_period_says_its_days_in_the_organisations_zone():
    assert (
        parse({"from": "2026-11-01", "to": "2026-11-08"}, now=NOW, zone=UTC_ZONE).label
        == "1–7 Nov 2026"
    )
    assert (
        parse({"from": "2026-11-01T06:00", "to": "2026-11-01T09:15"}, now=NOW, zone=BERLIN).label
        == "1 Nov 2026, 07:00 – 10:15"
    )


def test_a_period_survives_its_own_link():
    timeframe = parse({"from": "2026-11-01T01:00+01:00", "to": "now"}, now=NOW, zone=UTC_ZONE)

    assert timeframe.query == "from=2026-11-01T01%3A00%2B01%3A00&to=now"


def test_iso_without_a_zone_is_of_the_readers_clock():
    """02:30 on 25 October is twice in Berlin: the first is meant."""
    ends = {"from": "2026-10-25T02:30", "to": "2026-11-01"}

    timeframe = parse(ends, now=NOW, zone=UTC_ZONE, clock=BERLIN)

    assert timeframe.interval == Interval(at(2026, 10, 25, 0, 30), at(2026, 10, 31, 23))
    assert timeframe.label == "25 Oct, 02:30 – 1 Nov 2026, 00:00"


def test_a_clock_moves_no_day_and_no_other_way_of_writing():
    for text in ("2026-11-01T00:00Z", "1793491200000", "now/M"):
        assert parse({"from": text}, now=NOW, zone=UTC_ZONE, clock=BERLIN).interval.start == at(
            2026, 11, 1
        )


def test_a_zone_stays_in_the_link():
    timeframe = parse({"range": "24h", "tz": "Europe/Berlin"}, now=NOW, zone=UTC_ZONE)

    assert timeframe.query == "from=now-24h&to=now&tz=Europe%2FBerlin"


@pytest.mark.parametrize(
    ("ends", "pinned"),
    [
        ({"range": "24h"}, ("2026-11-19T12:30:00Z", "2026-11-20T12:30:00Z")),
        ({"range": "last-month"}, ("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z")),
        ({"from": "2026-11-01T06:00"}, ("2026-11-01T06:00", "2026-11-20T12:30:00Z")),
    ],
)
def test_pinned_ends_do_not_move_with_the_clock(ends, pinned):
    assert parse(ends, now=NOW, zone=UTC_ZONE).pinned == pinned


def test_only_what_moves_with_the_clock_is_relative():
    assert parse({"range": "24h"}, now=NOW, zone=UTC_ZONE).relative == ("now-24h", "now")
    assert parse({"from": "2026-11-01"}, now=NOW, zone=UTC_ZONE).relative == ("", "now")
