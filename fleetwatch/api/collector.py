"""What /metrics tells: the fleet of the last full day of the ledger, and the pipeline's own health.

The fleet's figures are gauges over a moving day and no counters: the ledger is recomputed when late
data comes, so a sum since the beginning could fall, and Prometheus would take that for a restart.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, Q
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from fleetwatch.api import alert_metrics
from fleetwatch.api.alert_metrics import Metric
from fleetwatch.api.readiness import WORKER, celery_queue_depth
from fleetwatch.diagnosis.queues import waiting
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.fleet_now import spending_now
from fleetwatch.figures.pricing import usd
from fleetwatch.figures.totals import Totals
from fleetwatch.inventory.selectors import hosts
from fleetwatch.jobs.allocation_sources import KINDS
from fleetwatch.jobs.selectors import job_sources, pending_jobs, waits
from fleetwatch.lib import replica
from fleetwatch.lib.intervals import Interval, floor_hour, to_ms
from fleetwatch.notify.selectors import waiting_deliveries
from fleetwatch.operations.models import JobRun
from fleetwatch.operations.selectors import heartbeat_age_s, latest_runs
from fleetwatch.telemetry import selectors as telemetry

DAY = timedelta(hours=24)
# the newest hours are still being posted: a node that flushes late would make them look empty
SETTLED = timedelta(hours=1)
FRESH_S = 120
LATE_S = 3600
MAX_REASON = 100  # characters of a label
MAX_PARTITIONS = 100  # as series: jobs' labels are what senders say
OUTCOMES = {
    "ok_runs": Count("pk", filter=Q(ok=True)),
    "failed_runs": Count("pk", filter=Q(ok=False)),
    "unfinished_runs": Count("pk", filter=Q(ok__isnull=True)),
}

Sample = tuple[Any, ...]  # the labels' values, then the figure


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
        for part in PARTS:
            for name, described, *labels, samples in part(self.now):
                family = GaugeMetricFamily(f"fleetwatch_{name}", described, labels=labels)
                for *values, figure in samples:
                    family.add_metric(values, figure)
                yield family


def _fleet(now: datetime) -> Iterator[Metric]:
    end = floor_hour(now) - SETTLED
    day = Interval(end - DAY, end)
    models = costs.totals_by(day, "gpu_model")
    yield from _teams(
        [
            # "unallocated": an empty label is none to Prometheus
            (team.key or team.label, model.key, team.totals)
            for model in models
            for team in costs.totals_by(day, "team", scope=costs.Scope(gpu_model=model.key))
        ]
    )
    yield (
        "day_unpriced_gpu_seconds",
        "GPU time in it without a rate.",
        "gpu_model",
        [(model.key, model.totals.unpriced_ms / 1000) for model in models],
    )


def _teams(teams: list[tuple[str, str, Totals]]) -> Iterator[Metric]:
    """Of each team on each GPU model; what there is none of is left out."""
    yield (
        "day_gpu_seconds",
        "GPU time in the last 24 settled hours of the ledger.",
        "state",
        "team",
        "gpu_model",
        _parts(teams, "states", "states", lambda gpu_ms: gpu_ms / 1000),
    )
    yield (
        "day_cost_dollars",
        "Dollars of that time, at the rates that held.",
        "state",
        "team",
        "gpu_model",
        _parts(teams, "states", "cost_by_state", _dollars),
    )
    yield (
        "day_waste_dollars",
        "Dollars wasted in it, by tier.",
        "tier",
        "team",
        "gpu_model",
        _parts(teams, "waste_ms", "waste_usd", _dollars),
    )


def _parts(
    teams: list[tuple[str, str, Totals]],
    times: str,
    amounts: str,
    figure: Callable[[Any], float],
) -> Iterator[Sample]:
    """The amounts of those parts of each team's totals that have any time."""
    for team, model, totals in teams:
        for part, gpu_ms in getattr(totals, times).items():
            if gpu_ms:
                yield part, team, model, figure(getattr(totals, amounts)[part])


def _dollars(amount: Decimal) -> float:
    return float(usd(amount))


def _spending(now: datetime) -> Iterator[Metric]:
    spending = spending_now(now)
    described = (
        "GPUs that are not retired; judged for the newest minutes, and of these unobserved,"
        " allocated and idle ones."
    )
    which = ("judged", "unobserved", "allocated", "idle")
    counts = [(each, getattr(spending, f"{each}_gpus")) for each in which]
    yield "gpus", described, "which", [("all", spending.gpus), *counts]
    yield (
        "spending_dollars_per_hour",
        "What the GPUs cost per hour at this moment.",
        "which",
        [
            ("all", _dollars(spending.usd_per_hour)),
            ("idle", _dollars(spending.idle_usd_per_hour)),
        ],
    )


