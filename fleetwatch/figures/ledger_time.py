"""The ledger's time by state: the vocabulary of costs.

Sums of days are read where they are as new as their entries, entries elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fleetwatch.figures import edges
from fleetwatch.figures.edges import Edge
from fleetwatch.figures.engine import Asked
from fleetwatch.figures.packed_spans import Bools, Spans, unpacked
from fleetwatch.figures.scopes import Limits
from fleetwatch.figures.state_spans import KINDS, RECORD, Kind
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_NODES, _SPANS = (read_statement(f"figures/sql/{name}.sql") for name in ("nodes_of", "spans"))


@dataclass(frozen=True, slots=True)
class LedgerTime:
    """Spans of states; without sums of days from entries alone."""

    with_sums: bool = True

    def limits(self, limits: Limits) -> Limits:
        return limits

    def node_ids(self, interval: Interval, limits: Limits) -> list[int]:
        wanted = {"start": interval.start, "end": interval.end}
        wanted |= {name: limits[name] for name in ("job_id", "gpu_ids")}
        return [pk for (pk,) in fetched(_NODES, wanted)]

    def whole(self, interval: Interval, asked: Asked) -> Spans[Kind]:
        # sums of days know no hour
        wanted = asked.within(interval) | {
            "use_sums": self.with_sums and asked.step != "hour",
            "states": asked.limits["states"],
        }
        return unpacked(fetched(_SPANS, wanted), RECORD, KINDS)

    def in_parts(self, ends: Sequence[Edge], asked: Asked) -> Spans[Kind]:
        spans = edges.parts(ends, asked.node_ids)
        at = np.array([asked.step_and_era(edge.cut.start) for edge in ends], dtype=np.int64)
        step, era = at[spans.step].T
        return replace(spans, step=step, era=era).where(spans.figures["gpu_ms"] > 0)

    def chosen(self, spans: Spans[Kind], limits: Limits) -> list[Bools]:
        states = limits["states"]
        if states is None:
            return []
        return [np.array([kind.state in states for kind in KINDS])[spans.label]]
