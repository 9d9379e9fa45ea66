"""Hours that can't be judged again, because their columns are gone: entries stay, but where
capacity itself changed.

A node that was silent for longer than columns are kept and comes back was capacity all the time:
the time is written as a judgement without windows has it. A GPU that did not come back with it
is retired as of when it was last seen: the time is taken away again.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from django.db.models import Q

from fleetwatch.ledger import adjustments, hour_rows, judgement_inputs, run_rows
from fleetwatch.ledger.judgement_inputs import NodeFacts
from fleetwatch.ledger.models import Entry, Posted, Run
from fleetwatch.ledger.observations import Capacity, Judgement, spans_by_gpu
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.policy_plan import Frontier
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.lib.spans import Span, clip, difference

HOURS_PER_PASS = 24 * 7  # without windows
# (GPU, holder, state, clock hour)
Held = tuple[int, int | None, str, int]


def write(
    facts: NodeFacts,
    posted: Mapping[int, Posted],
    *,
    until_ms: int,
    policy: Policy,
    policy_id: int,
    closed: Frontier,
    now: datetime,
) -> dict[str, int]:
    """How many hours, entries, parts of runs and adjustments changed before `until_ms`, because
    capacity did since it was last posted.
    """
    did = dict.fromkeys(("changed", "entries", "runs", "adjustments"), 0)
    booked_at = max(now, from_ms(closed.until_ms)) if closed.months else now
    if grown := _grown(facts.capacities, posted, until_ms):
        judge = replace(facts, capacities=grown)
        low, high = min(one.start_ms for one in grown), max(one.end_ms for one in grown)
        for start in range(low // HOUR_MS * HOUR_MS, high, HOURS_PER_PASS * HOUR_MS):
            end = min(start + HOURS_PER_PASS * HOUR_MS, -(-high // HOUR_MS) * HOUR_MS)
            judged = judgement_inputs.judge_unseen(judge, start, end, policy)
            _append(
                facts.node_id,
                (start, end),
                judged,
                policy_id=policy_id,
                closed_ms=closed.until_ms,
                booked_at=booked_at,
                did=did,
            )
    for gpu_ids, span in _shrunk(facts.capacities, posted, until_ms):
        _take_away(
            facts.node_id, gpu_ids, span, closed_ms=closed.until_ms, booked_at=booked_at, did=did
        )
    return did


def _grown(
    capacities: Sequence[Capacity], posted: Mapping[int, Posted], until_ms: int
) -> list[Capacity]:
    """GPUs (with their instances) over capacity before `until_ms` that nothing was posted for."""
    grown: list[Capacity] = []
    whole = spans_by_gpu(one for one in capacities if one.parent_id is None)
    for capacity in capacities:
        gpu_id = capacity.gpu_id if capacity.parent_id is None else capacity.parent_id
        new = difference(whole.get(gpu_id, []), _posted_spans(posted.get(gpu_id)))
        for start, end in clip(new, capacity.start_ms, min(capacity.end_ms, until_ms)):
            grown.append(replace(capacity, start_ms=start, end_ms=end))
    return grown


def _posted_spans(row: Posted | None) -> list[Span]:
    return [] if row is None else [(start, end) for start, end in row.spans]


def _append(
    node_id: int,
    span: Span,
    judged: Judgement,
    *,
    policy_id: int,
    closed_ms: int,
    booked_at: datetime,
    did: dict[str, int],
) -> None:
    """Writes what was judged beside what is there: adjustments where closed, entries elsewhere,
    parts of runs in any case.
    """
    start, end = span
    entries = hour_rows.entry_lines(judged, policy_id, within=(max(start, closed_ms), end))
    booked = hour_rows.entry_rows(
        judged, policy_id, within=(start, max(start, min(end, closed_ms)))
    )
    parts = run_rows.by_hour(run_rows.judged_rows(judged, within=span))
    hour_rows.append(node_id, entries, parts)
    adjustments.write(
        node_id, (row for rows in booked.values() for row in rows), booked_at=booked_at
    )
    did["changed"] += len(parts)
    did["runs"] += sum(map(len, parts.values()))
    for name, hours in (("entries", entries), ("adjustments", booked)):
        did[name] += sum(map(len, hours.values()))


def _shrunk(
    capacities: Sequence[Capacity], posted: Mapping[int, Posted], until_ms: int
) -> list[tuple[list[int], Span]]:
    """(a GPU and its instances, time before `until_ms` that is no longer its capacity) where less
    is than was posted.
    """
    whole = spans_by_gpu(one for one in capacities if one.parent_id is None)
    shrunk: list[tuple[list[int], Span]] = []
    for gpu_id, spans in whole.items():
        family = [gpu_id, *{one.gpu_id for one in capacities if one.parent_id == gpu_id}]
        gone = difference(_posted_spans(posted.get(gpu_id)), spans)
        shrunk += [(family, (start, min(end, until_ms))) for start, end in gone if start < until_ms]
    return shrunk


def _take_away(
    node_id: int,
    gpu_ids: list[int],
    span: Span,
    *,
    closed_ms: int,
    booked_at: datetime,
    did: dict[str, int],
) -> None:
    """Takes the time in the span out of runs, and as much of the same holder and state out of
    entries.

    Capacity ends with the GPU's last window there: after it everything is unobserved or
    unavailable, so a part that reaches into the span gives what it has of that.
    """
    taken: dict[Held, int] = defaultdict(int)
    gone = []
    for part in Run.objects.filter(gpu_id__in=gpu_ids, end_ms__gt=span[0], start_ms__lt=span[1]):
        left = _left_beside(part, span)
        for state, gpu_ms in part.state_ms.items():
            taken[part.gpu_id, part.job_id, state, part.start_ms // HOUR_MS * HOUR_MS] += (
                gpu_ms - left.get(state, 0)
            )
        if not left:
            gone.append(part.pk)
        else:
            # one that goes on behind the span keeps its ends: a part has no hole
            part.end_ms = (
                span[0] if part.start_ms < span[0] and part.end_ms <= span[1] else part.end_ms
            )
            part.state_ms = left
            part.save(update_fields=["end_ms", "state_ms"])
    Run.objects.filter(pk__in=gone).delete()
    did["runs"] += len(gone)
    for held, gpu_ms in taken.items():
        _take_from_entries(node_id, held, gpu_ms, closed_ms=closed_ms, booked_at=booked_at, did=did)
    hours = {hour for (*_, hour), gpu_ms in taken.items() if gpu_ms}
    hour_rows.count_versions(node_id, [hour for hour in hours if hour + HOUR_MS > closed_ms])
    did["changed"] += len(hours)


def _left_beside(part: Run, span: Span) -> dict[str, int]:
    """What the part holds outside the span."""
    if span[0] <= part.start_ms and part.end_ms <= span[1]:
        return {}
    inside_ms = min(part.end_ms, span[1]) - max(part.start_ms, span[0])
    beyond = sum(part.state_ms.values()) * inside_ms // (part.end_ms - part.start_ms)
    left = dict(part.state_ms)
    for state in ("unobserved", "unavailable"):
        less = min(beyond, left.get(state, 0))
        left[state] = left.get(state, 0) - less
        beyond -= less
    return {state: gpu_ms for state, gpu_ms in left.items() if gpu_ms}


def _take_from_entries(
    node_id: int,
    held: Held,
    gpu_ms: int,
    *,
    closed_ms: int,
    booked_at: datetime,
    did: dict[str, int],
) -> None:
    """Less time of that holder and state in the hour: the latest cut first, what no window told
    first.
    """
    gpu_id, job_id, state, hour = held
    whose = Q(job__isnull=True) if job_id is None else Q(job_id=job_id)
    rows = Entry.objects.filter(
        whose,
        gpu_id=gpu_id,
        state=state,
        start__gte=from_ms(hour),
        start__lt=from_ms(hour + HOUR_MS),
    )
    booked: list[hour_rows.Row] = []
    for row in sorted(
        rows, key=lambda one: (-to_ms(one.start), one.reason not in ("missing", "silent"), one.pk)
    ):
        less = min(gpu_ms, row.gpu_ms)
        if less and to_ms(row.start) < closed_ms:
            facts = [getattr(row, name) for name in hour_rows.ENTRY_COLUMNS[:-2]]
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
