"""Time of findings of nodes and clusters: the vocabulary of machines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fleetwatch.diagnosis.cause_columns import RECORD
from fleetwatch.diagnosis.cause_time import in_part, of_edges
from fleetwatch.diagnosis.causes import OF_STATES, SLOWED
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures import edges
from fleetwatch.figures.edges import Edge
from fleetwatch.figures.engine import Asked
from fleetwatch.figures.packed_spans import Bools, Ints, Spans, joined, sums, unpacked
from fleetwatch.figures.scopes import Limits
from fleetwatch.figures.state_spans import KINDS_OF_A_STATE, Kind
from fleetwatch.ledger.policy import STATES
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_SPANS = read_statement("diagnosis/sql/machine_time.sql")
_NO_STATE = -1
FEW_NODES = 8  # whose entries of a cut are read faster than all are looked through


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
        """Of jobs that were slowed and of causes that explain a state of the ledger what it has of
        that in the part, of others their share of the cut; in whole milliseconds, rounded down.
        """
        slowed = np.array([finding.cause == SLOWED for finding in self.findings])

        def clipped(edge: Edge, ledger: Spans[Kind]) -> Spans[str]:
            spans = self.whole(edge.cut, asked)
            is_slowed = slowed[spans.label]
            by_job = in_part(spans.where(is_slowed), ledger)
            return joined(by_job, self._clipped(spans.where(~is_slowed), edge, ledger))

        return of_edges(ends, self._nodes_by_ledger(), clipped)

    def _nodes_by_ledger(self) -> list[int] | None:
        """Nodes of what the ledger is asked for; None = all: of many it is the whole fleet's cut,
        which is kept.
        """
        by_ledger = (SLOWED, *OF_STATES)
        several = {each.node_id for each in self.findings if each.cause in by_ledger} - {None}
        return sorted(filter(None, several)) if len(several) <= FEW_NODES else None

    def _clipped(self, spans: Spans[str], edge: Edge, ledger: Spans[Kind]) -> Spans[str]:
        part_ms, whole_ms = self._of_states(spans, ledger)
        is_of_state = whole_ms > 0
        part_ms = np.where(is_of_state, part_ms, edge.part.duration_ms)
        whole_ms = np.where(is_of_state, whole_ms, edge.cut.duration_ms)
        ms = spans.figures["ms"] * part_ms[:, None] // whole_ms[:, None]
        return replace(spans, figures={**spans.figures, "ms": ms}).where(part_ms > 0)

    def _of_states(self, spans: Spans[str], ledger: Spans[Kind]) -> list[Ints]:
        """Of each span the ledger's time in its finding's state, in the part and in the whole cut;
        0 where its cause explains no state.
        """
        states = [OF_STATES.get(finding.cause) for finding in self.findings]
        state = np.array([STATES.index(state) if state else _NO_STATE for state in states])
        count, of_span, of_ledger = edges.pairs(
            (spans.gpu, state[spans.label]), (ledger.gpu, ledger.label // KINDS_OF_A_STATE)
        )
        return [
            sums(of_ledger, ledger.figures[name], count)[of_span] for name in ("gpu_ms", "whole_ms")
        ]

    def chosen(self, spans: Spans[str], limits: Limits) -> list[Bools]:
        return []
