"""Hours that can't be judged again, because their columns are gone: entries stay, but where capacity itself changed.

A node that was silent for longer than columns are kept and comes back was capacity all the time:
the time is written as a judgement without windows has it. A GPU that did not come back with it
is retired as of when it was last seen: the time is taken away again.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from django.db.models import Q

from fleetwatch.ledger import adjustments, reading, run_rows, store
from fleetwatch.ledger.facts import Capacity, Judgement
from fleetwatch.ledger.models import Entry, Posted, Run
from fleetwatch.ledger.plan import Frontier
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.reading import NodeFacts
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms

HOURS_PER_PASS = 24 * 7  # without windows
Span = tuple[int, int]
# (GPU, holder, state, clock hour)
Held = tuple[int, int | None, str, int]


def write(
    facts: NodeFacts, posted: Mapping[int, Posted], *, until_ms: int, policy: Policy, policy_id: int, closed: Frontier, now: datetime
) -> dict[str, int]:
    """How many hours, entries, parts of runs and adjustments changed before `until_ms`, because capacity did since it was last posted."""
    did = dict.fromkeys(("changed", "entries", "runs", "adjustments"), 0)
    booked_at = max(now, from_ms(closed.until_ms)) if closed.months else now
    for grown in _grown(facts.capacities, posted, until_ms):
        judge = replace(facts, capacities=grown)
        low, high = min(one.start_ms for one in grown), max(one.end_ms for one in grown)
        for start in range(low // HOUR_MS * HOUR_MS, high, HOURS_PER_PASS * HOUR_MS):
            end = min(start + HOURS_PER_PASS * HOUR_MS, -(-high // HOUR_MS) * HOUR_MS)
            judged = reading.judge_unseen(judge, start, end, policy)
            _append(facts.node_id, (start, end), judged, policy_id=policy_id, closed_ms=closed.until_ms, booked_at=booked_at, did=did)
    for gpu_ids, span in _shrunk(facts.capacities, posted, until_ms):
        _take_away(facts.node_id, gpu_ids, span, closed_ms=closed.until_ms, booked_at=booked_at, did=did)
    return did


def _grown(capacities: Iterable[Capacity], posted: Mapping[int, Posted], until_ms: int) -> list[list[Capacity]]:
    """GPUs (with their instances) over capacity before `until_ms` that nothing was posted for: what began earlier, what ended later."""
    told = list(capacities)
    found: list[list[Capacity]] = []
    for side in (_began_earlier, _ended_later):
        spans = {one.gpu_id: (span[0], min(span[1], until_ms)) for one in told if one.parent_id is None and (span := side(one, posted))}
        parts = [_within(one, spans.get(one.gpu_id if one.parent_id is None else one.parent_id, (0, 0))) for one in told]
        if grown := [one for one in parts if one.start_ms < one.end_ms]:
            found.append(grown)
    return found


def _began_earlier(one: Capacity, posted: Mapping[int, Posted]) -> Span | None:
    row = posted.get(one.gpu_id)
    return None if row is None else (one.start_ms, min(row.start_ms, one.end_ms))


def _ended_later(one: Capacity, posted: Mapping[int, Posted]) -> Span | None:
    row = posted.get(one.gpu_id)
    return (one.start_ms, one.end_ms) if row is None else (max(row.end_ms, one.start_ms), one.end_ms)


def _within(one: Capacity, span: Span) -> Capacity:
    return replace(one, start_ms=max(one.start_ms, span[0]), end_ms=min(one.end_ms, span[1]))


def _append(
    node_id: int, span: Span, judged: Judgement, *, policy_id: int, closed_ms: int, booked_at: datetime, did: dict[str, int]
) -> None:
    """Writes what was judged beside what is there: adjustments where closed, entries elsewhere, parts of runs in any case."""
    start, end = span
    entries = store.entry_lines(judged, policy_id, within=(max(start, closed_ms), end))
    booked = store.entry_rows(judged, policy_id, within=(start, max(start, min(end, closed_ms))))
    parts = run_rows.by_hour(run_rows.judged_rows(judged, within=span))
    store.append(node_id, entries, parts)
    adjustments.write(node_id, (row for rows in booked.values() for row in rows), booked_at=booked_at)
    did["changed"] += len(parts)
    did["runs"] += sum(map(len, parts.values()))
    for name, hours in (("entries", entries), ("adjustments", booked)):
        did[name] += sum(map(len, hours.values()))


def _shrunk(capacities: Iterable[Capacity], posted: Mapping[int, Posted], until_ms: int) -> list[tuple[list[int], Span]]:
    """(a GPU and its instances, time before `until_ms` that is no longer its capacity) where it ended earlier than was posted."""
    told = list(capacities)
    found = []
    for one in told:
        row = posted.get(one.gpu_id)
        if one.parent_id is None and row is not None and one.end_ms < min(row.end_ms, until_ms):
            family = [one.gpu_id, *(part.gpu_id for part in told if part.parent_id == one.gpu_id)]
            found.append((family, (one.end_ms, min(row.end_ms, until_ms))))
    return found


def _take_away(node_id: int, gpu_ids: list[int], span: Span, *, closed_ms: int, booked_at: datetime, did: dict[str, int]) -> None:
    """Takes the time in the span out of runs, and as much of the same holder and state out of entries.

    Capacity ends with the GPU's last window: after it everything is unobserved or unavailable,
    so a part that reaches into the span gives what it has of that.
    """
    taken: dict[Held, int] = defaultdict(int)
    gone = []
    for part in Run.objects.filter(gpu_id__in=gpu_ids, end_ms__gt=span[0], start_ms__lt=span[1]):
        left = _left_before(part, span[0])
        for state, gpu_ms in part.state_ms.items():
            taken[part.gpu_id, part.job_id, state, part.start_ms // HOUR_MS * HOUR_MS] += gpu_ms - left.get(state, 0)
        if not left:
            gone.append(part.pk)
        elif part.end_ms > span[0]:
            part.end_ms, part.state_ms = span[0], left
            part.save(update_fields=["end_ms", "state_ms"])
    Run.objects.filter(pk__in=gone).delete()
    did["runs"] += len(gone)
    for held, gpu_ms in taken.items():
        _take_from_entries(node_id, held, gpu_ms, closed_ms=closed_ms, booked_at=booked_at, did=did)
    hours = {hour for (*_, hour), gpu_ms in taken.items() if gpu_ms}
    store.count_versions(node_id, [hour for hour in hours if hour + HOUR_MS > closed_ms])
    did["changed"] += len(hours)


def _left_before(part: Run, end_ms: int) -> dict[str, int]:
    """What the part holds before that moment."""
    if part.start_ms >= end_ms:
        return {}
    beyond = sum(part.state_ms.values()) * (part.end_ms - end_ms) // (part.end_ms - part.start_ms)
    left = dict(part.state_ms)
    for state in ("unobserved", "unavailable"):
        less = min(beyond, left.get(state, 0))
        left[state] = left.get(state, 0) - less
        beyond -= less
    return {state: gpu_ms for state, gpu_ms in left.items() if gpu_ms}


def _take_from_entries(node_id: int, held: Held, gpu_ms: int, *, closed_ms: int, booked_at: datetime, did: dict[str, int]) -> None:
    """Less time of that holder and state in the hour: the latest cut first, what no window told first."""
    gpu_id, job_id, state, hour = held
    whose = Q(job__isnull=True) if job_id is None else Q(job_id=job_id)
    rows = Entry.objects.filter(whose, gpu_id=gpu_id, state=state, start__gte=from_ms(hour), start__lt=from_ms(hour + HOUR_MS))
    booked: list[store.Row] = []
    for row in sorted(rows, key=lambda one: (-to_ms(one.start), one.reason != "missing", one.pk)):
        less = min(gpu_ms, row.gpu_ms)
        if less and to_ms(row.start) < closed_ms:
            facts = [getattr(row, name) for name in store.ENTRY_COLUMNS[:-2]]
            booked.append((*facts, -less, None if row.energy_j is None else 0.0))
        elif less and less == row.gpu_ms:
            row.delete()
        elif less:
            row.gpu_ms -= less
            row.save(update_fields=["gpu_ms"])
        did["entries"] += 1 if less else 0
        gpu_ms -= less
    adjustments.write(node_id, booked, booked_at=booked_at)
    did["adjustments"] += len(booked)
