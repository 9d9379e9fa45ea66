"""From rows to what the pure core judges: capacity, outages, columns, holders of one node."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
from django.db.models import F
from django.db.models.functions import Coalesce

from fleetwatch.inventory.models import GPU, Node
from fleetwatch.inventory.selectors import departures_of_nodes, stays_of_nodes
from fleetwatch.inventory.stays import Reported, gone, joined
from fleetwatch.inventory.stays import capacity as capacity_spans
from fleetwatch.jobs.selectors import Holding, SourceSpans, holdings_of, source_status_of
from fleetwatch.ledger import hour_cuts
from fleetwatch.ledger.judgement import outages, states
from fleetwatch.ledger.judgement.observations import (
    COLUMNS,
    FOREVER_MS,
    Capacity,
    Judgement,
    NodeContext,
    Outage,
    Question,
)
from fleetwatch.ledger.models import Policy as PolicyRow
from fleetwatch.ledger.models import Posted
from fleetwatch.ledger.policy import JOB_KINDS, LONGEST_WINDOW_MS, Policy
from fleetwatch.ledger.posted_gpus import Granted, outages_of
from fleetwatch.ledger.selectors import idle_steps
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.lib.spans import Span, clip
from fleetwatch.telemetry import frames
from fleetwatch.telemetry.kept_windows import KeptWindows
from fleetwatch.telemetry.selectors import TimedEvent, boots_of_nodes, events_of_nodes, xids

Item = TypeVar("Item")

# Beside what makes a quiet run idle, of which a window may lack as much.
MARGIN_MS = LONGEST_WINDOW_MS
# Of the hour that goes on, by each process that posts: some 1,500 GPUs with all columns.
_KEPT = KeptWindows(most_bytes=128 * 2**20)

# Hours of nodes judged at once (8 GPUs x 24 h are 69,000 windows), and whose stored windows, 10 kB
# an hour of a GPU, are fetched at once: both bound memory.
HOURS_PER_PASS = 32
HOURS_FETCHED = 4 * HOURS_PER_PASS

_NONE = np.zeros(0, dtype=np.int64)
_NO_WINDOWS = frames.Frame(_NONE, _NONE, _NONE, _NONE, _NONE, _NONE, columns={})


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is known of a node's GPUs beyond their windows; a GPU that came back has several spans
    of capacity.

    `silent_ms`: from when on the node gave no sign of life; `zone`: whose midnight cuts hours;
    `changed_ms`: before it all is as it was when the node was posted last.
    """

    node_id: int
    zone: ZoneInfo
    capacities: list[Capacity]
    outages: dict[int, list[Outage]]
    silent_ms: int = FOREVER_MS
    changed_ms: int = 0


class GPURow(NamedTuple):
    """What of a GPU's row its capacity follows from; `limit_w` by itself or else by its model.

    Of thousands every other minute: a tuple is read in a fifth of the time of a model's object.
    """

    pk: int
    node_id: int
    parent_id: int | None
    retired_ms: int | None
    last_ms: int | None
    facts_order: list[int]
    sm_count: int | None
    mig_profile: str
    idle_w: float | None
    limit_w: float | None


@dataclass(frozen=True, slots=True)
class CapacityRows:
    """What the capacity of some nodes' GPUs follows from, read at once: rows by id, and each
    node's in order of id; watts by GPU.
    """

    by_id: Mapping[int, GPURow]
    gpus: Mapping[int, Sequence[GPURow]]
    stays: Mapping[int, Mapping[int, Reported]]
    departures: Mapping[int, Sequence[int]]
    idle_steps: Mapping[int, Sequence[tuple[int, float]]]


