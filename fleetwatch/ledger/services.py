"""Writes of the ledger: hours that changed are judged again, whole, with all they touch."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, partial
from zoneinfo import ZoneInfo

import structlog
from django.db import transaction
from django.db.models import Max, Min
from django.db.models.functions import Greatest

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.selectors import zone
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.ledger import hour_cuts, hour_rows, judgement_inputs, posted_gpus
from fleetwatch.ledger.judgement.observations import Judgement
from fleetwatch.ledger.judgement_inputs import FactRows, NodeFacts
from fleetwatch.ledger.models import Policy as PolicyRow
from fleetwatch.ledger.months import adjustments, closing, final, policy_plan
from fleetwatch.ledger.months.adjustments import Books
from fleetwatch.ledger.months.policy_plan import Frontier, Piece
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.posted_gpus import Granted
from fleetwatch.ledger.selectors import longest_reach_ms, newest_policy
from fleetwatch.lib.intervals import (
    HOUR_MS,
    ceil_hour_ms,
    floor_hour,
    floor_hour_ms,
    from_ms,
    ms_in,
    to_ms,
)
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.lib.spans import Span
from fleetwatch.telemetry import retention
from fleetwatch.telemetry.services import Claim, claim_touched, release_touched, touch_hours

# Nodes posted in one transaction: they share statements, and what little a kill undoes.
NODES_AT_ONCE = 32
# Hours claimed in it: a day of each, some seconds of work.
HOURS_AT_ONCE = NODES_AT_ONCE * 24
# Hours of one node judged at once: they bound memory (8 GPUs x 24 h are 69,000 windows).
HOURS_PER_PIECE = 24
# Of all nodes of a group hours that are written together: what is judged of them is in memory.
HOURS_WRITTEN = 8 * HOURS_PER_PIECE
AT_ONCE = timedelta()
# What a posting says of itself; `alone`: nodes that were posted one by one, after several failed
# together.
DONE = ("hours", "nodes", "changed", "entries", "runs", "late", "adjustments", "alone")

JudgeNodes = Callable[[Sequence[NodeFacts], int, int, Policy], dict[int, Judgement]]

log = structlog.get_logger(__name__)


class PostingError(Exception):
    """Some nodes could not be posted; their hours wait, behind all others."""


@dataclass(frozen=True, slots=True)
class _Context:
    """Nodes, what is known of their GPUs, and what they are posted by.

    `reach_ms`: how far a change may reach.
    """

    nodes: list[Node]
    rows: FactRows
    posted: dict[int, dict[int, Granted]]
    policy_id: int
    policy: Policy
    policy_ms: int  # since when; the first one: always
    closed: Frontier
    reach_ms: int
    zone: ZoneInfo

    def facts(self, node: Node, touched: Iterable[Span]) -> NodeFacts:
        """What is known of the node's GPUs, of whose windows none changed before these spans since
        the last posting.
        """
        return judgement_inputs.node_facts(
            node,
            self.policy,
            self.zone,
            self.rows,
            posted=self.posted[node.pk].values(),
            unchanged_ms=min(start_ms for start_ms, _ in touched),
        )


def post(now: datetime, limit: int, *, open_hour_each: timedelta = AT_ONCE) -> dict[str, int]:
    """How many claimed hours, nodes, changed hours, entries and parts of runs were posted; at most
    `limit` hours are claimed.

    The hour that goes on waits until its node was posted `open_hour_each` ago. Safe twice, late and
    in parallel: hours are claimed by node, recomputed whole and released in one transaction.
    `late`: hours too old to be judged again (their columns are gone). Raises PostingError at the
    end when a node failed; it keeps no other from being posted.
    """
    did = Counter(dict.fromkeys(DONE, 0))
    failures: dict[int, Exception] = {}
    while did["hours"] < limit:
        posted = _post_next(limit - did["hours"], failures, now=now, before=now - open_hour_each)
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
def _post_next(
    limit: int, failures: dict[int, Exception], *, now: datetime, before: datetime
) -> Counter[str]:
    """Of the hours that wait longest, at most so many; nothing where none wait but of nodes that
    failed before.
    """
    closing.keep_open()
    claims = claim_touched(
        min(HOURS_AT_ONCE, limit),
        nodes=NODES_AT_ONCE,
        this_hour=floor_hour(now),
        posted_before=before,
    )
    if claims.keys() <= failures.keys():
        return Counter()
    context = _read_context(claims)
    touched = {node: _touched(claims[node.pk]) for node in context.nodes}
    did = Counter(hours=sum(map(len, claims.values())), nodes=len(claims))
    did.update(_post_nodes(touched, context, now=now, failures=failures))
    release_touched(claims, posted_at=now)
    return did


def _touched(hours: Mapping[datetime, Claim]) -> list[Span]:
    """What of each claimed hour may have changed: to its end, or beyond."""
    return [(claim.from_ms, to_ms(hour) + HOUR_MS) for hour, claim in hours.items()]


def _post_nodes(
    touched: Mapping[Node, Sequence[Span]],
    context: _Context,
    *,
    now: datetime,
    failures: dict[int, Exception],
) -> Counter[str]:
    """Posts the nodes together; where that fails one by one, so that a bad one keeps no other. One
    that fails alone goes to the end of the queue: its hours stay as they were, marked anew.
    """
    try:
        with transaction.atomic():
            return _post_group(touched, context, now=now)
    except Exception as error:
        if len(touched) > 1:
            log.warning("nodes are posted one by one", nodes=len(touched), error=str(error))
            did = Counter(alone=len(touched))
            for node, of_node in touched.items():
                did.update(_post_nodes({node: of_node}, context, now=now, failures=failures))
            return did
        ((node, of_node),) = touched.items()
        log.exception("node not posted", node_id=node.pk, hours=len(of_node))
        failures[node.pk] = error
        touch_hours(node.pk, of_node)
        return Counter()


def _read_context(node_ids: Iterable[int]) -> _Context:
    """Read after the claim: what changes later marks its hours anew."""
    wanted = list(node_ids)
    rows = Node.objects.defer("labels", "agent").in_bulk(wanted)
    nodes = [rows[node_id] for node_id in wanted if node_id in rows]
    in_force = newest_policy()
    policy = Policy.from_json(in_force.thresholds)
    closed = policy_plan.frontier()
    return _Context(
        nodes,
        judgement_inputs.fact_rows(nodes),
        posted_gpus.read(wanted),
        in_force.pk,
        policy,
        0 if in_force.version == 1 else to_ms(in_force.created_at),
        closed,
        # closed hours are judged by their own policies, which may reach farther
        reach_ms=longest_reach_ms() if closed.months else policy.reach_ms,
        zone=zone(),
    )


@dataclass(frozen=True, slots=True)
class _Post:
    """What is posted of a node: the pieces, by what is known of it; and what it is then taken
    for. `newest`: the piece that it is enough to post, where it can be judged alone.
    """

    node: Node
    facts: NodeFacts
    granted: list[Granted]
    pieces: list[Piece]
    newest: Piece | None
    books: Books


def _post_group(
    touched: Mapping[Node, Sequence[Span]], context: _Context, *, now: datetime
) -> Counter[str]:
    """Posts the nodes' hours, and those that what changed in them reaches; how much changed."""
    oldest_ms = _oldest_ms(now, context.reach_ms)
    posts = [
        _planned(node, of_node, context, oldest_ms, now=now) for node, of_node in touched.items()
    ]
    hours = [floor_hour_ms(start_ms) for of_node in touched.values() for start_ms, _ in of_node]
    did = Counter(late=sum(hour < oldest_ms for hour in hours))
    did.update(_post_open(posts, context))
    for each in posts:
        did.update(_post_closed(each, context))
        posted = context.posted[each.node.pk]
        did.update(final.write(each.books, each.facts, context.policy, posted, until_ms=oldest_ms))
    _remember([row for each in posts for row in each.granted], context.posted)
    return did


