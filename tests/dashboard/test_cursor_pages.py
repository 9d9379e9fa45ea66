from decimal import Decimal

from fleetwatch.dashboard.pages import page_of

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
