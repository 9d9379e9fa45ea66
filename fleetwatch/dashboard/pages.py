"""Keyset pages over ranked lines: the next page starts after the place of the last line shown,
whatever came in between. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from fleetwatch.diagnosis.findings.ranked_findings import Place as FindingPlace
from fleetwatch.figures.ranking import Place, Ranked

Row_co = TypeVar("Row_co", covariant=True)

MAX_NUMBER = 2**63


class InOrder(Protocol[Row_co]):
    """Findings, or patterns of them, in an order in which each has a place."""

    def __len__(self) -> int: ...
    def __getitem__(self, wanted: slice, /) -> Sequence[Row_co]: ...
    def place(self, position: int) -> FindingPlace: ...
    def up_to(self, place: FindingPlace) -> int: ...


@dataclass(frozen=True, slots=True)
class Pager:
    """How to go on from a page; `after` makes the next one and is "" on the last."""

    after: str
    total: int
    is_first: bool


def page_of(every: InOrder[Row_co], *, after: str, size: int) -> tuple[slice, Pager]:
    """Which of them are on the page that starts after the cursor; a bad cursor is the start."""
    place = _numbers(after)
    is_first = len(place) != 3
    start = 0 if is_first else every.up_to((place[0], place[1], place[2]))
    end = start + size
    more = "~".join(map(str, every.place(end - 1))) if end < len(every) else ""
    return slice(start, end), Pager(more, len(every), is_first)


def pager(page: Ranked, *, is_first: bool) -> Pager:
    """What leads on from a page of ranked lines: its last line's place in the order."""
    more = f"{page.last[0]}~{page.last[1]}" if page.last and page.after.groups else ""
    return Pager(more, page.count, is_first)


def read_place(after: str) -> Place | None:
    """The place after which a page of ranked lines starts; None for the first page, and for what is
    no cursor of ours.
    """
    place = _numbers(after)
    return (place[0], place[1]) if len(place) == 2 else None


def _numbers(after: str) -> list[int]:
    """The numbers of a cursor; none of what is no cursor of ours."""
    try:
        numbers = [int(part) for part in after.split("~")]
    except ValueError:
        return []
    return numbers if all(abs(number) < MAX_NUMBER for number in numbers) else []