def capacity_rows(nodes: Collection[Node]) -> CapacityRows:
    """The rows of the nodes' GPUs as they are now."""
    node_ids = [node.pk for node in nodes]
    rows = GPU.objects.filter(node__in=node_ids).order_by("pk")
    watts = (F("model__idle_w"), Coalesce("power_limit_w", "model__limit_w"))
    by_id: dict[int, GPURow] = {}
    gpus: dict[int, list[GPURow]] = defaultdict(list)
    for gpu in map(GPURow._make, rows.values_list(*GPURow._fields[:-2], *watts)):
        by_id[gpu.pk] = gpu
        gpus[gpu.node_id].append(gpu)
    return CapacityRows(
        by_id, gpus, stays_of_nodes(node_ids), departures_of_nodes(node_ids), idle_steps(by_id)
    )


@dataclass(frozen=True, slots=True)
class FactRows:
    """What the facts of some nodes follow from, read at once; events of those that told any, with
    their boots.
    """

    capacity: CapacityRows
    events: Mapping[int, Sequence[TimedEvent]]
    boots: Mapping[int, Sequence[int]]

    def outages_until(self, node_id: int, gpu_id: int, until_ms: int) -> list[Outage]:
        """The outages of a GPU of the node as events up to then tell them."""
        earlier = [event for event in self.events.get(node_id, ()) if event.at_ms <= until_ms]
        return outages.by_events(gpu_id, earlier, self.boots[node_id]) if earlier else []


def fact_rows(nodes: Collection[Node]) -> FactRows:
    """The rows as they are now."""
    kinds = [*outages.BEGINNINGS, *outages.ENDS]
    events = events_of_nodes([node.pk for node in nodes], kinds)
    return FactRows(capacity_rows(nodes), events, boots_of_nodes(events))


def all_capacities() -> Iterator[Capacity]:
    """The capacities of every node."""
    nodes = list(Node.objects.order_by("pk"))
    rows = capacity_rows(nodes)
    for node in nodes:
        yield from capacities(node, rows)


def capacities(node: Node, rows: CapacityRows | None = None) -> list[Capacity]:
    """The node's GPUs that were ever observed there, with each span of their capacity: to where the
    node's ends for now, to their retirement, or to the last window before they were elsewhere.
    Without `rows` they are read.

    A MIG instance is a part of its parent from its first window to its last.
    """
    if node.live_ms is None:
        return []
    rows = rows or capacity_rows([node])
    stays = rows.stays[node.pk]
    departures = rows.departures.get(node.pk, [])
    lived = joined(span for reported in stays.values() for span in reported.own)
    gone_ms = gone(lived, departures)
    return [
        capacity
        for gpu in rows.gpus.get(node.pk, [])
        if gpu.pk in stays
        for capacity in _capacities(gpu, node, rows, gone_ms)
    ]


def _capacities(
    gpu: GPURow, node: Node, rows: CapacityRows, gone: Sequence[int]
) -> Iterator[Capacity]:
    parent = None if gpu.parent_id is None else rows.by_id.get(gpu.parent_id)
    end_ms = _end_ms(gpu, node, parent)
    reported = rows.stays[node.pk][gpu.pk]
    own = {"idle_steps": rows.idle_steps.get(gpu.pk, ()), **_limits(gpu, parent)}
    for span in capacity_spans(reported.own, reported.others, end_ms, gone):
        is_live = gpu.retired_ms is None and span[1] == end_ms
        yield Capacity(gpu.pk, *span, is_live, **own)


def _end_ms(gpu: GPURow, node: Node, parent: GPURow | None) -> int | None:
    """Where its capacity ends: its retirement, or where the node's ends for now; of an instance
    with its last window at the latest.
    """
    end_ms = node.live_ms if gpu.retired_ms is None else gpu.retired_ms
    if parent is None:
        return end_ms
    newest_ms = node.newest_of(gpu.last_ms, gpu.facts_order)
    return min((at_ms for at_ms in (end_ms, newest_ms) if at_ms is not None), default=None)


