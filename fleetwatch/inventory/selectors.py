"""Reads of inventory."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet

from fleetwatch.inventory.models import GPU, Departure, GPUModel, Node, Stay
from fleetwatch.inventory.silence import LONGEST_FLUSH_MS
from fleetwatch.inventory.stays import Reported
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import execute, read_statement

WITH_FACTS = GPU.objects.select_related("node", "model", "parent")
# Accounting is imported with a boot that began at 0 (docs/wire.md); who sent nothing but that runs
# no agent. [] is nothing yet.
RUNS_AN_AGENT = Q(last_ms__isnull=False) | Q(facts_order=[]) | Q(facts_order__0__gt=0)

_STAYS = read_statement("inventory/sql/stays_of_nodes.sql")


def hosts() -> QuerySet[Node]:
    """The nodes that run an agent, or are to: without those that only ever imported accounting."""
    return Node.objects.filter(RUNS_AN_AGENT)


def silent_nodes() -> list[Node]:
    """The silent nodes on the bill (silence.py), silent the longest first, each with `gpu_count`,
    its GPUs.

    A silence that the slowest flush of an agent explains is no news yet.
    """
    living = Q(gpus__first_ms__isnull=False, gpus__retired_ms=None, gpus__parent=None)
    rows = Node.objects.filter(silent_ms__gte=F("last_ms") + LONGEST_FLUSH_MS).annotate(
        gpu_count=Count("gpus", filter=living)
    )
    return list(rows.filter(gpu_count__gt=0).order_by("last_ms", "name"))


def node(name: str) -> Node | None:
    """The node of that name; None when there is none."""
    return Node.objects.filter(name=name).first()


def gpus(*, node_name: str | None = None, with_retired: bool = False) -> list[GPU]:
    """GPUs that were ever observed, by node and index, MIG instances after their parents; without
    retired ones unless asked.
    """
    rows = WITH_FACTS.filter(first_ms__isnull=False)
    if node_name is not None:
        rows = rows.filter(node__name=node_name)
    if not with_retired:
        rows = rows.filter(retired_ms__isnull=True)
    return list(rows.order_by("node__name", "index", "uuid"))


def gpu(uuid: str) -> GPU | None:
    """The GPU of that UUID as the node has it that reported it last; None when there is none."""
    rows = WITH_FACTS.filter(uuid=uuid)
    return rows.order_by(F("last_ms").desc(nulls_last=True), "pk").first()


def gpus_of(uuid: str) -> list[int]:
    """The ids of the GPU's rows with all nodes that it was with."""
    return list(GPU.objects.filter(uuid=uuid).order_by("pk").values_list("pk", flat=True))


def newest_rows(uuids: Iterable[str]) -> dict[str, GPU]:
    """Each GPU as the node has it that reported it last, by UUID."""
    rows = WITH_FACTS.filter(uuid__in=list(uuids))
    # the last one of each UUID stays
    return {gpu.uuid: gpu for gpu in rows.order_by(F("last_ms").asc(nulls_first=True), "-pk")}


def here(rows: QuerySet[GPU]) -> QuerySet[GPU]:
    """Of the rows those with the node that reported their GPU last: each GPU once."""
    later = GPU.objects.filter(uuid=OuterRef("uuid"), last_ms__gt=OuterRef("last_ms"))
    # a row without a retirement is where its GPU is: only the others are looked up
    return known_to_nodes(rows).exclude(Q(retired_ms__isnull=False) & Exists(later))


