"""Every conservation rule, recomputed over the stored ledger: what does not balance, and by how
much.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
from django.db.models import Exists, F, Min, OuterRef, Q, Value
from django.db.models.functions import Coalesce

from fleetwatch.accounts.selectors import zone
from fleetwatch.inventory.models import Node
from fleetwatch.inventory.selectors import claimed_by
from fleetwatch.jobs.job_writes import MAX_SLUG
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import hour_cuts, hour_rows, judgement_inputs
from fleetwatch.ledger import retention as ledger_retention
from fleetwatch.ledger.judgement.observations import Capacity, Ints, Judgement, spans_by_gpu
from fleetwatch.ledger.models import Adjustment, ClosedMonth, Entry, Run
from fleetwatch.ledger.months import adjustments, policy_plan
from fleetwatch.ledger.policy import KINDS, STATES, TIERS
from fleetwatch.ledger.selectors import longest_reach_ms
from fleetwatch.lib.intervals import (
    HOUR_MS,
    ceil_hour,
    ceil_hour_ms,
    floor_hour,
    floor_hour_ms,
    from_ms,
    to_ms,
)
from fleetwatch.lib.spans import Span, clip, difference, length_ms
from fleetwatch.lib.sql import execute, read_statement
from fleetwatch.telemetry import frames, retention
from fleetwatch.telemetry.models import TouchedHour

HOURS_PER_PASS = 24

_SPENT = read_statement("ledger/sql/spent.sql")
_SPENT_TWICE = read_statement("ledger/sql/spent_twice.sql")
_CALLED_MISSING = read_statement("ledger/sql/called_missing.sql")
_RUNS_BESIDE_ENTRIES = read_statement("ledger/sql/runs_beside_entries.sql")


@dataclass(frozen=True, slots=True)
class Imbalance:
    """One thing that does not balance: where, which rule, and what was found."""

    rule: str
    node: str
    hour: datetime
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: node {self.node}, {self.hour:%Y-%m-%d %H:%M} UTC: {self.detail}"


def nodes() -> list[Node]:
    """Every node, in the order in which they are checked."""
    return list(Node.objects.order_by("name"))


def unbalanced_of(
    node: Node, start: datetime, end: datetime, *, now: datetime | None = None
) -> Iterator[Imbalance]:
    """What does not balance of the node in the clock hours of [start, end), a day at a time: the
    memory of one day.

    With `now`, hours whose columns still exist are judged afresh and compared too. Hours that wait
    to be posted are left out of what compares with telemetry: they are not wrong but late.
    """
    whole = _Span(
        node=node,
        gpus=judgement_inputs.capacities(node),
        start_ms=to_ms(floor_hour(start)),
        end_ms=to_ms(ceil_hour(end)),
        waiting=_waiting(node),
    )
    if not whole.gpus and not Entry.objects.filter(node=node).exists():
        return
    for span in whole.days():
        for rule in RULES:
            yield from rule(span)
    if now is not None:
        yield from _unlike_telemetry(whole, to_ms(retention.horizon(now) + timedelta(hours=6)))


def _waiting(node: Node) -> set[int]:
    hours = TouchedHour.objects.filter(node_id=node.pk).values_list("hour", flat=True)
    return set(map(to_ms, hours))


def _unlike_telemetry(whole: "_Span", kept_ms: int) -> Iterator[Imbalance]:
    """What is not as telemetry says it, of the hours whose columns, and all beside them, are kept:
    those from `kept_ms` on.
    """
    kept = replace(whole, start_ms=max(whole.start_ms, kept_ms))
    for span in kept.days():
        yield from _observed(span)
    yield from _judged_otherwise(kept)


def waiting_hours(start: datetime, end: datetime) -> int:
    """How many hours of nodes in [start, end) wait to be posted: what `unbalanced` says nothing
    about.
    """
    marks = TouchedHour.objects.filter(hour__gte=floor_hour(start), hour__lt=end)
    return marks.values("node_id", "hour").distinct().count()


def first_waiting_hour(end: datetime) -> datetime | None:
    """The first hour before then of which a node waits to be posted; None where none does."""
    first: datetime | None = TouchedHour.objects.filter(hour__lt=end).aggregate(first=Min("hour"))[
        "first"
    ]
    return first


def whole_ledger(now: datetime) -> tuple[datetime, datetime] | None:
    """From the first kept to the end of the last hour that the ledger or a GPU's capacity knows;
    None when there is none.
    """
    spans = [(gpu.start_ms, gpu.end_ms) for gpu in judgement_inputs.all_capacities()]
    first, last = execute("SELECT min(start), max(start) FROM ledger_entry")[0]
    if first is not None:
        spans.append((to_ms(first), to_ms(last) + 1))
    kept_ms = to_ms(ledger_retention.horizon(now))
    spans = [(max(start, kept_ms), end) for start, end in spans if end > kept_ms]
    if not spans:
        return None
    starts, ends = zip(*spans, strict=True)
    return floor_hour(from_ms(min(starts))), ceil_hour(from_ms(max(ends)))


@dataclass(frozen=True, slots=True)
class _Span:
    """Clock hours of a node, its GPUs, and which of its hours wait to be posted."""

    node: Node
    gpus: list[Capacity]
    start_ms: int
    end_ms: int
    waiting: set[int]

    def days(self) -> Iterator["_Span"]:
        """A day at a time."""
        for start_ms, end_ms in hour_cuts.passes(self.start_ms, self.end_ms, hours=HOURS_PER_PASS):
            yield replace(self, start_ms=start_ms, end_ms=end_ms)

    def bounds(self) -> dict[str, Any]:
        """The node and the hours, as statements take them."""
        start = from_ms(self.start_ms)
        return {"node": self.node.pk, "start": start, "end": from_ms(self.end_ms)}

    def fault(self, rule: str, at_ms: int, detail: str) -> Imbalance:
        return Imbalance(rule, self.node.name, from_ms(at_ms), detail)


def _capacity_is_spent(span: _Span) -> Iterator[Imbalance]:
    """Per physical GPU and cut, all states sum to its capacity exactly."""
    capacity = _capacity(span)
    spent = {
        (gpu_id, to_ms(start)): gpu_ms for gpu_id, start, gpu_ms in execute(_SPENT, span.bounds())
    }
    for gpu_id, cut in sorted(capacity.keys() | spent.keys()):
        total = spent.get((gpu_id, cut), 0)
        own = capacity.get((gpu_id, cut))
        if total == own or floor_hour_ms(cut) in span.waiting:
            continue
        if own is None:
            rule = "no time outside capacity"
            detail = f"{total} ms where there is no capacity or no cut"
        else:
            rule = "states sum to capacity"
            detail = f"{total} ms in states, {own} ms of capacity"
        yield span.fault(rule, cut, f"GPU {gpu_id}: {detail}")


def _capacity(span: _Span) -> dict[tuple[int, int], int]:
    """Of each physical GPU and cut the milliseconds of its capacity."""
    edges = hour_cuts.edges(span.start_ms, span.end_ms, zone()).tolist()
    whole = spans_by_gpu(gpu for gpu in span.gpus if gpu.parent_id is None)
    return {
        (gpu_id, cut): length_ms(clip(spans, cut, following))
        for gpu_id, spans in whole.items()
        for cut, following in pairwise(edges)
    }


@dataclass(frozen=True, slots=True)
class _RowRule:
    """What no entry or adjustment may be, and the words that say what one is."""

    rule: str
    model: type[Entry] | type[Adjustment]
    broken: Q
    words: str


# No negative time or energy (NaN is above all numbers), no unknown word; holders only where
# somebody can hold. Adjustments correct closed cuts alone, and say why.
_ROW_RULES = (
    _RowRule(
        "time and energy are positive",
        Entry,
        Q(gpu_ms__lte=0) | Q(energy_j__lt=0) | Q(energy_j__gte=inf),
        "entry {row.pk}: {row.gpu_ms} ms, {row.energy_j} J",
    ),
    _RowRule(
        "known words",
        Entry,
        ~Q(state__in=STATES, kind__in=("", *KINDS), tier__in=("", *TIERS)),
        "entry {row.pk}: {row.state} {row.kind} {row.tier}",
    ),
    _RowRule(
        "held time is its holder's",
        Entry,
        Q(job__isnull=False, state__in=("free", "orphaned")),
        "entry {row.pk}: {row.state} of job {row.job_id}",
    ),
    _RowRule(
        "adjustments correct closed months",
        Adjustment,
        Q(~Exists(ClosedMonth.objects.filter(end__gt=OuterRef("start")))),
        "adjustment {row.pk}: its month is open",
    ),
    _RowRule(
        "known words",
        Adjustment,
        ~Q(cause__in=adjustments.CAUSES, state__in=STATES)
        | Q(gpu_ms=0) & (Q(energy_j=None) | Q(energy_j=0)),
        "adjustment {row.pk}: {row.state} {row.cause} {row.gpu_ms} ms",
    ),
)


def _rows_are_possible(span: _Span) -> Iterator[Imbalance]:
    """Each row on its own is one that posting may write."""
    hours = {"start__gte": from_ms(span.start_ms), "start__lt": from_ms(span.end_ms)}
    for rule in _ROW_RULES:
        rows = rule.model._default_manager.filter(rule.broken, node=span.node, **hours)
        for row in rows.order_by("start", "pk").iterator():
            yield span.fault(rule.rule, to_ms(row.start), rule.words.format(row=row))


def _runs_lie_in_their_hour(span: _Span) -> Iterator[Imbalance]:
    """No run is reversed, leaves its hour or has an unknown condition."""
    next_hour_ms = F("cut_ms") - F("cut_ms") % HOUR_MS + HOUR_MS
    parts = Run.objects.filter(
        Q(start_ms__lt=F("cut_ms"))
        | Q(end_ms__lte=F("start_ms"))
        | Q(end_ms__gt=next_hour_ms)
        | Q(condition=None),
        node=span.node,
        cut_ms__gte=span.start_ms,
        cut_ms__lt=span.end_ms,
    )
    for part in parts.order_by("start_ms", "pk").iterator():
        yield span.fault(
            "runs lie in their hour",
            floor_hour_ms(part.start_ms),
            f"run {part.pk}: {part.condition} {part.start_ms} to {part.end_ms}",
        )


def _runs_hold_the_entries(span: _Span) -> Iterator[Imbalance]:
    """Per GPU, holder, state and hour, the runs hold the milliseconds of entries and
    adjustments.
    """
    asked = span.bounds() | {
        "start_ms": span.start_ms,
        "end_ms": span.end_ms,
        "hour_ms": HOUR_MS,
        "states": list(STATES),
    }
    for gpu_id, job_id, state, hour, gpu_ms in execute(_RUNS_BESIDE_ENTRIES, asked):
        yield span.fault(
            "runs hold the entries",
            to_ms(hour),
            f"GPU {gpu_id}, job {job_id}, {state}: {gpu_ms} ms more in entries than in runs",
        )


RULES: tuple[Callable[[_Span], Iterator[Imbalance]], ...] = (
    _capacity_is_spent,
    _rows_are_possible,
    _runs_lie_in_their_hour,
    _runs_hold_the_entries,
)


def _observed(span: _Span) -> Iterator[Imbalance]:
    """No window is called missing, and each belongs to a stay of its GPU with the node, a believed
    or a disputed one.
    """
    windows = _windows(span)
    unseen = _unseen(span.gpus, windows)
    for gpu_id, start, missing_ms in execute(_CALLED_MISSING, span.bounds()):
        hour = to_ms(start)
        gpu_ms = missing_ms - length_ms(clip(unseen.get(gpu_id, []), hour, hour + HOUR_MS))
        if gpu_ms > 0 and hour not in span.waiting:
            yield span.fault(
                "what windows tell is not missing",
                hour,
                f"GPU {gpu_id}: {gpu_ms} ms are called missing, and windows cover them",
            )
    claimed = claimed_by(span.node)
    for gpu_id, spans in windows.items():
        for start_ms, end_ms in difference(spans, claimed.get(gpu_id, [])):
            yield span.fault(
                "every window has its stay",
                start_ms,
                f"GPU {gpu_id}: windows of {end_ms - start_ms} ms that no stay claims",
            )


def _windows(span: _Span) -> dict[int, list[Span]]:
    """GPU id -> the time of the span that its windows cover, by id."""
    frame = frames.read_windows(span.node.pk, span.start_ms, span.end_ms, ())
    gpu_ids, first = np.unique(frame.gpu_id, return_index=True)
    starts, ends = (np.split(column, first[1:]) for column in (frame.start_ms, frame.end_ms))
    return {
        gpu_id: clip(_covered(*of_gpu), span.start_ms, span.end_ms)
        for gpu_id, *of_gpu in zip(gpu_ids.tolist(), starts, ends, strict=False)
    }


def _covered(starts: Ints, ends: Ints) -> list[Span]:
    """The union of spans in order of their starts."""
    reach = np.maximum.accumulate(ends)
    first = np.flatnonzero(np.append(True, starts[1:] > reach[:-1]))
    last = np.append(first[1:], len(starts)) - 1
    return list(zip(starts[first].tolist(), reach[last].tolist(), strict=True))


def _unseen(
    gpus: Iterable[Capacity], windows: Mapping[int, Sequence[Span]]
) -> Mapping[int, list[Span]]:
    """Physical GPU id -> its capacity of which no window told, neither its own nor one of each of
    its instances.
    """
    covered: dict[int, list[Span]] = defaultdict(list)
    for gpu in gpus:
        for gpu_id in {gpu.gpu_id, gpu.whole_id}:
            covered[gpu_id] += windows.get(gpu.gpu_id, [])
    unseen: dict[int, list[Span]] = defaultdict(list)
    for gpu in gpus:
        unseen[gpu.whole_id] += difference([(gpu.start_ms, gpu.end_ms)], covered[gpu.gpu_id])
    return unseen


def spent_twice(start: datetime, end: datetime) -> Iterator[Imbalance]:
    """GPUs that have more time in a cut than an hour: they are billed on two nodes at once."""
    asked = {"start": floor_hour(start), "end": ceil_hour(end), "hour_ms": HOUR_MS}
    for uuid, cut, gpu_ms in execute(_SPENT_TWICE, asked):
        yield Imbalance(
            "one node at a time", "any", cut, f"GPU {uuid}: {gpu_ms} ms on all nodes together"
        )


def of_another_team(start: datetime) -> Iterator[Imbalance]:
    """Jobs whose team is not the one that their account names, whenever they ran; the hour is where
    the check begins.
    """
    jobs = (
        Job.objects.annotate(slug=Coalesce("team__slug", Value("")))
        .exclude(slug=F("account"))
        .order_by("key")
    )
    for key, account, slug in jobs.values_list("key", "account", "slug").iterator():
        named = account.strip()[:MAX_SLUG]
        if slug != named:
            detail = f"job {key}: team {slug!r}, its account names {named!r}"
            yield Imbalance("a job's team is its account's", "any", start, detail)


def _judged_otherwise(span: _Span) -> Iterator[Imbalance]:
    """Hours whose stored rows are not what a fresh judgement by their own policy says."""
    by_policy = cache(partial(judgement_inputs.facts_by, span.node, zone()))
    reach_ms = ceil_hour_ms(longest_reach_ms())
    near = {
        around
        for hour in span.waiting
        for around in range(hour - reach_ms, hour + reach_ms + HOUR_MS, HOUR_MS)
    }
    pieces = policy_plan.as_posted(
        span.node.pk,
        span.start_ms,
        span.end_ms,
        without=near,
        closed=policy_plan.frontier(),
        at_most=HOURS_PER_PASS,
    )
    for piece in pieces:
        policy, facts = by_policy(piece.policy_id)
        judged = judgement_inputs.judge(facts, *piece.hours, policy)
        for hour in sorted(_differing(span.node.pk, piece, judged)):
            yield span.fault(
                "entries are what telemetry says",
                hour,
                "a fresh judgement differs from what is stored",
            )


def _differing(node_id: int, piece: policy_plan.Piece, judged: Judgement) -> set[int]:
    """The clock hours of the piece whose entries (closed: with adjustments) or runs are not the
    judged ones.
    """
    bounds = (node_id, piece.start_ms, piece.end_ms)
    runs = hour_rows.changed_runs(*bounds, judged)
    if not piece.is_closed:
        return runs.keys() | hour_rows.changed_entries(*bounds, judged, piece.policy_id).keys()
    rows = adjustments.differences(node_id, piece, judged)
    return runs.keys() | {floor_hour_ms(to_ms(row[1])) for row in rows}
