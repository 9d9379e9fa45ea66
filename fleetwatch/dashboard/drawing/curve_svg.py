"""A curve through a few points, each with its value: geometry for inline SVG. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH = 460
HEIGHT = 180
SIDE = 34  # room beside the first and the last label
EDGE = 30  # room above and below
ABOVE = -7  # from a point, or from the limit that it lies right below, to its label's foot
BELOW = 17  # where the limit's own label is
TOUCHES = 24  # below a limit
GAP = 5  # from a label to its point, and to the label before
CHARACTER = 7.5  # of a label
PLACE = 66  # from the words of a place to the next


@dataclass(frozen=True, slots=True)
class Value:
    """What there is at a place of the axis, 0 or more, and how that is written; `at`: how the place
    is ("": its number). It `is_least` where there is that or more.
    """

    place: int
    amount: float
    label: str
    at: str = ""
    is_least: bool = False

    @property
    def words(self) -> str:
        """What there is where."""
        at_least = "at least " if self.is_least else ""
        return f"{self.at or self.place}: {at_least}{self.label}"


@dataclass(frozen=True, slots=True)
class Point:
    """Where a value lies in pixels, its place on the axis as it is written ("" = it would cover the
    one before), and its label ("" = it would touch the next one), whose foot is `dy` further down.
    """

    x: float
    y: float
    place: str
    label: str
    dy: float = ABOVE
    is_open: bool = False  # it is higher, nobody knows by how much


@dataclass(frozen=True, slots=True)
class Limit:
    """A level that is drawn across: where it lies in pixels, and its label."""

    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Points from left to right, the path through them, that through open ones apart ("": there
    are none), and all of it in words; `limit` None: none is drawn.
    """

    points: Sequence[Point]
    path: str
    open_path: str
    words: str
    limit: Limit | None = None


def curve(values: Sequence[Value], *, limit: tuple[float, str] | None = None) -> Curve:
    """Through the values, ascending from place 0; the axis begins at 0, as does the height. A limit
    is an amount and its label.
    """
    amounts = [value.amount for value in values] + ([limit[0]] if limit else [])
    top = max(amounts) or 1.0
    limit_y = _y(limit[0], top) if limit else None
    point_of = _point_of(values, top, limit_y)
    points = list(map(point_of, values, _places(values), _labels(values)))
    return Curve(
        points,
        _path(pair for pair in pairwise(points) if not pair[1].is_open),
        _path(pair for pair in pairwise(points) if pair[1].is_open),
        ", ".join(value.words for value in values),
        Limit(limit_y, limit[1]) if limit and limit_y is not None else None,
    )


def _path(pairs: Iterable[tuple[Point, Point]]) -> str:
    """From each first point to its second; what goes on from the one before is one line."""
    parts: list[str] = []
    end = None
    for first, second in pairs:
        parts.append("" if first is end else f"M{first.x} {first.y}")
        parts.append(f"L{second.x} {second.y}")
        end = second
    return "".join(parts)


def _x(value: Value, last: int) -> float:
    return round(SIDE + value.place / last * (WIDTH - 2 * SIDE), 1)


def _y(amount: float, top: float) -> float:
    return round(HEIGHT - EDGE - amount / top * (HEIGHT - 2 * EDGE), 1)


def _point_of(
    values: Sequence[Value], top: float, limit_y: float | None
) -> Callable[[Value, str, str], Point]:
    last = values[-1].place

    def point(value: Value, place: str, label: str) -> Point:
        y = _y(value.amount, top)
        x = _x(value, last)
        return Point(x, y, place, label, _label_dy(x, y, limit_y), value.is_least)

    return point


def _label_dy(x: float, y: float, limit_y: float | None) -> float:
    """From a point to its label's foot: above the line that rises to it, and above a limit that
    would cross the label, but for the left half, where the limit's own label is.
    """
    if limit_y is None or not 0 <= y - limit_y < TOUCHES:
        return ABOVE
    return BELOW if x < WIDTH / 2 else limit_y - y + ABOVE


def _places(values: Sequence[Value]) -> Iterator[str]:
    """How each place is written: its number, or its words where they have room behind those before;
    nothing is said of the first.
    """
    last = values[-1].place
    free = _x(values[0], last) + 1
    for value in values:
        has_room = _x(value, last) >= free
        free = _x(value, last) + PLACE if has_room else free
        words = value.at if has_room else ""
        yield words if value.at else str(value.place)


def _labels(values: Sequence[Value]) -> Iterator[str]:
    """The label of each, which ends beside its point, where it has room before those after; the one
    at 0 says nothing.
    """
    last = values[-1].place
    free = float(WIDTH)
    labels = []
    for value in values[:0:-1]:
        end = _x(value, last) - GAP
        has_room = end <= free
        labels.append(value.label if has_room else "")
        free = end - len(value.label) * CHARACTER - GAP if has_room else free
    yield from ("", *reversed(labels))
