"""Writes of the ledger: hours that changed are judged again, whole, with all they touch."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import cache, partial
from zoneinfo import ZoneInfo

import structlog
from django.db import transaction
from django.db.models import Max, Min
from django.db.models.functions import Greatest

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.selectors import zone
from fleetwatch.inventory.extents import changed as changed_time
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.ledger import hour_cuts, hour_rows, judgement_inputs
from fleetwatch.ledger.judgement.observations import FOREVER_MS, spans_by_gpu
from fleetwatch.ledger.judgement_inputs import CapacityRows, NodeFacts, posted_outages
from fleetwatch.ledger.models import Policy as PolicyRow
from fleetwatch.ledger.models import Posted
from fleetwatch.ledger.months import adjustments, closing, final, policy_plan
from fleetwatch.ledger.months.adjustments import Books
from fleetwatch.ledger.months.policy_plan import Frontier, Piece
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.selectors import current_policy, longest_reach_ms
from fleetwatch.lib.intervals import EPOCH, HOUR_MS, ceil_hour_ms, from_ms, to_ms
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.lib.spans import Span
from fleetwatch.telemetry import retention
from fleetwatch.telemetry.services import claim_touched, release_touched, touch_hours

# Hours claimed in one transaction: long enough to share context, short enough to lose little when
# killed.
HOURS_PER_TRANSACTION = 48
# Hours judged in one pass: bounds memory (8 GPUs x 24 h are 69,000 windows).
HOURS_PER_PASS = 24
# What a posting says of itself.
DONE = ("hours", "nodes", "changed", "entries", "runs", "late", "adjustments")

log = structlog.get_logger(__name__)


class PostingError(Exception):
    """Some nodes could not be posted; their hours wait, behind all others."""


def post(now: datetime, limit: int) -> dict[str, int]:
    """How many claimed hours, nodes, changed hours, entries and parts of runs were posted; at most
    `limit` hours are claimed.

    Safe twice, late and in parallel: hours are claimed by node, recomputed whole and
    released in one transaction. `late`: hours too old to be judged again (their columns are gone).
    Raises PostingError at the end when a node failed; it keeps no other from being posted.
    """
    did = Counter(dict.fromkeys(DONE, 0))
    failures: dict[int, Exception] = {}
    while did["hours"] < limit:
        posted = _post_next(limit - did["hours"], failures, now=now)
        if not posted:
            break
        did.update(posted)
    if failures:
        node_id, error = next(iter(failures.items()))
        raise PostingError(
            f"{len(failures)} nodes could not be posted; node {node_id}: {error}"
        ) from error
    return did


@transaction.atomic
def _post_next(limit: int, failures: dict[int, Exception], *, now: datetime) -> Counter[str]:
    """Of the hours that wait longest, at most so many; nothing where none wait but of nodes that
    failed before.
    """
    closing.keep_open()
    claims = claim_touched(min(HOURS_PER_TRANSACTION, limit))
    by_node: dict[int, list[int]] = defaultdict(list)
    for node_id, hour, _ in claims:
        by_node[node_id].append(to_ms(hour))
    if by_node.keys() <= failures.keys():
        return Counter()
    did = Counter(hours=len(claims), nodes=len(by_node))
    context = _context(by_node)
    for node in context.nodes:
        _post_or_put_back(node, by_node[node.pk], context, now=now, did=did, failures=failures)
    release_touched([mark for _, _, marks in claims for mark in marks])
    return did


@dataclass(frozen=True, slots=True)
class _Context:
    """The nodes of a transaction, what is known of their GPUs, and what they are posted by.

    `reach_ms`: how far a change may reach.
    """

    nodes: list[Node]
    capacity_rows: CapacityRows
    posted: dict[int, dict[int, Posted]]
    policy_id: int
    policy: Policy
    closed: Frontier
    reach_ms: int
    zone: ZoneInfo

    def facts(self, node: Node, hours: Iterable[int]) -> NodeFacts:
        """What is known of the node's GPUs, of whose windows none before these hours changed since
        the last posting.
        """
        return judgement_inputs.node_facts(
            node,
            self.policy,
            self.zone,
            self.capacity_rows,
            posted=self.posted[node.pk].values(),
            unchanged_ms=min(hours) - 2 * HOUR_MS,
        )


def _context(node_ids: Collection[int]) -> _Context:
    """Read after the claim: what changes later marks its hours anew."""
    rows = Node.objects.in_bulk(node_ids)
    nodes = [rows[node_id] for node_id in node_ids if node_id in rows]
    posted: dict[int, dict[int, Posted]] = defaultdict(dict)
    for row in Posted.objects.filter(gpu__node__in=node_ids).select_related("gpu"):
        posted[row.gpu.node_id][row.gpu_id] = row
    policy_id, policy = current_policy()
    closed = policy_plan.frontier()
    return _Context(
        nodes,
        judgement_inputs.capacity_rows(nodes),
        posted,
        policy_id,
        policy,
        closed,
        # closed hours are judged by their own policies, which may reach farther
        reach_ms=longest_reach_ms() if closed.months else policy.reach_ms,
        zone=zone(),
    )


def _post_or_put_back(
    node: Node,
    hours: list[int],
    context: _Context,
    *,
    now: datetime,
    did: Counter[str],
    failures: dict[int, Exception],
) -> None:
    """Posts a node's hours, or leaves them as they were and marks them anew: a node that can't be
    posted goes to the end of the queue.
    """
    try:
        with transaction.atomic():
            did.update(_post_node(node, hours, context, now=now))
    except Exception as error:
        log.exception("node not posted", node_id=node.pk, hours=len(hours))
        failures[node.pk] = error
        touch_hours(node.pk, [(hour, hour + HOUR_MS) for hour in hours])


def repost(start_ms: int, end_ms: int) -> int:
    """How many hours of all nodes were marked to be judged again."""
    return sum(
        touch_hours(node_id, [(start_ms, end_ms)])
        for node_id in Node.objects.order_by("pk").values_list("pk", flat=True)
    )


def repost_start(day: date, *, now: datetime) -> int:
    """The midnight (UTC) of the day, in ms, where a new policy can begin.

    Raises RefusedFieldError within a closed month.
    """
    start_ms = to_ms(datetime.combine(day, time(), tzinfo=UTC))
    until_ms = policy_plan.frontier().until_ms
    if start_ms < until_ms:
        raise RefusedFieldError(
            f"months before {from_ms(until_ms):%Y-%m-%d %H:%M} UTC are closed and keep their"
            " policy: repost from then on"
        )
    return max(start_ms, to_ms(retention.horizon(now)))


def repost_since(start_ms: int) -> int:
    """How many hours of nodes were marked, from then to where each node's capacity ends for now."""
    nodes = (
        Node.objects.annotate(until_ms=Greatest("last_ms", "silent_ms"))
        .filter(until_ms__gt=start_ms)
        .order_by("pk")
    )
    return sum(
        touch_hours(node_id, [(start_ms, until_ms)])
        for node_id, until_ms in nodes.values_list("pk", "until_ms")
    )