def _limits(gpu: GPURow, parent: GPURow | None) -> dict[str, Any]:
    if parent is None:
        return {"idle_w": gpu.idle_w, "limit_w": gpu.limit_w}
    # power is the parent's alone: no limits, so that an instance is never judged by it
    return {"parent_id": gpu.parent_id, "weight": weight(gpu, parent)}


def weight(gpu: GPURow, parent: GPURow) -> float:
    """The instance's share of its parent: by SMs, else by the slices its profile names, 0 to 1."""
    if gpu.sm_count is not None and parent.sm_count:
        return min(gpu.sm_count / parent.sm_count, 1.0)
    slices = re.match(r"(\d+)g\.", gpu.mig_profile)
    return min(int(slices[1]) / 7, 1.0) if slices else 1.0


def node_facts(
    node: Node,
    policy: Policy,
    own_zone: ZoneInfo,
    rows: FactRows | None = None,
    *,
    posted: Iterable[Granted] = (),
    unchanged_ms: int = 0,
) -> NodeFacts:
    """Capacities (of `rows`, else read), and outages with their end by activity read from the
    windows.

    `posted`: what the last posting took for granted; no window before `unchanged_ms` changed since
    then, and none is read again but what activity that ends an outage may have begun in.
    """
    rows = rows or fact_rows([node])
    gpus = capacities(node, rows.capacity)
    if node.last_ms is None:
        return NodeFacts(node.pk, own_zone, gpus, outages={})
    before = {row.gpu_id: row.outages for row in posted}
    settled_ms = unchanged_ms - _overlap_ms(policy)
    # of a GPU that came back the last span of its capacity: an outage ends where that does
    effective = {
        gpu_id: [
            _effective(node.pk, outage, gpu, policy, before.get(gpu_id, []), settled_ms)
            for outage in rows.outages_until(node.pk, gpu_id, node.last_ms)
        ]
        for gpu_id, gpu in {gpu.gpu_id: gpu for gpu in gpus}.items()
    }
    return NodeFacts(node.pk, own_zone, gpus, effective, node.last_ms)


def posted_outages(row: Posted) -> list[Outage]:
    """The GPU's outages as the last posting took them."""
    return outages_of(row.outages)


def xids_of_gpus(codes: Sequence[int], start_ms: int, end_ms: int) -> list[tuple[str, int, int]]:
    """The GPU's UUID, when and which, of these XIDs that were told in [start_ms, end_ms); stopping
    ones are outages.
    """
    # by node: events are kept by node and time
    nodes = Node.objects.filter(last_ms__gt=start_ms).values_list("pk", flat=True)
    return xids(list(nodes), codes, start_ms, end_ms)


def facts_by(node: Node, own_zone: ZoneInfo, policy_id: int) -> tuple[Policy, NodeFacts]:
    """A policy that judged something, and what it makes of the node's events."""
    policy = Policy.from_json(PolicyRow.objects.get(pk=policy_id).thresholds)
    return policy, node_facts(node, policy, own_zone)


def _effective(
    node_id: int,
    outage: Outage,
    gpu: Capacity,
    policy: Policy,
    posted: Iterable[Outage],
    unchanged_ms: int,
) -> Outage:
    """The outage, ended by activity where it was; `is_revived` then."""
    start_ms = outage.start_ms
    end_ms = min(outage.end_ms, gpu.end_ms)
    if outage.is_drain or start_ms >= end_ms:
        return outage
    for before in posted:
        if (before.start_ms, before.reason) == (outage.start_ms, outage.reason):
            if before.is_revived and before.end_ms <= unchanged_ms:
                return before
            start_ms = max(start_ms, unchanged_ms)
    revived_ms = _revived_ms(node_id, outage, gpu, policy, within=(start_ms, end_ms))
    if revived_ms is None:
        return outage
    return replace(outage, end_ms=revived_ms, is_revived=True)


