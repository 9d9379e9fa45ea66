"""Every conservation rule, recomputed over the stored ledger: what does not balance, and by how
much.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import pairwise
from typing import TypeVar

from django.db.models import F, QuerySet, Value
from django.db.models.functions import Coalesce

from fleetwatch.accounts.selectors import zone
from fleetwatch.inventory.models import Node
from fleetwatch.jobs.job_writes import MAX_SLUG
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import hour_cuts, hour_rows, judgement_inputs, observed
from fleetwatch.ledger import retention as ledger_retention
from fleetwatch.ledger.judgement.observations import Capacity, Judgement, spans_by_gpu
from fleetwatch.ledger.models import Adjustment, Entry, Run
from fleetwatch.ledger.months import adjustments, policy_plan
from fleetwatch.ledger.policy import CONDITIONS, KINDS, STATES, TIERS
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
from fleetwatch.lib.spans import clip, length_ms
from fleetwatch.lib.sql import execute
from fleetwatch.telemetry import retention
from fleetwatch.telemetry.models import TouchedHour

HOURS_PER_PASS = 24
Row = TypeVar("Row", Entry, Adjustment)


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
    low = to_ms(floor_hour(start))
    high = to_ms(ceil_hour(end))
    gpus = judgement_inputs.capacities(node)
    if not gpus and not Entry.objects.filter(node=node).exists():
        return
    whole = _Span(node, gpus, low, high, _waiting(node))
    for span in whole.days():
        for rule in RULES:
            yield from rule(span)
    if now is not None:
        kept_ms = to_ms(retention.horizon(now) + timedelta(hours=6))
        kept = replace(whole, start_ms=max(low, kept_ms))
        for span in kept.days():
            yield from _observed(span)
        yield from _judged_otherwise(kept)


def _waiting(node: Node) -> set[int]:
    hours = TouchedHour.objects.filter(node_id=node.pk).values_list("hour", flat=True)
    return set(map(to_ms, hours))


def waiting_hours(start: datetime, end: datetime) -> int:
    """How many hours of nodes in [start, end) wait to be posted: what `unbalanced` says nothing
    about.
    """
    marks = TouchedHour.objects.filter(hour__gte=floor_hour(start), hour__lt=end)
    return marks.values("node_id", "hour").distinct().count()


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
    node: Node
    gpus: list[Capacity]
    start_ms: int
    end_ms: int
    waiting: set[int]

    def days(self) -> Iterator["_Span"]:
        """A day at a time."""
        for start_ms, end_ms in hour_cuts.passes(self.start_ms, self.end_ms, hours=HOURS_PER_PASS):
            yield replace(self, start_ms=start_ms, end_ms=end_ms)

    def rows(self, model: type[Row]) -> QuerySet[Row]:
        """The node's rows of these hours."""
        return model._default_manager.filter(
            node=self.node, start__gte=from_ms(self.start_ms), start__lt=from_ms(self.end_ms)
        )

    def fault(self, rule: str, at_ms: int, detail: str) -> Imbalance:
        return Imbalance(rule, self.node.name, from_ms(at_ms), detail)


def _spent(span: _Span) -> dict[tuple[int, int], int]:
    """(physical GPU, cut) -> milliseconds in all states, its instances' and adjustments' too."""
    rows = execute(
        "WITH spent AS (SELECT node_id, gpu_id, start, gpu_ms FROM ledger_entry"
        " UNION ALL SELECT node_id, gpu_id, start, gpu_ms FROM ledger_adjustment)"
        " SELECT coalesce(gpu.parent_id, gpu.id), spent.start, sum(spent.gpu_ms) FROM spent"
        " JOIN inventory_gpu AS gpu ON gpu.id = spent.gpu_id"
        " WHERE spent.node_id = %(node)s AND spent.start >= %(start)s AND spent.start < %(end)s"
        " GROUP BY 1, 2 HAVING sum(spent.gpu_ms) <> 0",
        {"node": span.node.pk, "start": from_ms(span.start_ms), "end": from_ms(span.end_ms)},
    )
    return {(gpu_id, to_ms(start)): int(total) for gpu_id, start, total in rows}


def _capacity_is_spent(span: _Span) -> Iterator[Imbalance]:
    """Per physical GPU and cut, all states sum to its capacity exactly."""
    edges = hour_cuts.edges(span.start_ms, span.end_ms, zone()).tolist()
    spent = _spent(span)
    for gpu_id, spans in spans_by_gpu(gpu for gpu in span.gpus if gpu.parent_id is None).items():
        for cut, following in pairwise(edges):
            capacity = length_ms(clip(spans, cut, following))
            total = spent.pop((gpu_id, cut), 0)
            if total != capacity and floor_hour_ms(cut) not in span.waiting:
                yield span.fault(
                    "states sum to capacity",
                    cut,
                    f"GPU {gpu_id}: {total} ms in states, {capacity} ms of capacity",
                )
    for (gpu_id, cut), total in spent.items():
        if floor_hour_ms(cut) not in span.waiting:
            yield span.fault(
                "no time outside capacity",
                cut,
                f"GPU {gpu_id}: {total} ms where there is no capacity or no cut",
            )


