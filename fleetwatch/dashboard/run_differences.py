"""Runs of one job beside the newest of them, and what differs from it. Pure.

What is not known differs from nothing, and of a run that goes on, or that figures hold a part of,
neither its time nor its dollars are compared.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from fleetwatch.dashboard import numbers

# smaller differences are chance
LEAST_PERCENT = 20  # of time and dollars
LEAST_POINTS = 5  # of the share that was wasted


@dataclass(frozen=True, slots=True)
class Run:
    """What is compared of a run; None and "" = not known."""

    gpus: int
    models: str  # of its GPUs
    nodes: str
    limit_ms: int | None
    lasted_ms: int | None
    is_whole: bool  # it is over, and its figures are of all of it
    wasted_share: Decimal | None  # of its cost
    cause: str
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a column in words; `difference` from the run that it is compared with, "" =
    none.
    """

    column: str
    text: str
    difference: str = ""
    note: str = ""
    is_number: bool = True


def cells(run: Run, than: Run | None) -> tuple[Cell, ...]:
    """The run's values, and where they differ from those of the other (None: from nothing)."""
    other = than or run
    return (*_given(run, other), *_outcome(run, other))


def _given(run: Run, other: Run) -> Iterator[Cell]:
    """What it was given."""
    yield Cell("GPUs", str(run.gpus), _more(run.gpus - other.gpus))
    models = run.models or numbers.UNKNOWN
    yield Cell("On", models, _named(run.models, other.models), run.nodes, is_number=False)
    limit = numbers.duration(run.limit_ms)
    yield Cell("Time limit", limit, _ratio(run.limit_ms, other.limit_ms))


def _outcome(run: Run, other: Run) -> Iterator[Cell]:
    """What came of it."""
    yield _of_the_whole(run, other, Cell("Lasted", numbers.duration(run.lasted_ms)), "lasted_ms")
    share = numbers.UNKNOWN if run.wasted_share is None else numbers.percent(run.wasted_share)
    yield Cell("Wasted", share, _points(run.wasted_share, other.wasted_share))
    cause = run.cause or numbers.UNKNOWN
    yield Cell("Likely cause", cause, _named(run.cause, other.cause), is_number=False)
    yield _of_the_whole(run, other, Cell("Cost", numbers.usd(run.cost_usd)), "cost_usd")


def _of_the_whole(run: Run, other: Run, cell: Cell, field: str) -> Cell:
    """The cell with its difference where both runs are whole, else with why there is none."""
    if not run.is_whole:
        return replace(cell, note="" if cell.text == numbers.UNKNOWN else "so far")
    if not other.is_whole:
        return cell
    change = _ratio(getattr(run, field), getattr(other, field), least=LEAST_PERCENT)
    return replace(cell, difference=change)


def names(several: Sequence[str]) -> str:
    """The first, and how many more there are: "node-001 and 3 more"; "" = none."""
    first = "".join(several[:1])
    return first if len(several) < 2 else f"{first} and {len(several) - 1} more"


def _more(count: int) -> str:
    return f"{count:+}".replace("-", "−") if count else ""


def _named(name: str, other: str) -> str:
    return "differs" if name and other and name != other else ""


def _points(share: Decimal | None, other: Decimal | None) -> str:
    if share is None or other is None or abs(share - other) * 100 < LEAST_POINTS:
        return ""
    difference = float(share - other)
    return numbers.points(difference, difference)


def _ratio(value: Decimal | int | None, other: Decimal | int | None, *, least: int = 0) -> str:
    """By how much it is more or less than the other; "" below so many percent."""
    if value is None or not other or value == other:
        return ""
    share = Decimal(value) / Decimal(other) - 1
    return numbers.change(float(share)) if abs(share) * 100 >= least else ""
