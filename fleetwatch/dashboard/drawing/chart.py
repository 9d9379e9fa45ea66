"""What a chart is: what is drawn, and the numbers it is drawn from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fleetwatch.dashboard.drawing.figures import Figure
from fleetwatch.dashboard.parameters import SUBJECTS, scope_of
from fleetwatch.dashboard.period import Period
from fleetwatch.figures.totals import Scope
from fleetwatch.lib.intervals import Interval

SPENT_BY = (*SUBJECTS, "gpu", "job")

Params = Mapping[str, str]
Cell = str | float | None


class NoSuchChartError(LookupError):
    """There is no chart of that name, or not of that subject."""


class NoPeriodError(ValueError):
    """The chart is of a time of its own, and the address names another one."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: what is drawn, and the numbers it is drawn from (None = not known), whose heads and
    rows are made where they are shown; `after` leads to the next page of them, "" = there is none.
    `own`: the time that it is always of; None = the period that is asked for.
    """

    title: str
    figure: Figure
    columns: Callable[[], Sequence[str]]
    rows: Callable[[], Sequence[Sequence[Cell]]]
    after: str = ""
    own: Interval | None = None


def scope_asked(params: Params) -> Scope:
    """What the chart's address narrows it to."""
    return scope_of({name: params[name] for name in SPENT_BY if params.get(name)})


def heads(period: Period, names: Iterable[str]) -> list[str]:
    """Of rows by time."""
    return [f"Start ({period.clock})", *names]


def text_of(moment: datetime) -> str:
    """The moment as a table and CSV say it."""
    return moment.isoformat(" ")[:19].removesuffix(":00")
