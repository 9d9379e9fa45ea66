"""A curve through a few points, each with its value: geometry for inline SVG. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

WIDTH = 460
HEIGHT = 180
SIDE = 34  # room beside the first and the last label
EDGE = 30  # room above and below
LABEL = 66  # a label's room; nearer ones are left out


@dataclass(frozen=True, slots=True)
class Value:
    """What there is at a place of the axis, 0 or more, and how that is written."""

    place: int
    amount: float
    label: str


@dataclass(frozen=True, slots=True)
class Point:
    """Where a value lies in pixels, its place on the axis, and its label ("" = it would cover the
    one before).
    """

    x: float
    y: float
    place: int
    label: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Points from left to right, the path through them, and all of it in words."""

    points: Sequence[Point]
    path: str
    words: str


def curve(values: Sequence[Value]) -> Curve:
    """Through the values, ascending from place 0; the axis begins at 0, as does the height."""
    points = list(map(_point_of(values), values, _are_apart(values)))
    return Curve(
        points,
        "M" + "L".join(f"{point.x} {point.y}" for point in points),
        ", ".join(f"{value.place}: {value.label}" for value in values),
    )


def _x(value: Value, last: int) -> float:
    return round(SIDE + value.place / last * (WIDTH - 2 * SIDE), 1)


def _y(value: Value, top: float) -> float:
    return round(HEIGHT - EDGE - value.amount / top * (HEIGHT - 2 * EDGE), 1)


def _point_of(values: Sequence[Value]) -> Callable[[Value, bool], Point]:
    last = values[-1].place
    top = max(value.amount for value in values) or 1.0
    return lambda value, is_apart: Point(
        _x(value, last), _y(value, top), value.place, value.label if is_apart else ""
    )


def _are_apart(values: Sequence[Value]) -> Iterator[bool]:
    """Of each whether its label has room; the one at 0 says nothing."""
    last = values[-1].place
    free = _x(values[0], last) + 1
    for value in values:
        x = _x(value, last)
        yield x >= free
        free = x + LABEL if x >= free else free
