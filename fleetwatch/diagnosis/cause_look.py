"""What one cause took of the time that counts as waste, by group and over time: as costs.look, of a
cause.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from fleetwatch.accounts.selectors import zone
from fleetwatch.diagnosis.cause_columns import Lines
from fleetwatch.diagnosis.cause_time import CauseTime
from fleetwatch.diagnosis.cause_totals import Caused, nothing
from fleetwatch.diagnosis.causes import CATALOGUE, OF_CAPACITY, OF_STATES, UNFIT
from fleetwatch.figures import boundaries, engine
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.group_names import lines_of
from fleetwatch.figures.packed_spans import Ints, numbered
from fleetwatch.figures.priced_columns import Columns
from fleetwatch.figures.selectors import Look
from fleetwatch.figures.totals import EVERYTHING, Bucket, Group, Scope, Totals, rank
from fleetwatch.lib.intervals import Interval

# those that took a part of what counts as waste: of no other one there is such time
WASTING = tuple(
    cause.code for cause in CATALOGUE if cause.code not in (*UNFIT, *OF_CAPACITY)
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CauseLook:
    """One reading of a cause's time; its totals are of what it took, underused time too."""

    spans: Columns[str]

    def totals(self) -> Totals:
        caused = self._sums(np.zeros_like(self.spans.job))
        return caused[0].totals if caused else nothing(None, "").totals

    def by(self, group_by: str) -> list[Group]:
        """A line for each group that lost time to it, the most wasted first."""
        keys = self.spans.by[group_by]
        groups, line = numbered(keys.at)
        ids = keys.ids[groups].tolist()
        named = lines_of(group_by, keys, ids)
        lines = [
            Group(*named[key], caused.totals)
            for key, caused in zip(ids, self._sums(line), strict=True)
        ]
        return sorted(lines, key=rank)

    def buckets(self, starts: Sequence[datetime]) -> list[Bucket]:
        """What it took in each of the steps that begin then."""
        keys = self.spans.by["step"]
        steps, line = numbered(keys.at)
        places = keys.ids[steps].tolist()
        totals = {
            place: caused.totals for place, caused in zip(places, self._sums(line), strict=True)
        }
        none = nothing(None, "").totals
        return [Bucket(start, totals.get(place, none)) for place, start in enumerate(starts)]

    def _sums(self, line: Ints) -> list[Caused]:
        """Of each line, numbered from 0 on, all that was read."""
        none = np.zeros(int(line.max()) + 1 if len(line) else 0, dtype=np.int64)
        if not len(none):
            return []
        return [
            replace(caused, cause="") for caused in Lines(self.spans, none, none, line).caused()
        ]


def look(
    cause: str,
    interval: Interval,
    *groups: str,
    scope: Scope = EVERYTHING,
    step: str | None = None,
) -> CauseLook | Look:
    """The time of one of WASTING by all of these groups, and by step where it is said."""
    if state := OF_STATES.get(cause):
        narrowed = replace(scope, states=(state,), shown=None, is_allocated=None)
        return costs.look(interval, *groups, scope=narrowed, step=step)
    return CauseLook(engine.read(CauseTime(cause), interval, by=groups, scope=scope, step=step))


def dollars_over_time(
    cause: str, interval: Interval, step: str, *, scope: Scope = EVERYTHING
) -> list[Bucket]:
    """costs.dollars_over_time() of the cause."""
    organisation_zone = zone()
    whole = boundaries.outward(interval, organisation_zone)
    starts = boundaries.steps(whole, step, organisation_zone)
    seen = look(cause, interval, scope=scope, step=step)
    return seen.buckets(starts) or [Bucket(start, nothing(None, "").totals) for start in starts]
