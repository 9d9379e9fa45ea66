"""Fleet, node and GPU."""

from dataclasses import dataclass
from datetime import datetime
from typing import cast
from urllib.parse import quote

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import User
from fleetwatch.accounts.permissions import admin_required, can_administer
from fleetwatch.costs.sites import energy_of_node
from fleetwatch.dashboard import agents, install, maps, node_events, selectors, words
from fleetwatch.dashboard.charts import METRICS
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.lines import GPULine
from fleetwatch.dashboard.machine_pages import row
from fleetwatch.dashboard.parameters import PERIOD, takes
from fleetwatch.dashboard.period import read_period
from fleetwatch.dashboard.selectors import Machine
from fleetwatch.diagnosis.findings import machine_findings
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Scope, Totals
from fleetwatch.figures.totals import nothing
from fleetwatch.ingest import services as ingest
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory import silence
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.selectors import job_sources
from fleetwatch.ledger import idle_power
from fleetwatch.ledger.selectors import idle_power as idle_power_of
from fleetwatch.lib.intervals import to_ms
from fleetwatch.telemetry import selectors as telemetry
from fleetwatch.telemetry.models import HealthEvent
from fleetwatch.telemetry.selectors import Drain

MANY_ROWS, SOME_ROWS = 48, 20
EVENTS = 30
TOP_JOBS = 10


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node with its figures in the period, since when and why it takes no jobs (None = it does),
    and since when it is silent (None = it is not).
    """

    machine: Machine
    totals: Totals
    drain: Drain | None
    silent_ms: int | None


@dataclass(frozen=True, slots=True)
class AgentLine:
    """A node's agent beside the one that this hub hands out; lag_ms None: never heard."""

    lag_ms: int | None
    is_older: bool
    hub_version: str
    upgrade_command: str


@require_GET
@login_required
@takes("metric", *PERIOD)
def fleet(request: HttpRequest) -> HttpResponse:
    if not selectors.has_data():
        return redirect("welcome")
    period = read_period(request, default="24h")
    by_node = {group.key: group.totals for group in costs.totals_by(period.interval, "node")}
    drains = telemetry.drains()
    silent_ms = {node.pk: node.last_ms for node in inventory.silent_nodes()}
    machines = selectors.machines()
    lines = [
        NodeLine(
            one,
            by_node.get(one.node.name, nothing()),
            drains.get(one.node.pk),
            silent_ms.get(one.node.pk),
        )
        for one in machines
    ]
    gpu_count = sum(line.machine.gpu_count for line in lines)
    shown = maps.METRICS[chosen(request, "metric", maps.METRICS, default="state")]
    context = {
        "state_names": words.NAMES,
        "metrics": maps.METRICS.values(),
        "metric": shown,
        "undrawn_hours": 0
        if shown.name == "state"
        else telemetry.undrawn_hours(period.interval, period.now),
        "lines": sorted(lines, key=lambda line: (-line.totals.wasted_usd, line.machine.node.name)),
        "gpu_count": gpu_count,
        "rows": "many" if gpu_count > MANY_ROWS else "some" if gpu_count > SOME_ROWS else "few",
    }
    return render(request, "dashboard/fleet.html", period.context("fleet", **context))


@require_GET
@login_required
@takes(*PERIOD)
def node(request: HttpRequest, name: str) -> HttpResponse:
    found = get_object_or_404(Node, name=name)
    period = read_period(request, default="24h")
    gpus = selectors.physical_gpus(node=found)
    told = costs.machine(period.interval, found.name, size=TOP_JOBS)
    bands = selectors.bands([gpu.pk for gpu in gpus], period.interval)
    jobs = selectors.jobs_by_key(
        (group.key for group in told.jobs.groups), before=period.interval.end
    )
    context = {
        "node": found,
        "totals": told.totals,
        "gpus": [GPULine(gpu, told.by_gpu.get(gpu.uuid, nothing()), bands[gpu.pk]) for gpu in gpus],
        "jobs": [(jobs.get(group.key), group) for group in told.jobs.groups],
        "agent": _agent(found),
        "findings": [
            row(line)
            for line in machine_findings.findings(period.interval, now=period.now, node=found.name)
        ],
        "energy": energy_of_node(found, period.interval, told.totals),
        "silent_ms": _silent_ms(found),
        "late": telemetry.late(found.pk),
        "unread": agents.unread_of(
            (_label(gpu), gpu.unread) for gpu in gpus if gpu.retired_ms is None
        ),
        "sources": job_sources([found.pk]).get(found.pk, []),
        "drain": telemetry.drains([found.pk]).get(found.pk),
        "departure": inventory.newest_departure(found),
        "may_remove": can_administer(request.user) and _is_silent(found, period.now),
        "events": node_events.newest(found, limit=EVENTS),
    }
    return render(request, "dashboard/node.html", period.context("fleet", **context))


