"""The fleet as squares: a picture for each node with a square for each GPU, by what it shows of the
whole period. For SVG, which works without JavaScript.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from fleetwatch.dashboard import numbers, words
from fleetwatch.dashboard.broken_marks import BrokenMark
from fleetwatch.dashboard.drawing import maps
from fleetwatch.dashboard.drawing.fleet_chart import NodeGPUs, gpus_of, number
from fleetwatch.dashboard.node_lines import NodeFigures
from fleetwatch.figures.totals import Scope, Totals
from fleetwatch.lib.intervals import Interval

IN_A_ROW = 8
SIDE = 14  # of a square and the air beside it
SQUARE = 12
NUMBER_UP = 4
CROSS_IN = 2  # from the square's edge to the cross
SHADES = 10  # classes of app.css, from nothing to the most


@dataclass(frozen=True, slots=True)
class Square:
    """One GPU: its colour (a class), where it is, how much of it from below is marked as wasted,
    what the pointer is told, and whether it is crossed out.
    """

    colour: str
    x: int
    y: int
    title: str
    number: str = ""
    wasted_high: float = 0
    is_broken: bool = False

    @property
    def number_x(self) -> int:
        """The middle of its number."""
        return self.x + SQUARE // 2

    @property
    def number_y(self) -> int:
        """Where its number stands."""
        return self.y + SQUARE - NUMBER_UP

    @property
    def wasted_x(self) -> int:
        """Of the mark, half as wide as the square: its colour stays to be seen beside it."""
        return self.x + SQUARE // 4

    @property
    def wasted_y(self) -> float:
        """Where the mark begins."""
        return self.y + SQUARE - self.wasted_high

    @property
    def cross(self) -> str:
        """The lines that cross it out, as a path."""
        far = SQUARE - 2 * CROSS_IN
        at = f"{self.x + CROSS_IN} {self.y + CROSS_IN}"
        return f"M{at}l{far} {far}m{-far} 0l{far} {-far}"


@dataclass(frozen=True, slots=True)
class Mark:
    """What a square shows: its colour, what that says, which share of its cost was wasted, and what
    is wrong with the GPU now ("" = nothing).
    """

    colour: str
    text: str
    wasted_share: float
    wrong: str
    works: bool = True

    @property
    def shown_colour(self) -> str:
        """Of a GPU that can't work that of unavailable, whatever it did before."""
        return self.colour if self.works else "unavailable"

    @property
    def words(self) -> str:
        """All of it."""
        wasted = f", {numbers.percent(self.wasted_share)} of its cost wasted"
        wrong = f"; broken now: {self.wrong}"
        return f"{self.text}{wasted if self.wasted_share else ''}{wrong if self.wrong else ''}"


@dataclass(frozen=True, slots=True)
class NodeSquares:
    """A node's picture; `label` says it in words."""

    node: str
    totals: Totals
    squares: Sequence[Square]
    height: int
    label: str


@dataclass(frozen=True, slots=True)
class GridPage:
    """The pictures of a page, and what the strongest shade stands for, in dollars or as a ratio."""

    pictures: Sequence[NodeSquares]
    most: float


def of_page(
    metric: str,
    lines: Sequence[NodeFigures],
    interval: Interval,
    scope: Scope,
    broken: Sequence[BrokenMark],
) -> GridPage:
    """Of the nodes of a page that have GPUs in the scope; those that are broken are crossed out."""
    shown = gpus_of([line.node for line in lines], interval, scope)
    gpus = [gpu for node in shown for gpu in node.gpus]
    wrong = {mark.gpu.uuid: (mark.wrong, mark.works) for mark in broken}
    most, each = _seen(metric, gpus, interval, scope)
    marks = iter(
        Mark(*mark, *wrong.get(gpu.uuid, ("", True))) for gpu, mark in zip(gpus, each, strict=True)
    )
    totals = {line.node.name: line.totals for line in lines}
    pictures = [
        _picture(node, totals[node.node], [next(marks) for _ in node.gpus]) for node in shown
    ]
    return GridPage(pictures, most)


def _seen(
    metric: str, gpus: Sequence[Any], interval: Interval, scope: Scope
) -> tuple[float, list[tuple[str, str, float]]]:
    """What the strongest shade stands for; of each GPU its colour, what that says, and which share
    of its cost was wasted.
    """
    values = maps.in_one(metric, gpus, interval, scope)
    most = maps.most(metric, values)
    wasted = _wasted_shares(gpus, interval, scope) if metric == "state" else [0.0] * len(gpus)
    pairs = zip(values.tolist(), wasted, strict=True)
    return most, [(*_mark(metric, value, most), share) for value, share in pairs]


def _wasted_shares(gpus: Sequence[Any], interval: Interval, scope: Scope) -> list[float]:
    """Of what each cost; 0 where that is not known."""
    cost, waste = (maps.in_one(each, gpus, interval, scope) for each in ("cost", "waste"))
    pairs = zip(waste.tolist(), cost.tolist(), strict=True)
    return [usd / whole if whole > 0 and usd > 0 else 0.0 for usd, whole in pairs]


def _mark(metric: str, value: float, most: float) -> tuple[str, str]:
    """The colour of a value, and its words."""
    if metric == "state":
        if value < 0:
            return "unknown", "not known"
        state = words.SHOWN[int(value)]
        return state.name, state.label
    if isnan(value):
        return "unknown", "not known"
    text = numbers.usd(value) if maps.METRICS[metric].is_money else numbers.percent(value)
    return f"shade-{round(SHADES * value / most) if most else 0}", text


def _picture(node: NodeGPUs, totals: Totals, marks: Sequence[Mark]) -> NodeSquares:
    squares = [
        Square(
            mark.shown_colour,
            place % IN_A_ROW * SIDE,
            place // IN_A_ROW * SIDE,
            f"GPU {number(gpu)}: {mark.words}",
            number(gpu),
            round(SQUARE * mark.wasted_share, 1),
            bool(mark.wrong),
        )
        for place, (gpu, mark) in enumerate(zip(node.gpus, marks, strict=True))
    ]
    height = -(-len(squares) // IN_A_ROW) * SIDE
    label = _label([number(gpu) for gpu in node.gpus], marks)
    return NodeSquares(node.node, totals, squares, height, label)


def _label(numbers: Sequence[str], marks: Sequence[Mark]) -> str:
    """Each GPU by its number, what is alike together: "Useful: GPU 0, 1; broken now: GPU 2"."""
    alike: dict[str, list[str]] = {}
    for gpu_number, mark in zip(numbers, marks, strict=True):
        alike.setdefault(f"broken now ({mark.wrong})" if mark.wrong else mark.text, []).append(
            gpu_number
        )
    most_first = sorted(alike.items(), key=lambda each: -len(each[1]))
    return "; ".join(f"{text}: GPU {', '.join(gpus)}" for text, gpus in most_first)