def _planned(
    node: Node, touched: Sequence[Span], context: _Context, oldest_ms: int, *, now: datetime
) -> _Post:
    posted = context.posted[node.pk]
    facts = context.facts(node, touched)
    granted = posted_gpus.of_gpus(facts.capacities, facts.outages)
    changed = [*touched, *posted_gpus.changed_since(posted, granted)]
    changed_ms = min(start_ms for start_ms, _ in changed)
    bounds = _bounds([*posted.values(), *granted], oldest_ms)
    pieces = _pieces(node.pk, changed, context, within=bounds)
    newest = _newest(pieces, changed_ms, context, end_ms=ceil_hour_ms(bounds[1]))
    books = adjustments.books(node.pk, context.policy_id, context.closed, now=now)
    return _Post(node, replace(facts, changed_ms=changed_ms), granted, pieces, newest, books)


def _bounds(capacity: Iterable[Granted], oldest_ms: int) -> Span:
    """From when to when some GPU is or was capacity, in hours that can still be judged."""
    spans = [span for row in capacity for span in row.spans]
    first_ms = min((start for start, _ in spans), default=oldest_ms)
    return max(first_ms, oldest_ms), max((end for _, end in spans), default=oldest_ms)


def _pieces(
    node_id: int, changed: Iterable[Span], context: _Context, *, within: Span
) -> list[Piece]:
    """What may be judged differently: all within reach of what changed."""
    reached = [(start - context.reach_ms, end + context.reach_ms) for start, end in changed]
    return policy_plan.to_post(
        node_id,
        hour_cuts.hours_touching(reached, within=within),
        policy_id=context.policy_id,
        closed=context.closed,
        at_most=HOURS_PER_PIECE,
    )


