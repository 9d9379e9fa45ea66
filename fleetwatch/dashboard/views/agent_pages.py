"""The agents of nodes, and each with its token, what it reads and how it is upgraded."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from django.http import HttpRequest
from django.shortcuts import get_object_or_404

from fleetwatch.alerts.measuring.gpu_words import fault_in_words
from fleetwatch.dashboard import install
from fleetwatch.dashboard.agent_columns import columns_of
from fleetwatch.dashboard.agent_facts import agent_facts
from fleetwatch.dashboard.agent_history import agent_history
from fleetwatch.dashboard.agent_lines import HEALTHS, Agent, agent_of, agents
from fleetwatch.dashboard.agent_reads import agent_reads
from fleetwatch.dashboard.choices import chosen, first_page
from fleetwatch.dashboard.pages import Pager
from fleetwatch.dashboard.parameters import PLACES, among, scope_of
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.selectors import physical_gpus
from fleetwatch.dashboard.showing import Context, shows
from fleetwatch.figures import selectors as costs
from fleetwatch.ingest.selectors import agent_tokens
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.selectors import source_outages
from fleetwatch.ledger.broken_gpus import broken_gpus
from fleetwatch.lib.intervals import Interval

PAGE_SIZE = 100
OUTAGES = 20
WORKED_DAYS = 7  # a silent node is still one of those whose jobs it ran


@shows("dashboard/agents.html", "status", "health", *PLACES, "after")
def agents_page(request: HttpRequest, period: Period) -> Context:
    """Those of the health that the address asks for, and how many there are of each."""
    filters = among(request, PLACES)
    broken_of = Counter(each.gpu.node.name for each in broken_gpus())
    every = _within(agents(period.now, broken_of), filters, period.now)
    health = chosen(request, "health", HEALTHS)
    asked = [agent for agent in every if not health or agent.health == HEALTHS[health]]
    shown, pager = _page_of(asked, request.GET.get("after", ""))
    if pager.is_first:
        first_page(request)
    return {
        "filters": filters,
        "worked_days": WORKED_DAYS,
        "agents": shown,
        "broken_of": broken_of,
        "pager": pager,
        "agent_count": len(every),
        "healths": _healths(every),
        "health": health,
        "hub_version": install.agent_version(),
        **columns_of(shown),
    }


def _healths(every: Sequence[Agent]) -> list[tuple[str, str, int]]:
    """How many there are of each health of which there are any."""
    counts = Counter(agent.health for agent in every)
    return [(key, word, counts[word]) for key, word in HEALTHS.items() if counts[word]]


def _within(every: Sequence[Agent], filters: Mapping[str, str], now: datetime) -> Sequence[Agent]:
    """Those of the node of that name, of nodes with a GPU of that model, and of nodes that lately
    worked for that team and cluster.
    """
    if name := filters.get("node"):
        every = [agent for agent in every if agent.node.name == name]
    if model := filters.get("gpu_model"):
        there = GPU.objects.filter(model__name=model, retired_ms=None)
        nodes = set(there.values_list("node_id", flat=True))
        every = [agent for agent in every if agent.node.pk in nodes]
    if worked_for := {name: filters[name] for name in ("team", "cluster") if name in filters}:
        worked = _worked_for(worked_for, now)
        every = [agent for agent in every if agent.node.name in worked]
    return every


def _worked_for(filters: Mapping[str, str], now: datetime) -> set[str]:
    """The names of the nodes with such time lately."""
    lately = Interval(now - timedelta(days=WORKED_DAYS), now)
    groups = costs.look(lately, "node", scope=scope_of(filters)).by("node")
    return {group.key for group in groups}


def _page_of(asked: Sequence[Agent], after: str) -> tuple[Sequence[Agent], Pager]:
    """Those after the node of that name; from the first on where there is none."""
    names = [agent.node.name for agent in asked]
    start = names.index(after) + 1 if after in names else 0
    end = start + PAGE_SIZE
    more = names[end - 1] if end < len(names) else ""
    return asked[start:end], Pager(more, len(names), start == 0)


@shows("dashboard/agent.html", "status", find=partial(get_object_or_404, Node))
def agent_page(_: HttpRequest, period: Period, node: Node) -> Context:
    gpus = physical_gpus(node)
    newest = next((gpu for gpu in gpus if gpu.retired_ms is None), None)
    facts = agent_facts(node, gpus)
    return {
        "node": node,
        "agent": agent_of(node, period.now),
        "tokens": agent_tokens(node),
        "outages": source_outages(node.pk, limit=OUTAGES),
        "reads": agent_reads(node, newest, period.now),
        "broken": [(each, fault_in_words(each.reason)) for each in broken_gpus(node)],
        "past": agent_history(node, period.now),
        **facts,
        "unread": [row for row in facts["unread"] if row.gpus != "all"],  # these `reads` names
    }
