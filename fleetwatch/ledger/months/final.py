"""Hours that can't be judged again, because their columns are gone: entries stay, but where
capacity itself changed.

A node that was silent for longer than columns are kept and comes back was capacity all the time:
the time is written as a judgement without windows has it. A GPU that did not come back with it
is retired as of when it was last seen: the time is taken away again.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from django.db.models import Q

from fleetwatch.ledger import hour_rows, judgement_inputs, run_rows
from fleetwatch.ledger.judgement.observations import Capacity, Judgement, spans_by_gpu
from fleetwatch.ledger.judgement_inputs import NodeFacts
from fleetwatch.ledger.models import Entry, Posted, Run
from fleetwatch.ledger.months import adjustments
from fleetwatch.ledger.months.adjustments import Books
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.lib.spans import Span, clip, difference

HOURS_PER_PASS = 24 * 7  # without windows
# (GPU, holder, state, clock hour)
Held = tuple[int, int | None, str, int]


def write(
    books: Books,
    facts: NodeFacts,
    policy: Policy,
    posted: Mapping[int, Posted],
    *,
    until_ms: int,
) -> dict[str, int]:
    """How many hours, entries, parts of runs and adjustments changed before `until_ms`, because
    capacity did since it was last posted.
    """
    did: Counter[str] = Counter()
    if grown := _grown(facts.capacities, posted, until_ms):
        grown_facts = replace(facts, capacities=grown)
        low = min(capacity.start_ms for capacity in grown) // HOUR_MS * HOUR_MS
        high = -(-max(capacity.end_ms for capacity in grown) // HOUR_MS) * HOUR_MS
        for start in range(low, high, HOURS_PER_PASS * HOUR_MS):
            end = min(start + HOURS_PER_PASS * HOUR_MS, high)
            judged = judgement_inputs.judge_unseen(grown_facts, start, end, policy)
            did.update(_append(books, (start, end), judged))
    for gpu_ids, span in _shrunk(facts.capacities, posted, until_ms):
        did.update(_take_away(books, gpu_ids, span))
    return did


def _grown(
    capacities: Sequence[Capacity], posted: Mapping[int, Posted], until_ms: int
) -> list[Capacity]:
    """GPUs (with their instances) over capacity before `until_ms` that nothing was posted for."""
    grown: list[Capacity] = []
    whole = spans_by_gpu(capacity for capacity in capacities if capacity.parent_id is None)
    for capacity in capacities:
        gpu_id = capacity.gpu_id if capacity.parent_id is None else capacity.parent_id
        new = difference(whole.get(gpu_id, []), _posted_spans(posted.get(gpu_id)))
        for start, end in clip(new, capacity.start_ms, min(capacity.end_ms, until_ms)):
            grown.append(replace(capacity, start_ms=start, end_ms=end))
    return grown


def _posted_spans(row: Posted | None) -> list[Span]:
    return [] if row is None else [(start, end) for start, end in row.spans]


def _append(books: Books, span: Span, judged: Judgement) -> dict[str, int]:
    """Writes what was judged beside what is there: adjustments where closed, entries elsewhere,
    parts of runs in any case.
    """
    start, end = span
    is_open = (max(start, books.closed_ms), end)
    is_closed = (start, max(start, min(end, books.closed_ms)))
    entries = hour_rows.entry_lines(judged, books.policy_id, within=is_open)
    booked = hour_rows.entry_rows(judged, books.policy_id, within=is_closed)
    parts = run_rows.by_hour(run_rows.judged_rows(judged, within=span))
    hour_rows.append(books.node_id, entries, parts)
    corrections = [row for rows in booked.values() for row in rows]
    adjustments.write(books.node_id, corrections, booked_at=books.booked_at)
    return {
        "changed": len(parts),
        "runs": sum(map(len, parts.values())),
        "entries": sum(map(len, entries.values())),
        "adjustments": len(corrections),
    }


def _shrunk(
    capacities: Sequence[Capacity], posted: Mapping[int, Posted], until_ms: int
) -> list[tuple[list[int], Span]]:
    """(a GPU and its instances, time before `until_ms` that is no longer its capacity) where less
    is than was posted.
    """
    whole = spans_by_gpu(capacity for capacity in capacities if capacity.parent_id is None)
    shrunk: list[tuple[list[int], Span]] = []
    for gpu_id, spans in whole.items():
        instances = {part.gpu_id for part in capacities if part.parent_id == gpu_id}
        gone = difference(_posted_spans(posted.get(gpu_id)), spans)
        gpu_ids = [gpu_id, *instances]
        shrunk += [
            (gpu_ids, (start, min(end, until_ms))) for start, end in gone if start < until_ms
        ]
    return shrunk


def _take_away(books: Books, gpu_ids: list[int], span: Span) -> dict[str, int]:
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
    did: Counter[str] = Counter(runs=len(gone))
    for held, gpu_ms in taken.items():
        did.update(_take_from_entries(books, held, gpu_ms))
    hours = {hour for (*_, hour), gpu_ms in taken.items() if gpu_ms}
    hour_rows.count_versions(
        books.node_id, [hour for hour in hours if hour + HOUR_MS > books.closed_ms]
    )
    return did + Counter(changed=len(hours))


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


def _take_from_entries(books: Books, held: Held, gpu_ms: int) -> dict[str, int]:
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
    entries = 0
    for row in sorted(
        rows, key=lambda row: (-to_ms(row.start), row.reason not in ("missing", "silent"), row.pk)
    ):
        less = min(gpu_ms, row.gpu_ms)
        if less == 0:
            continue
        if to_ms(row.start) < books.closed_ms:
            facts = [getattr(row, name) for name in hour_rows.ENTRY_COLUMNS[:-2]]
            booked.append((*facts, -less, None if row.energy_j is None else 0.0))
        elif less == row.gpu_ms:
            row.delete()
        else:
            row.gpu_ms -= less
            row.save(update_fields=["gpu_ms"])
        entries += 1
        gpu_ms -= less
    adjustments.write(books.node_id, booked, booked_at=books.booked_at)
    return {"entries": entries, "adjustments": len(booked)}
