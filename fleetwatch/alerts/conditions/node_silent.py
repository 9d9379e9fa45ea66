"""The condition node_silent: a node of which the hub hears nothing.

Judged by the hub's clock and by what it received: a node that sends its queue late is heard, and of
the time in which the hub took no batches nobody is accused.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from django.db.models import Exists, OuterRef, QuerySet

from fleetwatch.alerts.breach import Breach, Condition, Settings, Watch
from fleetwatch.alerts.episodes import End, Episode, Level, Measured, Span
from fleetwatch.alerts.measuring.gpu_costs import cost_of
from fleetwatch.alerts.measuring.gpu_words import gpu_labels, model_of
from fleetwatch.alerts.measuring.hub_door import Open, open_span
from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory import silence
from fleetwatch.inventory.models import GPU, ElasticRule, Node
from fleetwatch.inventory.silence import LONGEST_FLUSH_MS
from fleetwatch.jobs.selectors import clusters_of
from fleetwatch.lib.intervals import to_ms
from fleetwatch.lib.memo import read_once
from fleetwatch.notify.message import one_line

LOOK = "systemctl status fleetwatch-agent"
START = "systemctl start fleetwatch-agent"
UNKNOWN = "Until then nobody knows what its jobs do, and its GPUs cost what they cost."
HEARD = "it reports again"
GONE = "it is no longer part of the fleet"
# Of so many or more nodes not one is heard: that is the hub's, or the network's before it.
MANY = 3


@dataclass(frozen=True, slots=True)
class SilentNode:
    """A node with the GPUs that are capacity, and the clusters of the jobs they were given to."""

    name: str
    gpus: tuple[GPU, ...]
    clusters: tuple[str, ...]
    is_stopped: bool  # its agent said that it shuts down

    @property
    def models(self) -> tuple[str, ...]:
        """The GPUs' models."""
        return tuple(sorted({model_of(gpu) for gpu in self.gpus} - {""}))

    @property
    def held(self) -> str:
        """The GPUs in words: "8 × H100 SXM"."""
        kinds = ", ".join(one_line(model, 40) for model in self.models)
        count = len(self.gpus)
        return f"{count} × {kinds}" if kinds else f"{count} GPU{'s' * (count != 1)}"


def measure(watch: Watch) -> Measured:
    """Since when each node is silent, as far as the hub listened; those heard since of the
    firing.
    """
    door = open_span(watch.end_ms)
    nodes = reporting_nodes()
    names = {node.name for node in nodes}
    ends = {name: End(watch.end_ms, GONE) for name in watch.firing if name not in names}
    if door is None:
        return Measured({}, ends)
    silent = unheard(nodes, door)
    spans = {name: [span] for name, span in silent.items()} if is_heard(nodes, silent) else {}
    for node in nodes:
        if node.name in watch.firing and node.name not in silent:
            spans[node.name] = [Span(_heard_ms(node), door.end_ms, Level.CLEAR)]
    return Measured(spans, ends, cleared=HEARD)


def is_heard(nodes: Collection[Node], silent: Collection[str]) -> bool:
    """Whether the silence is the nodes': somebody is heard, or they are too few to tell."""
    return len(silent) < max(len(nodes), MANY)


def unheard(nodes: Collection[Node], door: Open) -> dict[str, Span]:
    """By name the nodes of which nothing came for longer than the slowest agent takes, while the
    hub listened, without those that come and go.
    """
    spans = {
        node.name: Span(max(_heard_ms(node), door.start_ms), door.end_ms, Level.BREACH)
        for node in nodes
    }
    quiet = [node for node in nodes if spans[node.name].duration_ms > LONGEST_FLUSH_MS]
    elastic = _elastic(quiet)
    return {node.name: spans[node.name] for node in quiet if node.pk not in elastic}


def _live_nodes() -> QuerySet[Node]:
    """The nodes with GPUs that are capacity."""
    living = GPU.objects.filter(node=OuterRef("pk"), first_ms__isnull=False, retired_ms=None)
    return Node.objects.filter(Exists(living))


