"""Until when GPUs of nodes' findings were slowed, to the five minutes: of the hour that goes on a
finding has only until when diagnosis looked.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import reduce
from operator import or_

from django.db.models import Q

from fleetwatch.diagnosis.causes import SLOWED
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.diagnosis.slowed_cells import STILL_MS, ended_ms, goes_on, otherwise_until
from fleetwatch.lib.intervals import floor_hour, from_ms, to_ms

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class SlowedEnd:
    """When the last five minutes ended in which one of its GPUs was slowed, and whether it is over
    since: not while that is not known, as of a node that was not heard since.
    """

    until_ms: int
    is_over: bool


@dataclass(frozen=True, slots=True)
class _Last:
    """A finding's GPUs that were slowed in the hour that ends at `last_ms`, each until when."""

    finding: Finding
    last_ms: int
    until_ms: Mapping[int, int]

    @property
    def hour(self) -> Q:
        """Its entries; midnight may cut the hour."""
        start = floor_hour(from_ms(self.last_ms - 1))
        return Q(node=self.finding.node_id, start__gte=start, start__lt=start + HOUR)

    @property
    def newest_ms(self) -> int | None:
        return self.finding.node.last_ms if self.finding.node is not None else None

    @property
    def lately(self) -> dict[int, int]:
        """Of GPUs that were so lately what is newest of their node."""
        newest_ms = self.newest_ms
        if newest_ms is None:
            return {}
        ends = self.until_ms.items()
        return {gpu_id: newest_ms for gpu_id, end_ms in ends if end_ms >= newest_ms - STILL_MS}

    def end(self, otherwise_ms: Mapping[int, int]) -> SlowedEnd:
        """Where it has no entries it is the hour's."""
        ends = self.until_ms or {0: self.last_ms}
        newest_ms = self.newest_ms
        is_over = newest_ms is not None and not any(
            goes_on(end_ms, otherwise_ms.get(gpu_id), newest_ms) for gpu_id, end_ms in ends.items()
        )
        return SlowedEnd(min(max(ends.values()), self.last_ms), is_over)


def slowed_ends(findings: Iterable[Finding]) -> Mapping[int, SlowedEnd]:
    """By their ids, of those of slowed GPUs."""
    own = [_Last(each, each.last_ms, {}) for each in findings if _is_of_slowed(each)]
    return {last.finding.pk: end for last, end in _ends(own, Q())} if own else {}


def slowed_end(finding: Finding, last_ms: int, which: Q) -> SlowedEnd:
    """Of its GPUs `which`, that were slowed in the hour that ends at `last_ms` at last."""
    [(_, end)] = _ends([_Last(finding, last_ms, {})], which)
    return end


def _is_of_slowed(finding: Finding) -> bool:
    return finding.cause == SLOWED and finding.node_id is not None


def _ends(several: Sequence[_Last], which: Q) -> list[tuple[_Last, SlowedEnd]]:
    read = _read(several, which)
    otherwise_ms = otherwise_until(
        {gpu_id: newest_ms for last in read for gpu_id, newest_ms in last.lately.items()}
    )
    return [(last, last.end(otherwise_ms)) for last in read]


def _read(several: Sequence[_Last], which: Q) -> list[_Last]:
    hours = reduce(or_, (last.hour for last in several))
    rows = CauseEntry.objects.filter(which, hours, cause=SLOWED)
    until_ms: dict[int, dict[int, int]] = defaultdict(dict)
    for node_id, gpu_id, start, cells in rows.values_list("node_id", "gpu_id", "start", "cells"):
        own = until_ms[node_id]
        own[gpu_id] = max(ended_ms(to_ms(start), cells), own.get(gpu_id, 0))
    return [replace(last, until_ms=until_ms.get(last.finding.node_id or 0, {})) for last in several]
