"""Waste by cause on its page: lost hours, shares of all waste, and one line of no known cause."""

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.dashboard import team_waste
from fleetwatch.dashboard.waste_causes import cause_lines
from fleetwatch.figures.totals import Group, Totals, nothing, together
from fleetwatch.lib.intervals import HOUR_MS
from tests.costs.factories import an_entry
from tests.diagnosis.told import NOW, cause, gpu, job, rate
from tests.markup import tight


def lost(hours: int, usd: int) -> Totals:
    """So much probable waste, and an hour that was no waste."""
    empty = nothing()
    return replace(
        empty,
        capacity_ms=(hours + 1) * HOUR_MS,
        waste_ms=empty.waste_ms | {"probable": hours * HOUR_MS},
        waste_usd=empty.waste_usd | {"probable": Decimal(usd)},
    )


def lines(*groups: tuple[str, int, int]):
    every = [Group(key, key, lost(hours, usd)) for key, hours, usd in groups]
    return cause_lines(every, together(group.totals for group in every))


def test_what_nobody_knows_a_cause_of_is_one_line_that_says_what_it_is_made_of():
    """$1 + $2 + $3 of $20 are 30 %."""
    shown = lines(
        ("data_starved", 7, 10), ("hung", 2, 4), ("busy", 3, 3), ("healthy", 2, 2),
        ("undetermined", 1, 1), ("", 0, 0),
    )  # fmt: skip

    assert [(line.group.label, line.group.totals.wasted_ms // HOUR_MS, line.share) for line in shown] == [
        ("data_starved", 7, 0.5),
        ("No known cause", 6, 0.3),
        ("hung", 2, 0.2),
        ("", 0, 0.0),
    ]  # fmt: skip
    assert [part.key for part in shown[1].parts] == ["busy", "healthy", "undetermined"]


def test_one_of_them_alone_is_made_of_nothing_else():
    [line] = lines(("undetermined", 1, 1))

    assert (line.parts, line.share) == ((), 1.0)


def test_without_a_price_shares_are_of_time_and_without_waste_there_are_none():
    assert [line.share for line in lines(("hung", 3, 0), ("busy", 1, 0))] == [0.75, 0.25]
    assert [line.share for line in lines(("hung", 0, 0))] == [None]


@pytest.mark.django_db
def test_the_page_counts_lost_hours_and_not_all_hours_of_the_cause(admin):
    """An hour idle at $2, and one of a service that waits: potential, which is not lost."""
    rate()
    start = NOW - timedelta(hours=2)
    for number, (state, tier, code, waste) in enumerate(
        (
            ("idle", "certain", "idle_held", "idle_certain_ms"),
            ("stalled", "potential", "idle_held", "stalled_potential_ms"),
        )
    ):
        of = job(f"slurm/della/{number}")
        cause(code, of=of, on=gpu(number), start=start, waste=waste)
        an_entry(gpu(number), state, job=of, start=start, tier=tier)

    page = tight(admin.get("/waste?group_by=cause").content.decode())

    [row] = [row for row in re.findall(r"<tr ?>.*?</tr>", page) if "Idle: still held</a>" in row]
    hours, potential = re.findall(r'data-label="[^"]*"[^>]*>(?:<span[^>]*>)?([^<]*)', row)
    assert (hours, potential) == ("1.00", "$2.00")
    assert "100 %" in row


def test_causes_of_a_team_below_a_trifle_are_one_line_and_sum_to_the_same():
    """Of $10,000: $9 each are 0.09 %, $10 are 0.1 %."""
    every = lines(("hung", 900, 9972), ("data_starved", 1, 10), ("idle_held", 1, 9), ("one", 1, 9))

    *named, others = team_waste._without_trifles(every)

    assert [line.group.key for line in named] == ["hung", "data_starved"]
    assert (others.group.key, others.group.label) == ("", "2 others, each below 0.1 %")
    assert others.group.totals.wasted_usd == 18
    assert round(others.share, 6) == 0.0018


def test_one_cause_below_a_trifle_stays_named():
    every = lines(("hung", 900, 9999), ("idle_held", 1, 1))

    assert team_waste._without_trifles(every) == every
