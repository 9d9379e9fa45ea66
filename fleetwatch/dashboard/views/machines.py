"""Node and GPU."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from urllib.parse import quote

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from fleetwatch.accounts.permissions import Right, may, needs
from fleetwatch.alerts.silences import in_words, of_node
from fleetwatch.costs.mapping import attribution
from fleetwatch.costs.models import GPURate
from fleetwatch.costs.rates.subjects import subject_name
from fleetwatch.costs.sites import energy_of_node
from fleetwatch.dashboard import agents, machine_commands, machine_faults, problems, selectors
from fleetwatch.dashboard.agent_facts import agent_facts, silent_ms
from fleetwatch.dashboard.agent_history import BACK, of_boot
from fleetwatch.dashboard.broken_marks import beside
from fleetwatch.dashboard.driver_log import HostEvent, driver_log
from fleetwatch.dashboard.gpu_health import health_of
from fleetwatch.dashboard.parameters import PERIOD
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.problems import Problem
from fleetwatch.dashboard.showing import Context, existing, shows
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Group, Scope
from fleetwatch.ingest import services as ingest
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory import silence
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.selectors import SourceOutage, source_outages
from fleetwatch.ledger import idle_power
from fleetwatch.ledger.selectors import idle_power as idle_power_of
from fleetwatch.lib.intervals import Interval, floor_hour, to_ms
from fleetwatch.telemetry import selectors as telemetry
from fleetwatch.telemetry.arrivals import boots
from fleetwatch.telemetry.models import HealthEvent

EVENTS = 30
TOP_JOBS = 10
RATES = 20
SILENCES = 10


@shows(
    "dashboard/node.html",
    "fleet",
    *PERIOD,
    default="24h",
    find=partial(get_object_or_404, Node),
)
def node(request: HttpRequest, period: Period, node: Node) -> Context:
    gpus = selectors.physical_gpus(node)
    figures = costs.machine(period.interval, node.name, size=TOP_JOBS)
    of_node = _at_fault(problems.of_node(node, period), node)
    return {
        "node": node,
        "totals": figures.totals,
        "gpus": selectors.gpu_lines(gpus, figures.by_gpu, period.interval),
        "health": health_of(node, period.interval),
        "jobs": _with_jobs(figures.jobs.groups, period),
        **of_node,
        "energy": energy_of_node(node, period.interval, figures.totals),
        "may_remove": may(request.user, Right.FLEET) and _is_silent(node, period.now),
        **_telemetry(node, period),
        **_history([gpu.pk for gpu in gpus[:1]], node, period),
        **_on_the_host(node, gpus, of_node["problems"]),
    }


def _telemetry(node: Node, period: Period) -> Context:
    """What happened there, and the hours whose curves are not drawn yet."""
    return {
        "events": _newest_events(node, period.now),
        "undrawn_hours": telemetry.undrawn_hours(period.interval, period.now, node_id=node.pk),
    }


def _at_fault(shown: Context, node: Node) -> Context:
    """The problems, each fault's dollars and command once, and what can't work as the head says
    it.
    """
    fault = machine_faults.fault_of(shown["problems"])
    running = selectors.running_on(node) if fault else []
    problems = machine_faults.counted_once(shown["problems"], running)
    return {**shown, "problems": problems, "fault": fault}


def _on_the_host(node: Node, gpus: Sequence[GPU], shown: Sequence[Problem]) -> Context:
    """Its agent, and commands to paste there."""
    facts = agent_facts(node, gpus)
    kinds = [source.kind for source in facts["sources"]]
    commands = machine_faults.without_drain(machine_commands.of_node(node, kinds), shown)
    return {**facts, "commands": commands}


def _with_jobs(groups: Sequence[Group], period: Period) -> list[tuple[Job | None, Group]]:
    jobs = attribution.jobs_by_key((group.key for group in groups), before=period.interval.end)
    return [(jobs.get(group.key), group) for group in groups]


def _history(gpu_ids: Sequence[int], node: Node, period: Period) -> Context:
    """What the GPU cost when, the latest first, and when nobody is told of the node."""
    rates = GPURate.objects.filter(gpu_id__in=gpu_ids).select_related(
        "rate__gpu", "rate__node", "rate__gpu_model"
    )
    silences = of_node(node.name, period.now)[:SILENCES]
    return {
        "rates": [
            (rate, subject_name(rate.rate)) for rate in rates.order_by("-valid_from")[:RATES]
        ],
        "silences": [(silence, in_words(silence)) for silence in silences],
    }


def _hours_around(period: Period) -> list[Interval]:
    """The last clock hour that the page shows, and those beside it that have begun."""
    hour = timedelta(hours=1)
    start = floor_hour(period.so_far.end - timedelta(milliseconds=1))
    around = [start - hour, start, start + hour]
    return [Interval(first, first + hour) for first in around if first < period.now]


def _newest_events(node: Node, now: datetime) -> list[HealthEvent | HostEvent]:
    """What happened on the node, the latest first: what its driver said, when the machine started
    (in seven days, as on its agent's page), and when its job sources stopped answering.
    """
    events: list[HealthEvent | HostEvent] = []
    of_driver = HealthEvent.objects.filter(node=node).select_related("gpu")
    events += driver_log(of_driver.order_by("-at_ms")[:EVENTS])
    started = map(of_boot, boots(node.pk, to_ms(now - BACK))[:EVENTS])
    events += [HostEvent(each.start_ms, each.kind, each.text) for each in started]
    for outage in source_outages(node.pk, limit=EVENTS):
        events += _source_events(outage)
    return sorted(events, key=lambda event: -event.at_ms)[:EVENTS]


def _source_events(outage: SourceOutage) -> list[HostEvent]:
    stopped = HostEvent(
        outage.start_ms, "source_silent", f"{outage.kind}: {outage.why or 'it does not say why'}"
    )
    if outage.answered_ms is None:
        return [stopped]
    return [stopped, HostEvent(outage.answered_ms, "source_answers", outage.kind)]


@contextmanager
def _saying_why_not(request: HttpRequest) -> Iterator[None]:
    """Says on the next page what a service has against it."""
    try:
        yield
    except (ingest.RemovalError, ingest.MoveError, idle_power.IdlePowerError) as error:
        messages.error(request, str(error))


@require_POST
@needs(Right.FLEET)
def remove_node(request: HttpRequest, name: str) -> HttpResponse:
    """An admin says that the silent node is gone, and why."""
    reason = request.POST.get("reason", "").strip()
    with _saying_why_not(request):
        ingest.remove_node(name, reason=reason, by=request.user.get_username(), now=timezone.now())
        messages.success(
            request,
            f"{name} is no longer billed from its last data on."
            " It comes back when it reports again.",
        )
    return redirect("node", name=name)


def _is_silent(node: Node, now: datetime) -> bool:
    return silence.silent_since(to_ms(now) - silence.SILENT_AFTER_MS).filter(pk=node.pk).exists()


def _gpu(uuid: str) -> GPU:
    return existing(inventory.gpu(uuid))


@shows("dashboard/gpu.html", "fleet", *PERIOD, default="24h", find=_gpu)
def gpu(_: HttpRequest, period: Period, gpu: GPU) -> Context:
    of_gpu = _at_fault(problems.of_gpu(gpu, period), gpu.node)
    return {
        "gpu": gpu,
        "gpu_parameter": quote(gpu.uuid, safe=""),
        "totals": costs.totals(period.interval, scope=Scope(gpu=gpu.uuid)),
        **of_gpu,
        "is_dead": of_gpu["fault"] is not None,
        "broken_beside": beside(gpu),
        "hours": _hours_around(period),
        "holders": selectors.holders(gpu, period.interval),
        "silent_ms": silent_ms(gpu.node),
        "processes": selectors.processes(gpu),
        "events": list(HealthEvent.objects.filter(gpu__uuid=gpu.uuid).order_by("-at_ms")[:EVENTS]),
        **_history([gpu.pk], gpu.node, period),
        "unread": agents.unread_of([(gpu.uuid, gpu.unread)]),
        "idle_power": idle_power_of(gpu),
        **_life(gpu),
    }


def _life(gpu: GPU) -> Context:
    """With which nodes it was, since when it is known, and its instances."""
    places = inventory.life(gpu.uuid)
    return {
        "places": places,
        "first_ms": places[0].first_ms if places else gpu.first_ms,
        "instances": list(gpu.instances.order_by("index", "uuid")),
    }


@require_POST
@needs(Right.FLEET)
def move_gpu(request: HttpRequest, uuid: str) -> HttpResponse:
    """An admin says that the GPU is with the node that the form names: what that node sent of it
    counts.
    """
    node = request.POST.get("node", "")
    with _saying_why_not(request):
        ingest.move_gpu(uuid, node, now=timezone.now())
        messages.success(
            request, f"{uuid} is with {node}: what it sent counts; its hours are judged again."
        )
    return redirect("gpu", uuid=uuid)


@require_POST
@needs(Right.FLEET)
def set_idle_power(request: HttpRequest, uuid: str) -> HttpResponse:
    """An admin says what the GPU draws at idle: its open hours are judged by that."""
    with _saying_why_not(request):
        watts = idle_power.read_watts(request.POST.get("watts", ""))
        idle_power.set_by_hand(uuid, watts, by=request.user.get_username(), now=timezone.now())
        messages.success(
            request, f"Idle power set to {watts:g} W: its open hours are judged again."
        )
    return redirect("gpu", uuid=uuid)