def known_to_nodes(rows: QuerySet[GPU]) -> QuerySet[GPU]:
    """Of the rows those of GPUs that their nodes have or had: without what a node only claims."""
    return rows.exclude(
        Q(first_ms=None) & Exists(GPU.objects.filter(uuid=OuterRef("uuid"), first_ms__isnull=False))
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a GPU was from when to when; `is_believed` False: that node says so, but another one
    observed the GPU.

    `is_here`: it is there still, as far as anybody knows.
    """

    node: str
    first_ms: int
    last_ms: int
    is_believed: bool
    gpu_id: int
    is_here: bool = False


def life(uuid: str) -> list[Place]:
    """Where the GPU was when, in order of time: at a node until it was at another, also where
    nobody saw it meanwhile.
    """
    places = _places(uuid)
    believed = [place for place in places if place.is_believed]
    at_nodes = [list(group) for _, group in groupby(believed, key=lambda place: place.gpu_id)]
    whole = [replace(group[-1], first_ms=group[0].first_ms) for group in at_nodes]
    if whole:
        retired = GPU.objects.filter(pk=whole[-1].gpu_id, retired_ms__isnull=False)
        whole[-1] = replace(whole[-1], is_here=not retired.exists())
    disputed = [place for place in places if not place.is_believed]
    return sorted([*whole, *disputed], key=lambda place: (place.first_ms, place.gpu_id))


def _places(uuid: str) -> list[Place]:
    stays = Stay.objects.filter(uuid=uuid).select_related("gpu__node").order_by("first_ms", "pk")
    return [
        Place(stay.gpu.node.name, stay.first_ms, _newest_ms(stay), stay.is_believed, stay.gpu_id)
        for stay in stays
    ]


def _newest_ms(stay: Stay) -> int:
    """End of its last window; while batches only continue (steady.py), the node's row says that of
    the GPU's newest stay.
    """
    newest_ms = stay.gpu.newest_ms
    is_newest = stay.is_believed and stay.last_ms == stay.gpu.last_ms
    return newest_ms if is_newest and newest_ms is not None else stay.last_ms


def disputed() -> list[Stay]:
    """Windows that do not count, because another node reports the GPU: the newest first, with GPU
    and node.
    """
    return list(
        Stay.objects.filter(is_believed=False)
        .select_related("gpu__node")
        .order_by("-last_ms", "uuid")
    )


def claimed_by(node: Node) -> dict[int, list[Span]]:
    """GPU id -> all stays with the node, believed or not."""
    claimed: dict[int, list[Span]] = defaultdict(list)
    for stay in Stay.objects.filter(gpu__node=node).select_related("gpu__node"):
        claimed[stay.gpu_id].append((stay.first_ms, _newest_ms(stay)))
    return claimed


def stays_of_nodes(node_ids: Collection[int]) -> dict[int, dict[int, Reported]]:
    """Node id -> GPU id -> the believed stays with the node and those of the same GPU with others,
    of all that each of the nodes ever observed.
    """
    stays: dict[int, dict[int, Reported]] = {node_id: {} for node_id in node_ids}
    rows = execute(_STAYS, {"node_ids": list(node_ids)})
    for node_id, gpu_id, is_own, *span in rows:
        reported = stays[node_id].setdefault(gpu_id, Reported([], [], []))
        spans = reported.own if is_own else reported.others
        spans.append(tuple(span))
    return stays


def departures_of_nodes(node_ids: Collection[int]) -> dict[int, list[int]]:
    """Node id -> when it was said to be gone, ascending; nodes that never were are not in it."""
    times: dict[int, list[int]] = defaultdict(list)
    rows = Departure.objects.filter(node__in=node_ids).order_by("at_ms")
    for node_id, at_ms in rows.values_list("node_id", "at_ms"):
        times[node_id].append(at_ms)
    return times


def departed() -> set[int]:
    """The ids of the nodes that are gone, removed by hand or elastic, and did not report again."""
    return set(
        Departure.objects.filter(at_ms__gte=F("node__last_ms")).values_list("node_id", flat=True)
    )


def newest_departure(node: Node) -> Departure | None:
    """What was said of where it went, while it did not report again; None when nothing was."""
    return node.departures.filter(at_ms__gte=node.last_ms or 0).order_by("at_ms").last()


def present_models() -> QuerySet[GPUModel]:
    """The models of which the fleet has or had GPUs, by name."""
    return GPUModel.objects.filter(gpus__isnull=False).distinct().order_by("name")
