"""Rows of the lists: facts of a model beside its figures."""

from collections.abc import Sequence
from typing import Any

from fleetwatch.alerts.models import Incident
from fleetwatch.api.money_figures import gpu_hours
from fleetwatch.costs.models import GPURate, MappingRule, Rate
from fleetwatch.diagnosis.caused import Saving
from fleetwatch.diagnosis.causes import UNDETERMINED, title
from fleetwatch.diagnosis.queues import Queue
from fleetwatch.diagnosis.rules import CONFIDENCES
from fleetwatch.diagnosis.selectors import Primary
from fleetwatch.figures.pricing import usd
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.inventory.selectors import Place
from fleetwatch.jobs.models import Job, JobChange
from fleetwatch.jobs.records import Voice
from fleetwatch.jobs.selectors import Contradicted, JobSource, PendingJobs, wait_ms
from fleetwatch.ledger.policy import STATES
from fleetwatch.ledger.selectors import idle_power
from fleetwatch.lib.intervals import from_ms
from fleetwatch.telemetry.selectors import Drain

Shape = dict[str, Any]


def cause_of(primary: Primary | None, evidence: Sequence[str] = ()) -> Shape:
    """Why a job wastes; where nothing was diagnosed nobody knows: said, and not left out."""
    if primary is None or primary.cause == UNDETERMINED:
        return {
            "key": UNDETERMINED,
            "title": title(UNDETERMINED),
            "confidence": None,
            "evidence": [],
        }
    return {
        "key": primary.cause,
        "title": title(primary.cause),
        "confidence": CONFIDENCES[primary.confidence] or None,
        "evidence": list(evidence),
    }


def job_row(job: Job, figures: Shape, cause: Shape, saving: Saving | None = None) -> Shape:
    """`saving` is what all its findings could save in the period; None = nothing was diagnosed."""
    wait = wait_ms(job)
    return figures | {
        "key": job.key,
        "name": job.name,
        "scheduler": job.scheduler,
        "cluster": job.cluster,
        "id": job.external_id,
        "user": job.user,
        "account": job.account,
        "team": job.team.slug if job.team else None,
        "kind": job.kind,
        "state": job.state,
        "submit_at": _at(job.submit_ms),
        "start_at": _at(job.start_ms),
        "end_at": _at(job.end_ms),
        "wait_s": None if wait is None else wait / 1000,
        "partition": _label(job, "partition"),
        "qos": _label(job, "qos"),
        "restarts": job.restarts,
        "labels": job.labels,
        "gpu_hours": {state: gpu_hours(figures["states"][state]) for state in STATES},
        "primary_cause": cause,
        "savings_gpu_hours": None
        if saving is None
        else [gpu_hours(saving.low_ms), gpu_hours(saving.high_ms)],
        "savings_usd": None
        if saving is None
        else [float(usd(saving.low_usd)), float(usd(saving.high_usd))],
    }


def namesake_row(job: Job) -> Shape:
    return {"key": job.own_key, "user": job.user, "account": job.account}


def _label(job: Job, name: str) -> str | None:
    return str(job.labels[name]) if name in job.labels else None


def queue_rows(queues: Sequence[Queue], pending: Sequence[PendingJobs]) -> list[Shape]:
    """What agents tell of clusters' whole queues, then what accounting told of partitions' jobs
    that wait.
    """
    return [_queue_row(queue) for queue in queues] + [_pending_row(waiting) for waiting in pending]


def _queue_row(queue: Queue) -> Shape:
    unknown = {"partition": None, "pending_jobs": None, "oldest_submit_at": None}
    known = {
        "cluster": queue.cluster,
        "pending_gpus": queue.gpus,
        "told_by": "agent",
        "told_at": from_ms(queue.told_ms),
    }
    return unknown | known


def _pending_row(pending: PendingJobs) -> Shape:
    return {
        "cluster": pending.cluster,
        "partition": pending.partition,
        "pending_gpus": pending.gpus,
        "pending_jobs": pending.jobs,
        "oldest_submit_at": from_ms(pending.since_ms),
        "told_by": "accounting",
        "told_at": None,
    }


def contradiction_row(told: Contradicted) -> Shape:
    return {
        "node": told.node or None,
        "by": told.voice.name.lower(),
        "fact": told.fact,
        "value": told.value,
    }


def change_row(change: JobChange) -> Shape:
    by = Voice(change.voice).name.lower()
    node = change.node.name if change.node else None
    return {
        "key": change.job.own_key,
        "at": change.at,
        "node": node,
        "by": by,
        "facts": change.facts,
        "refused": change.refused,
    }


