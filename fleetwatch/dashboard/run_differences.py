"""Runs of one job beside the newest of them, and what differs from it. Pure.

What is not known differs from nothing. What a run was given is marked only where its waste is
another one too: else it explains nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from fleetwatch.dashboard import numbers

LASTED = "Lasted"  # the column
LEAST_POINTS = 5  # of the share that was wasted: smaller differences are chance


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
    cause: str  # the verdict
    is_judged: bool  # enough of it was seen for one
    cost_usd: Decimal
    recorded_ms: int | None = None  # of what it lasted; None: all of it


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
    """The run's values, and what of them may be why it wastes more or less than the other (None:
    than nothing).
    """
    other = than or run
    explains = bool(_points(run.wasted_share, other.wasted_share))
    return (*_given(run, other if explains else run), *_outcome(run, other))


def like(earlier: Sequence[Run], this: Run | None) -> str:
    """How many of the earlier runs have this one's verdict; "" where nothing can be said."""
    judged = [run for run in earlier if run.is_judged]
    if this is None or not this.is_judged or not judged:
        return ""
    same = sum(run.cause == this.cause for run in judged)
    runs = "earlier run" if len(judged) == 1 else "earlier runs"
    return f"{same or 'None'} of {len(judged)} {runs} had the same verdict: {this.cause}"


def _given(run: Run, other: Run) -> Iterator[Cell]:
    """What it was given."""
    yield Cell("GPUs", str(run.gpus), _more(run.gpus - other.gpus))
    models = run.models or numbers.UNKNOWN
    yield Cell("On", models, _named(run.models, other.models), run.nodes, is_number=False)
    limit = numbers.duration(run.limit_ms)
    yield Cell("Time limit", limit, _ratio(run.limit_ms, other.limit_ms))


def _outcome(run: Run, other: Run) -> Iterator[Cell]:
    """What came of it."""
    yield _of_the_whole(run, Cell(LASTED, numbers.duration(run.lasted_ms)))
    share = numbers.UNKNOWN if run.wasted_share is None else numbers.percent(run.wasted_share)
    yield Cell("Wasted", share, _points(run.wasted_share, other.wasted_share))
    cause = run.cause or numbers.UNKNOWN
    is_compared = run.is_judged and other.is_judged
    differs = _named(run.cause, other.cause) if is_compared else ""
    yield Cell("Likely cause", cause, differs, is_number=False)
    yield _of_the_whole(run, Cell("Cost", numbers.usd(run.cost_usd)))


def _of_the_whole(run: Run, cell: Cell) -> Cell:
    """The cell, with a note where it will grow or figures hold a part of the run."""
    if cell.text == numbers.UNKNOWN:
        return cell
    if not run.is_whole:
        return replace(cell, note="so far")
    if run.recorded_ms is None:
        return cell
    recorded = numbers.duration(run.recorded_ms)
    is_time = cell.column == LASTED
    return replace(cell, note=f"{recorded} of it recorded" if is_time else f"of {recorded}")


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


def _ratio(value: int | None, other: int | None) -> str:
    """By how much it is more or less than the other."""
    if value is None or not other or value == other:
        return ""
    return numbers.change(value / other - 1)