@read_once  # for several rules of an evaluation
def reporting_nodes() -> list[Node]:
    """Those of which the hub expects to hear: that were live once."""
    fields = ("name", "labels", "last_ms", "silent_ms", "last_received_at")
    return [node for node in _live_nodes().only(*fields) if node.is_live]


def _heard_ms(node: Node) -> int:
    return to_ms(node.last_received_at) if node.last_received_at else 0


def _elastic(nodes: Collection[Node]) -> set[int]:
    """Those that are gone, not silent, by a rule."""
    rules = silence.elastic_rules()
    if not rules:
        return set()
    clusters = clusters_of(node.pk for node in nodes)
    is_elastic = partial(_is_elastic, clusters=clusters, rules=rules)
    return {node.pk for node in nodes if is_elastic(node)}


def _is_elastic(
    node: Node, *, clusters: Mapping[int, set[str]], rules: Sequence[ElasticRule]
) -> bool:
    return silence.rule_of(node, clusters.get(node.pk, ()), rules) is not None


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode what the node has and costs; None of a node that is gone."""
    nodes = _silent_nodes({each.subject for each in episodes})
    rates = RatesInForce(gpu.pk for node in nodes.values() for gpu in node.gpus)
    return [
        _breach(each, nodes[each.subject], rates, watch) if each.subject in nodes else None
        for each in episodes
    ]


def _silent_nodes(names: Collection[str]) -> dict[str, SilentNode]:
    nodes = {node.pk: node for node in Node.objects.filter(name__in=names)}
    clusters = clusters_of(nodes)
    gpus: dict[int, list[GPU]] = defaultdict(list)
    rows = inventory.WITH_FACTS.filter(node__in=nodes, parent=None, first_ms__isnull=False)
    for gpu in rows.filter(retired_ms=None).order_by("index"):
        gpus[gpu.node_id].append(gpu)
    return {
        node.name: SilentNode(
            node.name,
            tuple(gpus[pk]),
            tuple(sorted(clusters.get(pk, ()))),
            node.agent.get("stopping") is True,
        )
        for pk, node in nodes.items()
    }


def _breach(episode: Episode, node: SilentNode, rates: RatesInForce, watch: Watch) -> Breach:
    cost = cost_of([gpu.pk for gpu in node.gpus], rates, episode.since_ms, episode.until_ms)
    name = one_line(node.name, 60)
    whole = f"Node {name} with {node.held}"
    return Breach(
        subject=node.name,
        kind="node",
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="silent",
        tag="silent",
        title=f"silent · {name} ({node.held})",
        where=name,
        what=f"{whole} sent nothing",
        does=f"{whole} sends nothing",
        has=f"{whole} has sent nothing",
        had="It had been silent",
        limit=f"silent ≥ {watch.settings.minutes:g} min",
        usd_per_hour=cost.usd_per_hour,
        cost_usd=cost.usd,
        counted_until_ms=episode.until_ms,
        has_example_rates=cost.has_example_rates,
        actions=_actions(node),
        codes=(START, LOOK),
        labels=gpu_labels(node.gpus, node.clusters) | {"node": (node.name,)},
        facts={"gpu_count": len(node.gpus), "is_stopped": node.is_stopped},
    )


def _actions(node: SilentNode) -> tuple[str, ...]:
    """What to do, in order."""
    if node.is_stopped:
        first = f"Fix: its agent was stopped in order; start it again on the node: {START}"
    else:
        first = f"Fix: see on the node whether it is up and its agent runs: {LOOK}"
    return first, "Fix: if the node is gone for good, remove it on its page.", UNKNOWN


CONDITION = Condition(
    name="node_silent",
    label="Node silent",
    sentence="Fires when the hub has heard nothing of a node for {minutes} minutes.",
    kind="node",
    unit="",
    low=0,
    high=0,
    usual=Settings(threshold=0, minutes=10),
    measure=measure,
    describe=describe,
    is_on=True,
    severity="critical",
    no_history=(
        "When the hub heard of a node is known of its last word alone; of the past the ledger has"
        " what nobody saw as unobserved time."
    ),
    speaks_for=("node",),
    covers="its GPUs' time while nobody hears of it",
)