def node_row(
    node: Node, figures: Shape, sources: Sequence[JobSource], drain: Drain | None
) -> Shape:
    """`drain`: None = the node takes jobs."""
    return figures | {
        "name": node.name,
        "labels": node.labels,
        "window_s": node.window_s,
        "last_at": _at(node.last_ms),
        "last_received_at": node.last_received_at,
        "agent": node.agent,
        "sources": [source_row(source) for source in sources],
        "drained": None
        if drain is None
        else {"since": from_ms(drain.since_ms), "reason": drain.reason},
        "gpu_count": sum(
            1
            for gpu in node.gpus.all()
            if gpu.parent_id is None and gpu.first_ms is not None and gpu.retired_ms is None
        ),
    }


def source_row(source: JobSource) -> Shape:
    return {
        "kind": source.kind,
        "ok": source.is_ok,
        "reported_at": from_ms(source.reported_ms),
        "silent_since": _at(source.silent_ms),
        "why": source.why,
    }


def idle_power_row(gpu: GPU) -> Shape | None:
    """What the GPU draws at idle and how that is known; None where it is not."""
    row = idle_power(gpu)
    if row is not None:
        source = "learned" if row.readings else "set"
        return {
            "watts": row.watts,
            "source": source,
            "readings": row.readings,
            "first_at": _at(row.first_ms),
            "last_at": _at(row.last_ms),
        }
    if gpu.model is None or gpu.model.idle_w is None:
        return None
    return {
        "watts": gpu.model.idle_w,
        "source": "model",
        "readings": 0,
        "first_at": None,
        "last_at": None,
    }


def gpu_row(gpu: GPU, figures: Shape) -> Shape:
    return figures | {
        "uuid": gpu.uuid,
        "node": gpu.node.name,
        "index": gpu.index,
        "gpu_model": gpu.model.name if gpu.model else None,
        "driver_model_name": gpu.model_name,
        "memory_total_bytes": gpu.memory_total_bytes,
        "power_limit_w": gpu.power_limit_w,
        "sm_count": gpu.sm_count,
        "parent_uuid": gpu.parent.uuid if gpu.parent else None,
        "mig_profile": gpu.mig_profile,
        "instances": [
            {"uuid": part.uuid, "mig_profile": part.mig_profile} for part in gpu.instances.all()
        ],
        "persistence": gpu.persistence,
        "unread": gpu.unread,
        "first_at": _at(gpu.first_ms),
        "last_at": _at(gpu.newest_ms),
        "retired_at": _at(gpu.retired_ms),
    }


def place_row(place: Place) -> Shape:
    return {
        "node": place.node,
        "from": from_ms(place.first_ms),
        "to": from_ms(place.last_ms),
        "is_believed": place.is_believed,
    }


def rate_span(rate: GPURate) -> Shape:
    return {
        "usd_per_gpu_hour": float(rate.usd_per_gpu_hour),
        "is_example": rate.is_example,
        "valid_from": rate.valid_from,
        "valid_to": rate.valid_to,
    }


def rate_row(rate: Rate) -> Shape:
    return {
        "id": rate.pk,
        "usd_per_gpu_hour": float(rate.price_per_gpu_hour) if rate.currency == "USD" else None,
        "price_per_gpu_hour": float(rate.price_per_gpu_hour),
        "currency": rate.currency,
        "is_example": rate.is_example,
        "valid_from": rate.valid_from,
        "valid_to": rate.valid_to,
        "gpu_model": rate.gpu_model.name if rate.gpu_model else None,
        "node": rate.node.name if rate.node else None,
        "gpu": rate.gpu.uuid if rate.gpu else None,
        "pool": rate.pool or None,
        "node_class": rate.node_class or None,
        "region": rate.region or None,
        "pricing_class": rate.pricing_class or None,
        "source": rate.source,
        "source_date": rate.source_date,
        "components": rate.components,
    }


def mapping_row(place: int, rule: MappingRule) -> Shape:
    asks = {
        name: getattr(rule, name) or None
        for name in ("user", "account", "namespace", "partition", "label", "label_value")
    }
    return asks | {
        "id": rule.pk,
        "place": place,
        "priority": rule.priority,
        "team": rule.team.slug if rule.team else None,
        "project": rule.project or None,
        "cost_centre": rule.cost_centre or None,
        "valid_from": rule.valid_from,
        "valid_to": rule.valid_to,
        "note": rule.note,
    }


def incident_row(incident: Incident) -> Shape:
    return {
        "id": incident.pk,
        "rule": incident.rule.name,
        "condition": incident.rule.condition,
        "subject": incident.subject,
        "opened_at": incident.opened_at,
        "updated_at": incident.updated_at,
        "resolved_at": incident.resolved_at,
        "facts": incident.facts.get("facts", incident.facts),
    }


def _at(moment_ms: int | None) -> Any:
    return None if moment_ms is None else from_ms(moment_ms)