def repost_all(now: datetime) -> int:
    """How many hours were marked, of all that GPUs were capacity and whose columns are kept: after
    another time zone.
    """
    rows = (
        GPU.objects.filter(first_ms__isnull=False, node__last_ms__isnull=False)
        .values_list("node_id")
        .order_by()
    )
    spans = rows.annotate(
        first=Min("first_ms"), until=Max(Greatest("node__last_ms", "node__silent_ms"))
    )
    return sum(
        touch_hours(node_id, [(first_ms, until_ms)], received_at=now)
        for node_id, first_ms, until_ms in spans
    )


def set_policy(policy: Policy, *, now: datetime) -> PolicyRow:
    """The new policy's row: the next version. What is posted from now on is judged by it, but
    closed months; nothing is judged again.

    Raises RefusedFieldError for a policy that judges by more of the past than is kept.
    """
    if policy.reach_ms > to_ms(EPOCH + retention.CONTEXT):
        raise RefusedFieldError(
            f"a quiet run of {policy.reach_ms // 1000} s reaches farther than the columns that are"
            " kept beside it"
        )
    with transaction.atomic():
        newest = PolicyRow.objects.select_for_update().order_by("-version").first()
        version = 1 if newest is None else newest.version + 1
        record("policy.set", f"version {version}")
        return PolicyRow.objects.create(
            version=version, thresholds=policy.to_json(), created_at=now
        )


def _post_node(node: Node, hours: list[int], context: _Context, *, now: datetime) -> Counter[str]:
    """Posts the hours of one node, and those that what changed in them reaches."""
    oldest_ms = _oldest_ms(now, context.reach_ms)
    posted = context.posted[node.pk]
    facts = context.facts(node, hours)
    granted = _granted(facts)
    changed = _changed_since(posted, granted)
    bounds = _bounds([*posted.values(), *granted], oldest_ms)
    pieces = _pieces(node.pk, hours, changed, context, within=bounds)
    books = adjustments.books(node.pk, context.policy_id, context.closed, now=now)
    did = _post_pieces(pieces, node, facts, context, books)
    did.update(late=sum(hour < oldest_ms for hour in hours))
    did.update(final.write(books, facts, context.policy, posted, until_ms=oldest_ms))
    _remember(granted, posted)
    return did


