"""What /metrics tells: the fleet of the last full day of the ledger, and the pipeline's own health.

The fleet's figures are gauges over a moving day and no counters: the ledger is recomputed when late
data comes, so a sum since the beginning could fall, and Prometheus would take that for a restart.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from fleetwatch.api.readiness import WORKER, celery_queue_depth
from fleetwatch.diagnosis.queues import waiting
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.pricing import usd
from fleetwatch.inventory.selectors import hosts
from fleetwatch.jobs.allocation_sources import KINDS
from fleetwatch.jobs.selectors import JobSource, job_sources, pending_jobs, waits
from fleetwatch.lib.intervals import Interval, floor_hour, to_ms
from fleetwatch.notify.models import Delivery
from fleetwatch.notify.services import WAITING
from fleetwatch.operations.models import JobRun
from fleetwatch.operations.selectors import heartbeat_age_s, latest_runs
from fleetwatch.telemetry import selectors as telemetry

DAY = timedelta(hours=24)
# the newest hours are still being posted: a node that flushes late would make them look empty
SETTLED = timedelta(hours=1)
FRESH_S, LATE_S = 120, 3600
MAX_REASON = 100  # characters of a label
MAX_PARTITIONS = 100  # as series: jobs' labels are what senders say


def text(now: datetime) -> bytes:
    """The whole page, in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FleetCollector(now))
    return generate_latest(registry)


