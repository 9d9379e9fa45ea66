"""Keyset pages over sorted lines and over ranked ones: the next page starts after the last line shown, whatever came in between. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Generic, TypeVar

from fleetwatch.costs.ranking import Place, Ranked

Line = TypeVar("Line")
Value = Decimal | int

MAX_NUMBER = 2**63


@dataclass(frozen=True, slots=True)
class Page(Generic[Line]):
    """Lines of one page; `after` makes the next one and is "" on the last."""

    rows: list[Line]
    after: str
    total: int
    is_first: bool


def page_of(lines: Sequence[Line], *, value: Callable[[Line], Value], key: Callable[[Line], str], after: str, size: int) -> Page[Line]:
    """The page of the lines (largest value first, then by key) that starts after the cursor; a bad cursor is the start."""
    ordered = sorted(lines, key=lambda line: (-value(line), key(line)))
    cursor = _read(after)
    rest = [line for line in ordered if (-value(line), key(line)) > cursor] if cursor else ordered
    rows = rest[:size]
    more = f"{value(rows[-1])}~{key(rows[-1])}" if len(rest) > size else ""
    return Page(rows, more, len(ordered), cursor is None)


@dataclass(frozen=True, slots=True)
class Pager:
    """How to go on from a page of ranked lines: as Page, without the lines."""

    after: str
    total: int
    is_first: bool


def pager(page: Ranked, *, is_first: bool) -> Pager:
    """What leads on from that page: its last line's place in the order."""
    more = f"{page.last[0]}~{page.last[1]}" if page.last and page.after.groups else ""
    return Pager(more, page.count, is_first)


def read_place(after: str) -> Place | None:
    """The place after which a page of ranked lines starts; None for the first page, and for what is no cursor of ours."""
    value, _, key = after.partition("~")
    try:
        place = (int(value), int(key))
    except ValueError:
        return None
    return place if all(abs(number) < MAX_NUMBER for number in place) else None


def _read(after: str) -> tuple[Decimal, str] | None:
    value, separator, key = after.partition("~")
    try:
        return (-Decimal(value), key) if separator else None
    except InvalidOperation:
        return None