def _bounds(capacity: Iterable[Posted], oldest_ms: int) -> Span:
    """From when to when some GPU is or was capacity, in hours that can still be judged."""
    spans = [span for row in capacity for span in row.spans]
    first_ms = min((start for start, _ in spans), default=oldest_ms)
    return max(first_ms, oldest_ms), max((end for _, end in spans), default=oldest_ms)


def _pieces(
    node_id: int, hours: Iterable[int], changed: Iterable[Span], context: _Context, *, within: Span
) -> list[Piece]:
    """What is judged differently within reach of these hours and of what else changed."""
    spans = [*changed, *((hour, hour + HOUR_MS) for hour in hours)]
    reached = [(start - context.reach_ms, end + context.reach_ms) for start, end in spans]
    return policy_plan.to_post(
        node_id,
        hour_cuts.hours_touching(reached, within=within),
        policy_id=context.policy_id,
        closed=context.closed,
        at_most=HOURS_PER_PASS,
    )


def _post_pieces(
    pieces: Iterable[Piece], node: Node, facts: NodeFacts, context: _Context, books: Books
) -> Counter[str]:
    """How much of the pieces changed."""
    did: Counter[str] = Counter()
    earlier = cache(partial(judgement_inputs.facts_by, node, context.zone))
    for piece in pieces:
        is_current = piece.policy_id == context.policy_id
        own = (context.policy, facts) if is_current else earlier(piece.policy_id)
        did.update(_post_piece(piece, *own, books))
    return did


def _post_piece(piece: Piece, policy: Policy, facts: NodeFacts, books: Books) -> dict[str, int]:
    """How much of the piece changed: of a closed month as adjustments."""
    judged = judgement_inputs.judge(facts, *piece.hours, policy)
    if piece.is_closed:
        return adjustments.book(books.node_id, piece, judged, booked_at=books.booked_at)
    span = (piece.start_ms, piece.end_ms)
    return hour_rows.replace(books.node_id, *span, judged, policy_id=books.policy_id)


def _oldest_ms(now: datetime, reach_ms: int) -> int:
    """The first hour that can still be judged: it and its context still have their columns.

    Hours that become final (retention.horizon) while they wait are posted all the same, for most of
    retention.CONTEXT.
    """
    return to_ms(retention.columns_since(now)) + ceil_hour_ms(reach_ms)


def _granted(facts: NodeFacts) -> list[Posted]:
    """What is taken for granted of each GPU, as its row keeps it."""
    return [
        Posted(
            gpu_id=gpu_id,
            spans=[list(span) for span in spans],
            outages=[
                [
                    outage.start_ms,
                    None if outage.end_ms >= FOREVER_MS else outage.end_ms,
                    outage.reason,
                    outage.is_revived,
                ]
                for outage in facts.outages.get(gpu_id, [])
            ],
        )
        for gpu_id, spans in spans_by_gpu(facts.capacities).items()
    ]


def _changed_since(posted: Mapping[int, Posted], granted: Iterable[Posted]) -> list[Span]:
    """The time in which some GPU's capacity or unavailability is not what the last posting took it
    for.
    """
    return [
        span for row in granted for span in _changed(posted.get(row.gpu_id, Posted(spans=[])), row)
    ]


def _changed(before: Posted, after: Posted) -> list[Span]:
    """The same of one GPU."""
    changed = changed_time(*map(final.posted_spans, (before, after)))
    was, now = (
        {(outage.start_ms, outage.reason): outage.end_ms for outage in posted_outages(row)}
        for row in (before, after)
    )
    for outage in was.keys() | now.keys():
        # of what was no outage it had ended as it began
        ends = [end_ms.get(outage, outage[0]) for end_ms in (was, now)]
        if len(set(ends)) > 1:
            changed.append((min(ends), max(ends)))
    return changed


def _remember(granted: Iterable[Posted], posted: Mapping[int, Posted]) -> None:
    before = {gpu_id: (row.spans, row.outages) for gpu_id, row in posted.items()}
    Posted.objects.bulk_create(
        [row for row in granted if (row.spans, row.outages) != before.get(row.gpu_id)],
        update_conflicts=True,
        unique_fields=["gpu"],
        update_fields=["spans", "outages"],
    )