def _revived_ms(
    node_id: int, outage: Outage, gpu: Capacity, policy: Policy, *, within: Span
) -> int | None:
    """Since when the GPU's windows show that it works; None where they do not."""
    # a stretch may cross the edge of a pass
    for low, high in hour_cuts.passes(*within, hours=6):
        until_ms = min(high + _overlap_ms(policy), within[1])
        windows = frames.read_windows(node_id, low, until_ms, outages.ACTIVITY_COLUMNS)
        rest = replace(outage, start_ms=low)
        ended = outages.ended_by_activity(rest, gpu=gpu, windows=windows, policy=policy)
        if ended.is_revived:
            return ended.end_ms
    return None


def _overlap_ms(policy: Policy) -> int:
    """No activity that ends an outage begins so long before it is known to."""
    return round(1000 * policy.revival_s) + 4 * LONGEST_WINDOW_MS


def judge(facts: NodeFacts, start_ms: int, end_ms: int, policy: Policy) -> Judgement:
    """What the policy says of the node's clock hours [start_ms, end_ms), judged with all the
    context they need.
    """
    return states.judge(question(facts, start_ms, end_ms, policy))


def judge_nodes(
    several: Sequence[NodeFacts], start_ms: int, end_ms: int, policy: Policy
) -> dict[int, Judgement]:
    """The same of several nodes, in as few passes as memory allows."""
    judged: dict[int, Judgement] = {}
    for some, asked in _questions(several, start_ms, end_ms, policy):
        of_some = states.judge_nodes(asked)
        judged |= dict(zip((facts.node_id for facts in some), of_some, strict=True))
    return judged


def judge_alone(
    several: Sequence[NodeFacts], start_ms: int, end_ms: int, policy: Policy
) -> dict[int, Judgement]:
    """The same of those nodes of which all but these hours is as it was posted last, with as little
    of the time before them as is enough: by then a quiet run of a batch job is idle, or one of any
    job.
    """
    judged: dict[int, Judgement] = {}
    idle_ms = [policy.idle_ms("batch"), max(map(policy.idle_ms, JOB_KINDS))]
    contexts_ms = sorted({each + MARGIN_MS for each in idle_ms})
    held = _held_by(several, start_ms - contexts_ms[-1], end_ms + policy.reach_ms)
    for context_ms in contexts_ms:
        rest = [facts for facts in several if facts.node_id not in judged]
        alone = _Alone(context_ms, held)
        for some, asked in _questions(rest, start_ms, end_ms, policy, alone=alone):
            of_some = zip(some, states.judge_alone(asked), strict=True)
            judged |= {facts.node_id: each for facts, each in of_some if each is not None}
    return judged


@dataclass(frozen=True, slots=True)
class _Held:
    """Who held nodes' GPUs over some time, and when their job sources answered."""

    holdings: Mapping[int, Sequence[Holding]]
    sources: Mapping[int, Sequence[SourceSpans]]

    def context(self, facts: NodeFacts, low: int, high: int) -> NodeContext:
        """What is known of the node in [low, high) of that time."""
        return NodeContext(
            facts.capacities,
            self.holdings_of(facts.node_id, low, high),
            self.sources_of(facts.node_id, low, high),
            facts.outages,
            facts.silent_ms,
            facts.changed_ms,
        )

    def holdings_of(self, node_id: int, low: int, high: int) -> list[Holding]:
        """The node's in [low, high) of that time; their spans that overlap it, each whole."""
        # from one ms earlier: a hold that began before the context is seen to
        overlapping = (
            (hold, [span for span in hold.spans if span[0] < high and span[1] >= low])
            for hold in self.holdings[node_id]
        )
        return [hold._replace(spans=spans) for hold, spans in overlapping if spans]

    def sources_of(self, node_id: int, low: int, high: int) -> list[SourceSpans]:
        """The node's answers in [low, high)."""
        clipped = ((source, clip(source.spans, low, high)) for source in self.sources[node_id])
        return [replace(source, spans=spans) for source, spans in clipped if spans]


