"""GPU time of a period as priced columns: what every figure is summed from.

What the time is told as (states of the ledger, causes of diagnosis) is a vocabulary: it knows how
its spans are stored, the engine which period, prices, holders and groups they meet.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from fleetwatch.accounts.selectors import zone
from fleetwatch.figures import boundaries, edges
from fleetwatch.figures.edges import Edge
from fleetwatch.figures.eras import Eras, eras
from fleetwatch.figures.packed_spans import Bools, Label, Spans, joined
from fleetwatch.figures.priced_columns import Columns
from fleetwatch.figures.priced_spans import priced
from fleetwatch.figures.scopes import OF_HOLDERS, Limits, limits_of, named_jobs
from fleetwatch.figures.totals import EVERYTHING, Scope
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import one_view


@dataclass(frozen=True, slots=True)
class Asked:
    """What a vocabulary is asked for: spans of these eras, steps and nodes."""

    eras: Eras
    step: str | None  # hour or day
    steps: Sequence[datetime]  # where each begins; none = one step
    limits: Limits
    node_ids: list[int] | None  # on which it may lie; None = any
    facts: set[str]  # by what it is grouped and limited
    zone: ZoneInfo

    @property
    def is_of_fleet(self) -> bool:
        """Whether it may lie on any node."""
        return self.node_ids is None

    @property
    def of_gpus(self) -> bool:
        """Whether GPUs are told apart; else one may stand for others of its price."""
        return bool(self.facts & {"gpu", "gpu_ids"})

    @property
    def of_nodes(self) -> bool:
        """Whether nodes are told apart; else time may be of any."""
        return bool(self.facts & {"node", "node_id"})

    @property
    def of_jobs(self) -> bool:
        """Whether holders are told apart; else all time may be nobody's."""
        return bool(self.facts & OF_HOLDERS)

    @property
    def days(self) -> list[Interval]:
        """The zone's whole days that are touched."""
        return boundaries.days(self.eras.whole, self.zone)

    def within(self, interval: Interval) -> dict[str, Any]:
        """The parameters of a statement that reads whole cuts."""
        days = self.days
        return {
            "moments": self.eras.moments,
            "moved": self.eras.moved,
            "eras": self.eras.starts[1:],
            "start": interval.start,
            "end": interval.end,
            "day_starts": [day.start for day in days],
            "day_ends": [day.end for day in days],
            "steps": list(self.steps),
            "node_ids": self.node_ids,
            "job_id": self.limits["job_id"],
            "gpu_ids": self.limits["gpu_ids"],
            "of_gpus": self.of_gpus,
            "of_jobs": self.of_jobs,
        }

    def step_and_era(self, moment: datetime) -> tuple[int, int]:
        """In which of them it lies."""
        return bisect_right(self.steps, moment) - 1, bisect_right(self.eras.starts[1:], moment)


class Vocabulary(Protocol[Label]):
    """What GPU time is told as."""

    def limits(self, limits: Limits) -> Limits:
        """Those of the limits that mean anything here."""

    def node_ids(self, interval: Interval, limits: Limits) -> list[int]:
        """The nodes with time of the jobs, or of one of the GPUs, that the limits name."""

    def whole(self, interval: Interval, asked: Asked) -> Spans[Label]:
        """The spans of an interval of whole cuts."""

    def in_parts(self, ends: Sequence[Edge], asked: Asked) -> Spans[Label]:
        """The spans of what lies in the parts of cuts."""

    def chosen(self, spans: Spans[Label], limits: Limits) -> list[Bools]:
        """Tests of each span by its label."""


def read(
    vocabulary: Vocabulary[Label],
    interval: Interval,
    *,
    by: Collection[str] = (),
    scope: Scope = EVERYTHING,
    step: str | None = None,
) -> Columns[Label]:
    """GPU time of the interval, to the millisecond, by these groups of selectors.GROUPS and, where
    one is named, by step (hour, day), numbered from 0 on.

    One reading is of one moment.
    """
    limits = vocabulary.limits(limits_of(scope))
    facts = _facts(limits, by)
    organisation_zone = zone()  # written where nobody read it yet: not within the view
    whole = boundaries.outward(interval, organisation_zone)
    steps = boundaries.steps(whole, step, organisation_zone) if step else []
    with one_view():
        node_ids = _node_ids(vocabulary, whole, limits)
        asked = Asked(eras(whole, facts), step, steps, limits, node_ids, facts, organisation_zone)
        spans = _spans(vocabulary, interval, asked)
        at_prices = priced(spans, asked.eras, facts)
    tests = [*at_prices.chosen(limits), *vocabulary.chosen(spans, limits)]
    return at_prices.columns(_groups(by, step), tests)


def _groups(by: Collection[str], step: str | None) -> Collection[str]:
    return [*by, "step"] if step else by


def _facts(limits: Limits, by: Collection[str]) -> set[str]:
    """What has to be known of GPUs and holders: by what they are grouped and limited."""
    facts = {*by, *(name for name, limit in limits.items() if limit is not None)}
    if "seen" in facts:
        facts.add("team_id")
    return facts


def _spans(vocabulary: Vocabulary[Label], interval: Interval, asked: Asked) -> Spans[Label]:
    """The spans of the interval's whole cuts, and of the parts that it takes of those at its
    ends.
    """
    inner, ends = edges.split(interval, asked.zone)
    if inner is None:
        return vocabulary.in_parts(ends, asked)
    whole = vocabulary.whole(inner, asked)
    return joined(whole, vocabulary.in_parts(ends, asked)) if ends else whole


def _node_ids(vocabulary: Vocabulary[Any], whole: Interval, limits: Limits) -> list[int] | None:
    """On which nodes what is looked at may lie; None = any."""
    node_id = limits["node_id"]
    if named_jobs(limits) is None and limits["gpu_ids"] is None:
        return None if node_id is None else [node_id]
    node_ids = vocabulary.node_ids(whole, limits)
    return node_ids if node_id is None else [pk for pk in node_ids if pk == node_id]
