"""Hours that can't be judged again, because their columns are gone: entries stay, but where
capacity itself changed.

A node that was silent for longer than columns are kept and comes back was capacity all the time:
the time is written as a judgement without windows has it. A GPU that did not come back with it
is retired as of when it was last seen: the time is taken away again.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace

from django.db.models import Q

from fleetwatch.ledger import hour_rows, judgement_inputs, run_rows
from fleetwatch.ledger.hour_cuts import passes
from fleetwatch.ledger.judgement.observations import Capacity, Judgement, spans_by_gpu
from fleetwatch.ledger.judgement_inputs import NodeFacts
from fleetwatch.ledger.models import Entry, HourRuns, Run
from fleetwatch.ledger.months import adjustments
from fleetwatch.ledger.months.adjustments import Books
from fleetwatch.ledger.months.policy_plan import NEVER_MS
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.posted_gpus import Granted
from fleetwatch.lib.intervals import HOUR_MS, ceil_hour_ms, floor_hour_ms, from_ms, to_ms
from fleetwatch.lib.spans import Span, clip, difference

HOURS_PER_PASS = 24 * 7  # without windows
# (GPU, holder, state, clock hour)
Held = tuple[int, int | None, str, int]


def write(
    books: Books,
    facts: NodeFacts,
    policy: Policy,
    posted: Mapping[int, Granted],
    *,
    until_ms: int,
) -> dict[str, int]:
    """How many hours, entries, parts of runs and adjustments changed before `until_ms`, because
    capacity did since it was last posted.
    """
    did: Counter[str] = Counter()
    families = list(_families(facts.capacities, posted, until_ms))
    grown = [
        gpu
        for family, now, before in families
        for gpu in _within(family, difference(now, before), until_ms)
    ]
    if grown:
        did.update(_add(books, replace(facts, capacities=grown), policy))
    for family, now, before in families:
        for start, end in difference(before, now):
            if start < until_ms:
                gpu_ids = {gpu.gpu_id for gpu in family}
                did.update(_take_away(books, gpu_ids, (start, min(end, until_ms))))
    return did


def _families(
    capacities: Sequence[Capacity], posted: Mapping[int, Granted], until_ms: int
) -> Iterator[tuple[list[Capacity], Sequence[Span], Sequence[Span]]]:
    """Each physical GPU with its instances, and its capacity: now, and as it was last posted; where
    these differ before `until_ms`.
    """
    families: dict[int, list[Capacity]] = defaultdict(list)
    for gpu in capacities:
        families[gpu.whole_id].append(gpu)
    for gpu_id, now in spans_by_gpu(gpu for gpu in capacities if gpu.parent_id is None).items():
        before = posted[gpu_id].spans if gpu_id in posted else []
        if clip(now, NEVER_MS, until_ms) != clip(before, NEVER_MS, until_ms):
            yield families[gpu_id], now, before


def _add(books: Books, unseen: NodeFacts, policy: Policy) -> Counter[str]:
    """Appends these GPUs' capacity, of which no window tells any more."""
    did: Counter[str] = Counter()
    low = floor_hour_ms(min(gpu.start_ms for gpu in unseen.capacities))
    high = ceil_hour_ms(max(gpu.end_ms for gpu in unseen.capacities))
    for span in passes(low, high, hours=HOURS_PER_PASS):
        judged = judgement_inputs.judge_unseen(unseen, *span, policy)
        did.update(_append(books, span, judged))
    return did


def _within(family: Iterable[Capacity], spans: Sequence[Span], until_ms: int) -> list[Capacity]:
    """A GPU and its instances over what of their capacity lies in the spans, before `until_ms`."""
    return [
        replace(gpu, start_ms=start, end_ms=end)
        for gpu in family
        for start, end in clip(spans, gpu.start_ms, min(gpu.end_ms, until_ms))
    ]


def _append(books: Books, span: Span, judged: Judgement) -> dict[str, int]:
    """Writes what was judged beside what is there: adjustments where closed, entries elsewhere,
    parts of runs in any case.
    """
    open_ms = max(span[0], min(span[1], books.closed_ms))
    booked = hour_rows.entry_rows(judged, books.policy_id, within=(span[0], open_ms))
    entries = hour_rows.entry_lines(judged, books.policy_id, within=(open_ms, span[1]))
    runs = run_rows.judged_rows(judged, within=span)
    hour_rows.copy_entries({books.node_id: entries})
    run_rows.copy({books.node_id: runs})
    adjustments.write(books.node_id, booked, booked_at=books.booked_at)
    return {
        "changed": len(runs),
        "runs": run_rows.count_parts(runs),
        "entries": hour_rows.count(entries),
        "adjustments": len(booked),
    }