@dataclass(frozen=True, slots=True)
class _Alone:
    """What hours are judged with that are judged alone: so much of what lies before them, of which
    this process keeps the windows for the next time; and who held what, read before.
    """

    context_ms: int
    held: _Held


def _held_by(several: Sequence[NodeFacts], low: int, high: int) -> _Held:
    node_ids = [facts.node_id for facts in several]
    return _Held(holdings_of(node_ids, low - 1, high), source_status_of(node_ids, low, high))


def judge_unseen(facts: NodeFacts, start_ms: int, end_ms: int, policy: Policy) -> Judgement:
    """The same as if nobody had observed anything: who held what, and what could not work."""
    return states.judge(question(facts, start_ms, end_ms, policy, columns=()))


def question(
    facts: NodeFacts,
    start_ms: int,
    end_ms: int,
    policy: Policy,
    *,
    columns: Sequence[str] = COLUMNS,
) -> Question:
    """What is judged for the node's clock hours [start_ms, end_ms), with all that they may rest on;
    without columns no windows are read.
    """
    ((_, asked),) = _questions([facts], start_ms, end_ms, policy, columns=columns)
    return asked


def _questions(
    several: Sequence[NodeFacts],
    start_ms: int,
    end_ms: int,
    policy: Policy,
    *,
    columns: Sequence[str] = COLUMNS,
    alone: _Alone | None = None,
) -> Iterator[tuple[Sequence[NodeFacts], Question]]:
    """As many of the nodes at once as a pass may have hours, and what is judged for their clock
    hours [start_ms, end_ms): with so much of what lies before them (None: with all that they may
    rest on). Of all nodes it is read at once who held their GPUs.
    """
    if not several:
        return
    low = start_ms - (alone.context_ms if alone else policy.reach_ms)
    high = end_ms + policy.reach_ms
    held = alone.held if alone else _held_by(several, low, high)
    cuts = hour_cuts.edges(low, high, several[0].zone)
    passes = portions(several, HOURS_PER_PASS, end_ms - start_ms)
    for some, windows in zip(passes, _windows(passes, low, high, columns, alone), strict=True):
        nodes = [held.context(facts, low, high) for facts in some]
        yield some, Question(windows, nodes, cuts, (start_ms, end_ms), policy)


def portions(several: Sequence[Item], hours: int, each_ms: int) -> list[Sequence[Item]]:
    """In their order, as many at once as have that many hours together, and at least one."""
    step = max(1, hours * HOUR_MS // each_ms)
    return [several[first : first + step] for first in range(0, len(several), step)]


def _windows(
    passes: Sequence[Sequence[NodeFacts]],
    low: int,
    high: int,
    columns: Sequence[str],
    alone: _Alone | None,
) -> Iterator[frames.Frame]:
    """The windows of each pass' nodes; what is stored of some passes is fetched at once, and
    decoded pass by pass. Hours that are judged alone are so again soon: theirs are kept.
    """
    for some in portions(passes, HOURS_FETCHED, len(passes[0]) * (high - low)):
        ids = [[facts.node_id for facts in each] for each in some]
        if not columns:
            yield from [_NO_WINDOWS] * len(ids)
        elif alone is not None:
            yield from (frames.of_nodes_again(each, low, high, columns, _KEPT) for each in ids)
        else:
            yield from _fetched_at_once(ids, low, high, columns)


def _fetched_at_once(
    passes: Sequence[Sequence[int]], low: int, high: int, columns: Sequence[str]
) -> Iterator[frames.Frame]:
    parts = frames.parts_of_nodes(list(chain.from_iterable(passes)), low, high, columns)
    by_node = groupby(parts, key=itemgetter(0))
    for node_ids in passes:
        own = islice(by_node, len(node_ids))
        yield frames.together([windows for _, of_node in own for _, windows in of_node])
