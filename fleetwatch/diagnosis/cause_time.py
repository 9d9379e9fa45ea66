"""Held time by its cause: the vocabulary of diagnosis.

Sums of days are read where they are as new as their causes, entries elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta

import numpy as np

from fleetwatch.diagnosis.cause_columns import RECORD
from fleetwatch.diagnosis.clipped_causes import in_part
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.figures import edges
from fleetwatch.figures.edges import Edge
from fleetwatch.figures.engine import Asked
from fleetwatch.figures.packed_spans import Bools, Spans, joined, unpacked
from fleetwatch.figures.scopes import Limits
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_CAUSED, _AT_EDGES = (
    read_statement(f"diagnosis/sql/{name}.sql") for name in ("caused", "caused_at_edges")
)
_DAY = timedelta(days=1)
_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class CauseTime:
    """Spans of causes, of one alone where it is named.

    `is_current`: of hours whose ledger is still the one that was diagnosed. Without sums of days
    from entries alone.
    """

    cause: str | None = None
    job_ids: Sequence[int] | None = None
    is_current: bool = False
    with_sums: bool = True

    def limits(self, limits: Limits) -> Limits:
        """A job holds all of a cause's time, and its states are what it was diagnosed for."""
        if limits["is_allocated"]:
            return limits | {"states": None, "is_allocated": None}
        return limits | {"states": None}

    def node_ids(self, interval: Interval, limits: Limits) -> list[int]:
        rows = CauseEntry.objects.filter(start__gte=interval.start, start__lt=interval.end)
        if limits["job_id"] is not None:
            rows = rows.filter(job=limits["job_id"])
        if limits["gpu_ids"] is not None:
            rows = rows.filter(gpu__in=limits["gpu_ids"])
        return sorted(rows.order_by().values_list("node_id", flat=True).distinct())

    def whole(self, interval: Interval, asked: Asked) -> Spans[str]:
        first = interval.start.astimezone(UTC).date()
        last = (interval.end - _MOMENT).astimezone(UTC).date()
        days = [first + _DAY * place for place in range((last - first).days + 1)]
        wanted = asked.within(interval) | {"days": days, "use_sums": self.with_sums}
        return unpacked(fetched(_CAUSED, wanted | self._wanted), RECORD)

    def in_parts(self, ends: Sequence[Edge], asked: Asked) -> Spans[str]:
        """As much of each cause as the part has of what the ledger says it wasted."""
        wanted = {"node_ids": asked.node_ids, "job_id": asked.limits["job_id"]}
        cuts = [edge.cut.start for edge in ends]
        rows = fetched(_AT_EDGES, wanted | self._wanted | {"cuts": cuts})
        parts = edges.parts(ends, asked.node_ids)
        spans: Spans[str] = unpacked([], RECORD)
        for number, cut in enumerate(cuts):
            at = asked.step_and_era(cut)
            of_cut = [
                (node, *at, names, packed) for place, node, names, packed in rows if place == number
            ]
            spans = joined(
                spans, in_part(unpacked(of_cut, RECORD), parts.where(parts.step == number))
            )
        return spans

    def chosen(self, spans: Spans[str], limits: Limits) -> list[Bools]:
        chosen = []
        if self.job_ids is not None:
            chosen.append(np.isin(spans.job, self.job_ids))
        if self.cause is not None:
            is_it = np.array([name == self.cause for name in spans.labels], dtype=bool)
            chosen.append(is_it[spans.label])
        return chosen

    @property
    def _wanted(self) -> dict[str, str | bool | None]:
        return {"cause": self.cause, "is_current": self.is_current}