def _newest(
    pieces: Sequence[Piece], changed_ms: int, context: _Context, *, end_ms: int
) -> Piece | None:
    """The hours from what changed to the end of the node's capacity; None where these are not less
    than all that it reaches, or where some of that was not judged by the policy in force.
    """
    start_ms = floor_hour_ms(changed_ms)
    hours_ms = sum(piece.end_ms - piece.start_ms for piece in pieces)
    is_less = start_ms < end_ms and end_ms - start_ms < hours_ms
    is_of_policy = context.policy_ms <= changed_ms - context.reach_ms - HOUR_MS
    if not is_less or not is_of_policy or start_ms < context.closed.until_ms:
        return None
    return Piece(start_ms, end_ms, context.policy_id, is_closed=False)


def _post_open(posts: Sequence[_Post], context: _Context) -> Counter[str]:
    """How much of the open pieces changed: of the newest alone, where it is enough to judge it."""
    newest = [(each.newest, each.facts) for each in posts if each.newest is not None]
    posted, did = _post_alike(newest, context, judgement_inputs.judge_alone)
    rest = [
        (piece, each.facts)
        for each in posts
        if each.node.pk not in posted
        for piece in each.pieces
        if not piece.is_closed
    ]
    _, of_rest = _post_alike(rest, context, judgement_inputs.judge_nodes)
    return did + of_rest


def _post_alike(
    pieces: Iterable[tuple[Piece, NodeFacts]], context: _Context, judge: JudgeNodes
) -> tuple[set[int], Counter[str]]:
    """The ids of the nodes that were judged, and how much changed; nodes with the same piece are
    judged and written together.
    """
    did: Counter[str] = Counter()
    posted: set[int] = set()
    for piece, several in _alike(pieces):
        judged = judge(several, *piece.hours, context.policy)
        span = (piece.start_ms, piece.end_ms)
        did.update(hour_rows.replace(judged, *span, policy_id=context.policy_id))
        posted |= judged.keys()
    return posted, did


def _alike(
    pieces: Iterable[tuple[Piece, NodeFacts]],
) -> Iterator[tuple[Piece, Sequence[NodeFacts]]]:
    """Each piece with nodes that have it, as many at once as are written together."""
    alike: dict[Piece, list[NodeFacts]] = defaultdict(list)
    for piece, facts in pieces:
        alike[piece].append(facts)
    for piece, several in alike.items():
        length_ms = piece.end_ms - piece.start_ms
        for some in judgement_inputs.portions(several, HOURS_WRITTEN, length_ms):
            yield piece, some


def _post_closed(post: _Post, context: _Context) -> Counter[str]:
    """How many adjustments of closed months were written, and what changed of their runs."""
    did: Counter[str] = Counter()
    earlier = cache(partial(judgement_inputs.facts_by, post.node, context.zone))
    for piece in post.pieces:
        if piece.is_closed:
            is_current = piece.policy_id == context.policy_id
            own = (context.policy, post.facts)
            policy, facts = own if is_current else earlier(piece.policy_id)
            judged = judgement_inputs.judge(facts, *piece.hours, policy)
            booked_at = post.books.booked_at
            did.update(adjustments.book(post.node.pk, piece, judged, booked_at=booked_at))
    return did


def _oldest_ms(now: datetime, reach_ms: int) -> int:
    """The first hour that can still be judged: it and its context still have their columns.

    Hours that become final (retention.horizon) while they wait are posted all the same, for most of
    retention.CONTEXT.
    """
    return to_ms(retention.columns_since(now)) + ceil_hour_ms(reach_ms)


def _remember(granted: Iterable[Granted], posted: Mapping[int, Mapping[int, Granted]]) -> None:
    before = {gpu_id: row for of_node in posted.values() for gpu_id, row in of_node.items()}
    posted_gpus.write(row for row in granted if row != before.get(row.gpu_id))


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
    if policy.reach_ms > ms_in(retention.CONTEXT):
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
