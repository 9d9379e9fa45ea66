from email.utils import formatdate

import pytest

from agent.clock import HubClock, date_s


@pytest.fixture
def boot():
    return {"s": 100.0}


@pytest.fixture
def hub_clock(boot):
    return HubClock(elapsed_s=lambda: boot["s"])


def test_the_hubs_clock_is_not_known_before_its_first_date(hub_clock):
    hub_clock.note(None)
    hub_clock.note("yesterday")

    assert hub_clock.earliest_ms() is None


def test_the_hubs_clock_goes_on_with_the_boot_clock(hub_clock, boot):
    hub_clock.note(formatdate(1000, usegmt=True))
    boot["s"] += 30.25

    assert hub_clock.earliest_ms() == 1_030_250


def test_the_newest_date_counts_and_an_answer_without_one_changes_nothing(hub_clock, boot):
    hub_clock.note(formatdate(1000, usegmt=True))
    boot["s"] += 10
    hub_clock.note(formatdate(900, usegmt=True))
    hub_clock.note(None)

    assert hub_clock.earliest_ms() == 900_000


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("Thu, 01 Jan 1970 00:00:07 GMT", 7.0),
        ("", None),
        (None, None),
        ("Sat, 99 Nov 99999 99:99:99 GMT", None),
    ],
)
def test_a_date_that_is_none_says_nothing(date, seconds):
    assert date_s(date) == seconds