class FleetCollector(Collector):
    """Metrics as of `now`, read when they are asked for."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from _fleet(self.now)
        yield from _spending(self.now)
        yield from _pipeline(self.now)
        yield from _schedulers(self.now)
        yield from _waiting(self.now)
        yield from _runs(self.now)


def _fleet(now: datetime) -> Iterable[GaugeMetricFamily]:
    labels = ["state", "team", "gpu_model"]
    seconds = GaugeMetricFamily(
        "fleetwatch_day_gpu_seconds",
        "GPU time in the last 24 settled hours of the ledger.",
        labels=labels,
    )
    dollars = GaugeMetricFamily(
        "fleetwatch_day_cost_dollars",
        "Dollars of that time, at the rates that held.",
        labels=labels,
    )
    waste = GaugeMetricFamily(
        "fleetwatch_day_waste_dollars",
        "Dollars wasted in it, by tier.",
        labels=["tier", "team", "gpu_model"],
    )
    unpriced = GaugeMetricFamily(
        "fleetwatch_day_unpriced_gpu_seconds",
        "GPU time in it without a rate.",
        labels=["gpu_model"],
    )
    end = floor_hour(now) - SETTLED
    day = Interval(end - DAY, end)
    for model in costs.totals_by(day, "gpu_model"):
        unpriced.add_metric([model.key], model.totals.unpriced_ms / 1000)
        for team in costs.totals_by(day, "team", scope=costs.Scope(gpu_model=model.key)):
            name = team.key or team.label  # "unallocated": an empty label is none to Prometheus
            for state, gpu_ms in team.totals.states.items():
                if gpu_ms:
                    seconds.add_metric([state, name, model.key], gpu_ms / 1000)
                    dollars.add_metric(
                        [state, name, model.key], float(usd(team.totals.cost_by_state[state]))
                    )
            for tier, amount in team.totals.waste_usd.items():
                if team.totals.waste_ms[tier]:
                    waste.add_metric([tier, name, model.key], float(usd(amount)))
    return seconds, dollars, waste, unpriced


def _spending(now: datetime) -> Iterable[GaugeMetricFamily]:
    found = costs.spending_now(now)
    described = (
        "GPUs that are not retired; judged for the newest minutes, and of these unobserved,"
        " allocated and idle ones."
    )
    gpus = GaugeMetricFamily("fleetwatch_gpus", described, labels=["which"])
    counts = {
        "all": found.gpus,
        "judged": found.judged_gpus,
        "unobserved": found.unobserved_gpus,
        "allocated": found.allocated_gpus,
        "idle": found.idle_gpus,
    }
    for which, count in counts.items():
        gpus.add_metric([which], count)
    rate = GaugeMetricFamily(
        "fleetwatch_spending_dollars_per_hour",
        "What the GPUs cost per hour at this moment.",
        labels=["which"],
    )
    rate.add_metric(["all"], float(usd(found.usd_per_hour)))
    rate.add_metric(["idle"], float(usd(found.idle_usd_per_hour)))
    return gpus, rate


def _pipeline(now: datetime) -> Iterable[GaugeMetricFamily]:
    ages_s = [
        None if at is None else (now - at).total_seconds()
        for at in hosts().values_list("last_received_at", flat=True)
    ]
    nodes = GaugeMetricFamily(
        "fleetwatch_nodes", "Nodes by the age of their last batch.", labels=["last_batch"]
    )
    counts = Counter(_freshness(age_s) for age_s in ages_s)
    for freshness in ("within_2m", "within_1h", "older", "never"):
        nodes.add_metric([freshness], counts[freshness])
    lag = GaugeMetricFamily(
        "fleetwatch_ingest_lag_seconds",
        "Age of the newest batch of any node; absent before the first.",
    )
    received = [age_s for age_s in ages_s if age_s is not None]
    if received:
        lag.add_metric([], min(received))
    heartbeat = GaugeMetricFamily(
        "fleetwatch_worker_heartbeat_age_seconds",
        "Since a worker last said that it lives; absent if never.",
    )
    age_s = heartbeat_age_s(WORKER, now)
    if age_s is not None:
        heartbeat.add_metric([], age_s)
    return nodes, lag, heartbeat, _queues(now)


def _freshness(age_s: float | None) -> str:
    if age_s is None:
        return "never"
    if age_s <= FRESH_S:
        return "within_2m"
    return "within_1h" if age_s <= LATE_S else "older"


def _schedulers(now: datetime) -> Iterable[GaugeMetricFamily]:
    """What nodes that reported in the last hour say of who gives out their GPUs."""
    heard = hosts().filter(last_received_at__gt=now - timedelta(seconds=LATE_S))
    names = dict(heard.values_list("pk", "name"))
    sources = GaugeMetricFamily(
        "fleetwatch_job_sources",
        "Nodes heard in the last hour, by kind of job source and whether it answers.",
        labels=["kind", "ok"],
    )
    answers = Counter(
        (_kind(source), source.is_ok) for found in job_sources(names).values() for source in found
    )
    for kind in sorted({kind for kind, _ in answers}):
        for is_ok in (True, False):
            sources.add_metric([kind, "true" if is_ok else "false"], answers[kind, is_ok])
    drained = GaugeMetricFamily(
        "fleetwatch_node_drained",
        "1 for each such node that takes no jobs.",
        labels=["node", "reason"],
    )
    for node_id, drain in sorted(telemetry.drains(names).items()):
        drained.add_metric([names[node_id], drain.reason[:MAX_REASON]], 1)
    return sources, drained


def _waiting(now: datetime) -> Iterable[GaugeMetricFamily]:
    """What jobs wait for, and how long those had waited that began in the last 24 hours."""
    now_ms = to_ms(now)
    partition = ["cluster", "partition"]
    gpus = GaugeMetricFamily(
        "fleetwatch_pending_gpus",
        "GPUs that a cluster's queue waits for, as agents tell it.",
        labels=["cluster"],
    )
    for queue in waiting(now_ms):
        gpus.add_metric([queue.cluster], queue.gpus)
    jobs = GaugeMetricFamily(
        "fleetwatch_pending_jobs", "Jobs that wait, as accounting said last.", labels=partition
    )
    for pending in pending_jobs(now_ms)[:MAX_PARTITIONS]:
        jobs.add_metric([pending.cluster, pending.partition], pending.jobs)
    began = GaugeMetricFamily(
        "fleetwatch_day_started_jobs",
        "Jobs that began in the last 24 hours, of known submission.",
        labels=partition,
    )
    waited = GaugeMetricFamily(
        "fleetwatch_day_job_wait_seconds", "How long they had waited, together.", labels=partition
    )
    for wait in waits(to_ms(now - DAY), now_ms, limit=MAX_PARTITIONS):
        began.add_metric([wait.cluster, wait.partition], wait.jobs)
        waited.add_metric([wait.cluster, wait.partition], wait.wait_ms / 1000)
    return gpus, jobs, began, waited


def _kind(source: JobSource) -> str:
    """Its kind; one that this hub does not know is "other", so that no sender makes series without
    end.
    """
    return source.kind if source.kind in KINDS else "other"


def _queues(now: datetime) -> GaugeMetricFamily:
    depth = telemetry.depth(now)
    queues = GaugeMetricFamily(
        "fleetwatch_queue_depth",
        "Rows (or Celery messages) that wait to be worked on.",
        labels=["queue"],
    )
    queues.add_metric(["seal"], depth.overdue_hours)
    queues.add_metric(["post"], depth.touched_hours)
    queues.add_metric(["deliver"], Delivery.objects.filter(state__in=WAITING).count())
    celery = celery_queue_depth()
    if celery is not None:
        queues.add_metric(["celery"], celery)
    return queues


def _runs(now: datetime) -> Iterable[GaugeMetricFamily]:
    finished = GaugeMetricFamily(
        "fleetwatch_hour_runs",
        "Runs of background work that began in the last hour.",
        labels=["name", "outcome"],
    )
    outcomes = {"ok": Q(ok=True), "failed": Q(ok=False), "unfinished": Q(ok__isnull=True)}
    counted: Any = (
        JobRun.objects.filter(started_at__gt=now - timedelta(hours=1))
        .values("name")
        .order_by("name")
    )
    for row in counted.annotate(
        **{f"{name}_runs": Count("pk", filter=which) for name, which in outcomes.items()}
    ):
        for name in outcomes:
            finished.add_metric([row["name"], name], row[f"{name}_runs"])
    began = GaugeMetricFamily(
        "fleetwatch_last_run_timestamp_seconds",
        "When the newest run of each kind began.",
        labels=["name"],
    )
    lasted = GaugeMetricFamily(
        "fleetwatch_last_run_duration_seconds",
        "How long it took; absent while it runs.",
        labels=["name"],
    )
    for run in latest_runs():
        began.add_metric([run.name], run.started_at.timestamp())
        if run.finished_at is not None:
            lasted.add_metric([run.name], (run.finished_at - run.started_at).total_seconds())
    return finished, began, lasted
