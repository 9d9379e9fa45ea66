"""Time of findings of nodes and clusters: the vocabulary of machines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from fleetwatch.diagnosis.cause_columns import RECORD
from fleetwatch.diagnosis.causes import OF_STATES, SLOWED
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures import edges
from fleetwatch.figures.edges import Edge
from fleetwatch.figures.engine import Asked
from fleetwatch.figures.packed_spans import Bools, Spans, joined, sums, unpacked
from fleetwatch.figures.scopes import Limits
from fleetwatch.figures.state_spans import KINDS_OF_A_STATE, Kind
from fleetwatch.ledger.policy import STATES
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_SPANS = read_statement("diagnosis/sql/machine_time.sql")
_NO_STATE = -1


@dataclass(frozen=True, slots=True)
class MachineTime:
    """Spans of these findings of machines: the labels are their ids, as words."""

    findings: Sequence[Finding]

    def limits(self, limits: Limits) -> Limits:
        return limits

    def node_ids(self, interval: Interval, limits: Limits) -> list[int]:
        """Raises ValueError: what took a machine's time is not asked of one job or GPU."""
        raise ValueError("findings of machines are read of whole nodes and clusters")

    def whole(self, interval: Interval, asked: Asked) -> Spans[str]:
        ids = [finding.pk for finding in self.findings]
        wanted = {"finding_ids": ids, "slowed": SLOWED, "wasted": list(OF_STATES)}
        rows = fetched(_SPANS, asked.within(interval) | wanted)
        return unpacked(rows, RECORD, list(map(str, ids)))

    def in_parts(self, ends: Sequence[Edge], asked: Asked) -> Spans[str]:
        """Of causes that explain a state of the ledger what it has of it in the part, of others
        their share of the cut; in whole milliseconds, rounded down.
        """
        node_ids = {each.node_id for each in self.findings if each.cause in OF_STATES}
        ledger = edges.parts(ends, sorted(filter(None, node_ids)))
        return reduce(
            joined,
            (
                self._in_part(edge, asked, ledger.where(ledger.step == number))
                for number, edge in enumerate(ends)
            ),
        )

    def _in_part(self, edge: Edge, asked: Asked, ledger: Spans[Kind]) -> Spans[str]:
        spans = self.whole(edge.cut, asked)
        states = [OF_STATES.get(finding.cause) for finding in self.findings]
        state = np.array([STATES.index(state) if state else _NO_STATE for state in states])
        count, of_span, of_ledger = edges.pairs(
            (spans.gpu, state[spans.label]), (ledger.gpu, ledger.label // KINDS_OF_A_STATE)
        )
        part_ms, whole_ms = (
            sums(of_ledger, ledger.figures[name], count)[of_span] for name in ("gpu_ms", "whole_ms")
        )
        is_clipped = whole_ms > 0
        part_ms = np.where(is_clipped, part_ms, edge.part.duration_ms)
        whole_ms = np.where(is_clipped, whole_ms, edge.cut.duration_ms)
        ms = spans.figures["ms"] * part_ms[:, None] // whole_ms[:, None]
        return replace(spans, figures={**spans.figures, "ms": ms}).where(part_ms > 0)

    def chosen(self, spans: Spans[str], limits: Limits) -> list[Bools]:
        return []
