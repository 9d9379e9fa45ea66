import pytest

from fleetwatch.dashboard.pages import Pager, pager, read_place
from fleetwatch.figures.ranking import Ranked, Rest
from fleetwatch.figures.totals import Group, nothing


def a_page(*, before=0, shown=2, after=0, last=(7_000_000, 42)):
    groups = [Group(str(number), "", nothing()) for number in range(shown)]
    return Ranked(groups, Rest(before, nothing()), Rest(after, nothing()), nothing(), last)


def test_a_page_leads_to_the_place_after_its_last_line():
    found = pager(a_page(before=2, after=1), is_first=False)

    assert found == Pager(after="7000000~42", total=5, is_first=False)
    assert read_place(found.after) == (7_000_000, 42)


def test_the_last_page_leads_nowhere():
    assert pager(a_page(before=2), is_first=False).after == ""
    assert pager(a_page(shown=0, last=None), is_first=True) == Pager(
        after="", total=0, is_first=True
    )


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "gibberish",
        "x~y",
        "1",
        "~",
        "1~",
        "NaN~1",
        "9" * 19 + "~1",
        "9" * 5000 + "~1",
        "1~-" + "9" * 30,
    ],
)
def test_a_place_that_means_nothing_is_the_start(cursor):
    assert read_place(cursor) is None
