from decimal import Decimal

import pytest

from fleetwatch.costs.ranking import Ranked, Rest
from fleetwatch.costs.totals import Group, nothing
from fleetwatch.dashboard.pages import Pager, page_of, pager, read_place

LINES = [("a", Decimal("3.5")), ("b", Decimal(7)), ("c", Decimal(7)), ("d", Decimal(0)), ("e", Decimal("3.5"))]


def pages(lines, after=""):
    return page_of(lines, value=lambda line: line[1], key=lambda line: line[0], after=after, size=2)


def test_every_line_is_on_exactly_one_page():
    seen, after = [], ""
    while True:
        page = pages(LINES, after)
        seen += [key for key, _ in page.rows]
        after = page.after
        if not after:
            break

    assert seen == ["b", "c", "a", "e", "d"]


def test_a_line_that_appears_before_the_cursor_shifts_nothing():
    first = pages(LINES)

    second = pages([*LINES, ("new", Decimal(100))], first.after)

    assert [key for key, _ in second.rows] == ["a", "e"]


def test_a_cursor_that_means_nothing_is_the_start():
    assert pages(LINES, "gibberish").is_first
    assert pages(LINES, "x~y").is_first


def a_page(*, before=0, shown=2, after=0, last=(7_000_000, 42)):
    groups = [Group(str(number), "", nothing()) for number in range(shown)]
    return Ranked(groups, Rest(before, nothing()), Rest(after, nothing()), nothing(), last)


def test_a_page_leads_to_the_place_after_its_last_line():
    found = pager(a_page(before=2, after=1), is_first=False)

    assert found == Pager(after="7000000~42", total=5, is_first=False)
    assert read_place(found.after) == (7_000_000, 42)


def test_the_last_page_leads_nowhere():
    assert pager(a_page(before=2), is_first=False).after == ""
    assert pager(a_page(shown=0, last=None), is_first=True) == Pager(after="", total=0, is_first=True)


@pytest.mark.parametrize("cursor", ["", "gibberish", "x~y", "1", "~", "1~", "NaN~1", "9" * 19 + "~1", "9" * 5000 + "~1", "1~-" + "9" * 30])
def test_a_place_that_means_nothing_is_the_start(cursor):
    assert read_place(cursor) is None