def _words_and_signs(span: _Span) -> Iterator[Imbalance]:
    """No negative time or energy, no unknown state, kind or tier; holders only where somebody can
    hold.
    """
    for row in span.rows(Entry).iterator():
        for rule, amiss in _amiss(row):
            yield span.fault(rule, to_ms(row.start), f"entry {row.pk}: {amiss}")


def _amiss(row: Entry) -> Iterator[tuple[str, str]]:
    """(rule, what breaks it) of one entry."""
    if row.gpu_ms <= 0 or (row.energy_j is not None and not 0 <= row.energy_j < float("inf")):
        yield "time and energy are positive", f"{row.gpu_ms} ms, {row.energy_j} J"
    if row.state not in STATES or row.kind not in ("", *KINDS) or row.tier not in ("", *TIERS):
        yield "known words", f"{row.state} {row.kind} {row.tier}"
    if row.job_id is not None and row.state in ("free", "orphaned"):
        yield "held time is its holder's", f"{row.state} of job {row.job_id}"


def _adjusted_in_closed_months(span: _Span) -> Iterator[Imbalance]:
    """Adjustments correct closed cuts alone, say why, and were booked after these were closed."""
    until_ms = policy_plan.frontier().until_ms
    for row in span.rows(Adjustment).iterator():
        if to_ms(row.start) >= until_ms:
            yield span.fault(
                "adjustments correct closed months",
                to_ms(row.start),
                f"adjustment {row.pk}: its month is open",
            )
        if (
            row.cause not in adjustments.CAUSES
            or row.state not in STATES
            or not (row.gpu_ms or row.energy_j)
        ):
            yield span.fault(
                "known words",
                to_ms(row.start),
                f"adjustment {row.pk}: {row.state} {row.cause} {row.gpu_ms} ms",
            )


def _run_parts(span: _Span) -> QuerySet[Run]:
    """The parts that begin in the span."""
    # the bounds on the end let the index be used; a part that lies beyond them leaves its entries
    # without runs
    ends = {"end_ms__gt": span.start_ms, "end_ms__lte": span.end_ms + HOUR_MS}
    return Run.objects.filter(
        node=span.node, start_ms__gte=span.start_ms, start_ms__lt=span.end_ms, **ends
    )


def _runs_match(span: _Span) -> Iterator[Imbalance]:
    """Per GPU, holder, state and hour, the runs hold the milliseconds of entries and adjustments;
    no run is reversed or leaves its hour.
    """
    sums = _milliseconds(span)
    for part in _run_parts(span).iterator():
        hour = floor_hour_ms(part.start_ms)
        if not part.start_ms < part.end_ms <= hour + HOUR_MS or part.condition not in CONDITIONS:
            yield span.fault(
                "runs lie in their hour",
                hour,
                f"run {part.pk}: {part.condition} {part.start_ms} to {part.end_ms}",
            )
        for state, gpu_ms in part.state_ms.items():
            sums[part.gpu_id, part.job_id, state, hour] -= gpu_ms
    for (gpu, job, name, hour), left in sums.items():
        if left:
            yield span.fault(
                "runs hold the entries",
                hour,
                f"GPU {gpu}, job {job}, {name}: {left} ms more in entries than in runs",
            )


def _milliseconds(span: _Span) -> Counter[tuple[int, int | None, str, int]]:
    """By GPU, holder, state and clock hour those of entries and adjustments."""
    sums: Counter[tuple[int, int | None, str, int]] = Counter()
    for rows in (span.rows(Entry), span.rows(Adjustment)):
        columns = rows.values_list("gpu_id", "job_id", "state", "start", "gpu_ms")
        for gpu_id, job_id, state, start, gpu_ms in columns.iterator():
            sums[gpu_id, job_id, state, floor_hour_ms(to_ms(start))] += gpu_ms
    return sums


RULES: tuple[Callable[[_Span], Iterator[Imbalance]], ...] = (
    _capacity_is_spent,
    _words_and_signs,
    _adjusted_in_closed_months,
    _runs_match,
)


def _observed(span: _Span) -> Iterator[Imbalance]:
    """No window is called missing, and each belongs to a stay of its GPU with the node."""
    windows = observed.read_windows(span.node.pk, span.start_ms, span.end_ms)
    for gpu_id, hour, gpu_ms in observed.seen_but_missing(
        span.node, span.gpus, windows, span.start_ms, span.end_ms
    ):
        if hour not in span.waiting:
            yield span.fault(
                "what windows tell is not missing",
                hour,
                f"GPU {gpu_id}: {gpu_ms} ms are called missing, and windows cover them",
            )
    for gpu_id, (start_ms, end_ms) in observed.unclaimed(span.node, windows):
        yield span.fault(
            "every window has its stay",
            start_ms,
            f"GPU {gpu_id}: windows of {end_ms - start_ms} ms that no stay claims",
        )


def spent_twice(start: datetime, end: datetime) -> Iterator[Imbalance]:
    """GPUs that are billed on two nodes at once."""
    for uuid, cut, gpu_ms in observed.spent_twice(floor_hour(start), ceil_hour(end)):
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
