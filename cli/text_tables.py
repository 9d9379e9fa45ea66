"""Tables that fit the terminal: the widest text is cut first, then whole columns go, from the
least needed on.
"""

from dataclasses import dataclass
from typing import List, Sequence

from cli.terminal_text import cells, clean, cut, paint

GAP = 2
SHORTEST = 8  # of a column whose text is cut


@dataclass(frozen=True)
class Column:
    """A column: `is_text` is cut and on the left, numbers are whole and on the right. Columns of
    the highest `rank` go first where the terminal is narrow; those of 0 never.
    """

    title: str
    is_text: bool = False
    rank: int = 0


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> str:
    """The rows under their titles, in lines of at most `width` cells as far as that can be."""
    texts = [[clean(text) for text in row] for row in rows]
    places = _kept(columns, texts, width)
    kept = [columns[place] for place in places]
    parts = [[row[place] for place in places] for row in texts]
    widths = _shrunk(kept, _widths(kept, parts), width)
    head = _line(kept, [column.title for column in kept], widths)
    return "\n".join([paint(head, "dim"), *(_line(kept, row, widths) for row in parts)])


def _kept(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> List[int]:
    """The places of the columns that fit, with their texts cut as short as they may be."""
    widths = _widths(columns, rows)
    least = [
        min(cells_of, SHORTEST) if column.is_text else cells_of
        for column, cells_of in zip(columns, widths)
    ]
    places = list(range(len(columns)))
    while sum(least[place] + GAP for place in places) - GAP > width:
        last = max(places, key=lambda place: (columns[place].rank, place))
        if columns[last].rank == 0:
            break
        places.remove(last)
    return places


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> List[int]:
    """The widest of each column."""
    return [
        max(cells(text) for text in (column.title, *(row[place] for row in rows)))
        for place, column in enumerate(columns)
    ]


def _shrunk(columns: Sequence[Column], widths: Sequence[int], width: int) -> List[int]:
    """The widths that fit: what is too much is taken from texts, always from the widest of them."""
    narrowed = list(widths)
    texts = [place for place, column in enumerate(columns) if column.is_text]
    while sum(narrowed) + GAP * (len(narrowed) - 1) > width:
        widest = max(texts, key=lambda place: narrowed[place])
        if narrowed[widest] <= SHORTEST:
            break
        narrowed[widest] -= 1
    return narrowed


def _line(columns: Sequence[Column], texts: Sequence[str], widths: Sequence[int]) -> str:
    placed = [
        _placed(column, cut(text, width), width)
        for column, text, width in zip(columns, texts, widths)
    ]
    return (" " * GAP).join(placed).rstrip()


def _placed(column: Column, text: str, width: int) -> str:
    blank = " " * (width - cells(text))
    return text + blank if column.is_text else blank + text