def _pipeline(now: datetime) -> Iterator[Metric]:
    ages_s = [
        None if at is None else (now - at).total_seconds()
        for at in hosts().values_list("last_received_at", flat=True)
    ]
    counts = Counter(_freshness(age_s) for age_s in ages_s)
    yield (
        "nodes",
        "Nodes by the age of their last batch.",
        "last_batch",
        [(each, counts[each]) for each in ("within_2m", "within_1h", "older", "never")],
    )
    newest_s = min((age_s for age_s in ages_s if age_s is not None), default=None)
    yield (
        "ingest_lag_seconds",
        "Age of the newest batch of any node; absent before the first.",
        _where_known(newest_s),
    )
    yield (
        "worker_heartbeat_age_seconds",
        "Since a worker last said that it lives; absent if never.",
        _where_known(heartbeat_age_s(WORKER, now)),
    )
    yield (
        "replica_behind_seconds",
        "How far the replica that pages read is behind; nothing where it does not answer.",
        _where_known(replica.behind_s()),
    )


def _where_known(figure: float | None, *labels: str) -> list[Sample]:
    return [] if figure is None else [(*labels, figure)]


def _freshness(age_s: float | None) -> str:
    if age_s is None:
        return "never"
    if age_s <= FRESH_S:
        return "within_2m"
    return "within_1h" if age_s <= LATE_S else "older"


def _queues(now: datetime) -> Iterator[Metric]:
    depth = telemetry.depth(now)
    yield (
        "queue_depth",
        "Rows (or Celery messages) that wait to be worked on.",
        "queue",
        [
            ("seal", depth.overdue_hours),
            ("post", depth.touched_hours),
            ("deliver", waiting_deliveries()),
            *_where_known(celery_queue_depth(), "celery"),
        ],
    )


def _schedulers(now: datetime) -> Iterator[Metric]:
    """What nodes that reported in the last hour say of who gives out their GPUs."""
    heard = hosts().filter(last_received_at__gt=now - timedelta(seconds=LATE_S))
    names = dict(heard.values_list("pk", "name"))
    answers = Counter(
        # one that this hub does not know is "other", so that no sender makes series without end
        (source.kind if source.kind in KINDS else "other", source.is_ok)
        for sources in job_sources(names).values()
        for source in sources
    )
    yield (
        "job_sources",
        "Nodes heard in the last hour, by kind of job source and whether it answers.",
        "kind",
        "ok",
        [
            (kind, "true" if is_ok else "false", answers[kind, is_ok])
            for kind in (*KINDS, "other")
            for is_ok in (True, False)
        ],
    )
    yield (
        "node_drained",
        "1 for each such node that takes no jobs.",
        "node",
        "reason",
        [
            (names[node_id], drain.reason[:MAX_REASON], 1)
            for node_id, drain in sorted(telemetry.drains(names).items())
        ],
    )


def _waiting(now: datetime) -> Iterator[Metric]:
    """What jobs wait for, and how long those had waited that began in the last 24 hours."""
    now_ms = to_ms(now)
    partition = ("cluster", "partition")
    yield (
        "pending_gpus",
        "GPUs that a cluster's queue waits for, as agents tell it.",
        "cluster",
        [(queue.cluster, queue.gpus) for queue in waiting(now_ms)],
    )
    yield (
        "pending_jobs",
        "Jobs that wait, as accounting said last.",
        *partition,
        [
            (pending.cluster, pending.partition, pending.jobs)
            for pending in pending_jobs(now_ms)[:MAX_PARTITIONS]
        ],
    )
    began = waits(to_ms(now - DAY), now_ms, limit=MAX_PARTITIONS)
    yield (
        "day_started_jobs",
        "Jobs that began in the last 24 hours, of known submission.",
        *partition,
        [(wait.cluster, wait.partition, wait.jobs) for wait in began],
    )
    yield (
        "day_job_wait_seconds",
        "How long they had waited, together.",
        *partition,
        [(wait.cluster, wait.partition, wait.wait_ms / 1000) for wait in began],
    )


def _runs(now: datetime) -> Iterator[Metric]:
    began: Any = JobRun.objects.filter(started_at__gt=now - timedelta(hours=1))
    yield (
        "hour_runs",
        "Runs of background work that began in the last hour.",
        "name",
        "outcome",
        [
            (row["name"], outcome, row[f"{outcome}_runs"])
            for row in began.values("name").order_by("name").annotate(**OUTCOMES)
            for outcome in ("ok", "failed", "unfinished")
        ],
    )
    runs = latest_runs()
    yield (
        "last_run_timestamp_seconds",
        "When the newest run of each kind began.",
        "name",
        [(run.name, run.started_at.timestamp()) for run in runs],
    )
    yield (
        "last_run_duration_seconds",
        "How long it took; absent while it runs.",
        "name",
        [
            (run.name, (run.finished_at - run.started_at).total_seconds())
            for run in runs
            if run.finished_at is not None
        ],
    )


PARTS = (
    _fleet,
    _spending,
    _pipeline,
    _queues,
    _schedulers,
    _waiting,
    _runs,
    alert_metrics.incidents,
    alert_metrics.findings,
    alert_metrics.spent_budgets,
    alert_metrics.channels,
    alert_metrics.build,
)