@require_POST
@admin_required
def remove_node(request: HttpRequest, name: str) -> HttpResponse:
    """An admin says that the silent node is gone, and why."""
    reason = request.POST.get("reason", "").strip()
    try:
        ingest.remove_node(
            name, reason=reason, by=cast("User", request.user).get_username(), now=timezone.now()
        )
    except ingest.RemovalError as error:
        messages.error(request, str(error))
    else:
        messages.success(
            request,
            f"{name} is off the bill as of its last window, and comes back by reporting again.",
        )
    return redirect("node", name=name)


def _agent(node: Node) -> AgentLine:
    hub = install.agent_version()
    lag_ms = agents.lag_ms(node.last_received_at, node.last_ms)
    return AgentLine(
        lag_ms, agents.is_older(node.agent.get("version"), hub), hub, install.upgrade_command()
    )


def _is_silent(node: Node, now: datetime) -> bool:
    return silence.silent_since(to_ms(now) - silence.SILENT_AFTER_MS).filter(pk=node.pk).exists()


def _silent_ms(node: Node) -> int | None:
    """Since when the node is silent and on the bill; None: it is not."""
    return next((each.last_ms for each in inventory.silent_nodes() if each.pk == node.pk), None)


def _label(gpu: GPU) -> str:
    return gpu.uuid if gpu.index is None else str(gpu.index)


@require_GET
@login_required
@takes(*PERIOD)
def gpu(request: HttpRequest, uuid: str) -> HttpResponse:
    found = inventory.gpu(uuid)
    if found is None:
        raise Http404
    period = read_period(request, default="24h")
    places = inventory.life(found.uuid)
    context = {
        "gpu": found,
        "places": places,
        "first_ms": places[0].first_ms if places else found.first_ms,
        "gpu_parameter": quote(found.uuid, safe=""),
        "totals": costs.totals(period.interval, scope=Scope(gpu=found.uuid)),
        "segments": selectors.band_of_life(inventory.gpus_of(found.uuid), period.interval),
        "holders": selectors.holders(found, period.interval),
        "silent_ms": _silent_ms(found.node),
        "processes": selectors.processes(found),
        "events": HealthEvent.objects.filter(gpu__uuid=found.uuid).order_by("-at_ms")[:EVENTS],
        "charts": [(name, metric.title) for name, metric in METRICS.items()],
        "unread": agents.unread_of([(found.uuid, found.unread)]),
        "instances": list(found.instances.order_by("index", "uuid")),
        "is_admin": can_administer(request.user),
        "idle_power": idle_power_of(found),
    }
    return render(request, "dashboard/gpu.html", period.context("fleet", **context))


@require_POST
@admin_required
def move_gpu(request: HttpRequest, uuid: str) -> HttpResponse:
    """An admin says that the GPU is with the node that the form names: what that node sent of it
    counts.
    """
    node = request.POST.get("node", "")
    try:
        ingest.move_gpu(
            uuid, node, by=cast("User", request.user).get_username(), now=timezone.now()
        )
    except ingest.MoveError as error:
        messages.error(request, str(error))
    else:
        messages.success(
            request, f"{uuid} is with {node}: what it sent counts; its hours are judged again."
        )
    return redirect("gpu", uuid=uuid)


@require_POST
@admin_required
def set_idle_power(request: HttpRequest, uuid: str) -> HttpResponse:
    """An admin says what the GPU draws at idle: its open hours are judged by that."""
    try:
        watts = idle_power.read_watts(request.POST.get("watts", ""))
        idle_power.set_by_hand(
            uuid, watts, by=cast("User", request.user).get_username(), now=timezone.now()
        )
    except idle_power.IdlePowerError as error:
        messages.error(request, str(error))
    else:
        messages.success(
            request, f"Idle power set to {watts:g} W: its open hours are judged again."
        )
    return redirect("gpu", uuid=uuid)