def _take_away(books: Books, gpu_ids: Collection[int], span: Span) -> Counter[str]:
    """Takes the time in the span out of runs, and as much of the same holder and state out of
    entries.

    Capacity ends with the GPU's last window there: after it everything is unobserved or
    unavailable, so a part that reaches into the span gives what it has of that.
    """
    less, gone = _take_from_runs(books.node_id, gpu_ids, span)
    hours = {hour for (*_, hour), gpu_ms in less.items() if gpu_ms}
    did = _take_from_entries(books, gpu_ids, span, less)
    is_open = [hour for hour in hours if hour + HOUR_MS > books.closed_ms]
    hour_rows.count_versions({books.node_id: is_open})
    return did | Counter(runs=gone, changed=len(hours))


def _take_from_runs(
    node_id: int, gpu_ids: Collection[int], span: Span
) -> tuple[Counter[Held], int]:
    """How many milliseconds were taken of whom, and how many parts are gone."""
    # whole cuts: their rows are written anew
    cuts = Q(gpu_id__in=gpu_ids, cut_ms__gt=span[0] - HOUR_MS, cut_ms__lt=span[1])
    parts = list(Run.objects.filter(cuts))
    left = [_beside(part, span) for part in parts]
    kept = [part for part in left if part.state_ms]
    HourRuns.objects.filter(cuts).delete()
    run_rows.copy({node_id: run_rows.rows(run_rows.as_parts(kept))})
    return _held(parts) - _held(left), len(parts) - len(kept)


def _held(parts: Iterable[Run]) -> Counter[Held]:
    held: Counter[Held] = Counter()
    for part in parts:
        for state, gpu_ms in part.state_ms.items():
            held[part.gpu_id, part.job_id, state, floor_hour_ms(part.start_ms)] += gpu_ms
    return held


def _beside(part: Run, span: Span) -> Run:
    """What of the part lies outside the span; without any time where nothing does."""
    inside_ms = min(part.end_ms, span[1]) - max(part.start_ms, span[0])
    if inside_ms <= 0:
        return part
    beside = copy(part)
    beside.state_ms = _less_unseen(part, inside_ms)
    # one that goes on behind the span keeps its ends: a part has no hole
    if part.start_ms < span[0] and part.end_ms <= span[1]:
        beside.end_ms = span[0]
    return beside


def _less_unseen(part: Run, inside_ms: int) -> dict[str, int]:
    """Its time by state without so much of its length, which is of what nobody saw."""
    length_ms = part.end_ms - part.start_ms
    if inside_ms == length_ms:
        return {}
    beyond = sum(part.state_ms.values()) * inside_ms // length_ms
    left = dict(part.state_ms)
    for state in ("unobserved", "unavailable"):
        less = min(beyond, left.get(state, 0))
        left[state] = left.get(state, 0) - less
        beyond -= less
    return {state: gpu_ms for state, gpu_ms in left.items() if gpu_ms}


def _take_from_entries(
    books: Books, gpu_ids: Collection[int], span: Span, less: Counter[Held]
) -> Counter[str]:
    """Less time of each holder and state in the hour: the latest cut first, what no window told
    first.
    """
    rows = Entry.objects.filter(
        gpu_id__in=gpu_ids,
        start__gte=from_ms(floor_hour_ms(span[0])),
        start__lt=from_ms(ceil_hour_ms(span[1])),
    )
    booked = []
    did: Counter[str] = Counter()
    for row, less_ms in _shares(rows, less):
        did["entries"] += 1
        if to_ms(row.start) < books.closed_ms:
            booked.append(_less(row, less_ms))
        else:
            _take_from(row, less_ms)
    adjustments.write(books.node_id, booked, booked_at=books.booked_at)
    did["adjustments"] += len(booked)
    return did


def _shares(rows: Iterable[Entry], less: Counter[Held]) -> Iterator[tuple[Entry, int]]:
    """How many milliseconds go of which entry."""
    for row in sorted(
        rows, key=lambda row: (-to_ms(row.start), row.reason not in ("missing", "silent"), row.pk)
    ):
        held = (row.gpu_id, row.job_id, row.state, floor_hour_ms(to_ms(row.start)))
        less_ms = min(less[held], row.gpu_ms)
        if less_ms:
            less[held] -= less_ms
            yield row, less_ms


def _less(row: Entry, less_ms: int) -> hour_rows.Row:
    """The adjustment that takes so many milliseconds of the entry, and no energy."""
    facts = [getattr(row, name) for name in hour_rows.ENTRY_COLUMNS[:-2]]
    return (*facts, -less_ms, None if row.energy_j is None else 0.0)


def _take_from(row: Entry, less_ms: int) -> None:
    row.gpu_ms -= less_ms
    if row.gpu_ms:
        row.save(update_fields=["gpu_ms"])
    else:
        row.delete()
