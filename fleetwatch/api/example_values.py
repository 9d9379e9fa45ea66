"""Values of parameters that are there, for the examples of the API's page: as far as its reader
sees them.
"""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from fleetwatch.accounts.visibility import sight
from fleetwatch.alerts.selectors import visible_incidents
from fleetwatch.costs.mapping import attribution
from fleetwatch.diagnosis.models import Finding
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.visible_jobs import visible
from fleetwatch.reports import selectors as reports
from fleetwatch.reports.models import Invoice

# what is the same everywhere
ANYWHERE = {"state": "idle", "range": "30d", "from": "now-7d", "to": "now", "limit": "10"}


def example_values(now: datetime) -> dict[str, str]:
    """By the parameter's name, or that of what a number is of; none of what there is nothing of, or
    nothing that the reader sees.
    """
    job = visible(Job.objects.exclude(start_ms=None)).order_by("-pk").first()
    values = ANYWHERE | (_of_job(job, now) if job else {})
    return {name: value for name, value in (values | _numbers() | _machine()).items() if value}


def _of_job(job: Job, now: datetime) -> dict[str, str]:
    attribution.into_teams([job], before=now)
    return {
        "key": job.key,
        "job": job.key,
        "user": job.user,
        "team": job.team.slug if job.team else "",
        "kind": job.kind,
        "cluster": job.cluster,
        "job_name": job.name,
    }


def _machine() -> dict[str, str]:
    """A GPU and its node, of who sees machines."""
    gpu = GPU.objects.filter(parent=None).select_related("node", "model").order_by("pk").first()
    if gpu is None or sight() is not None:
        return {}
    model = gpu.model.name if gpu.model else ""
    return {"uuid": gpu.uuid, "gpu": gpu.uuid, "node": gpu.node.name, "gpu_model": model}


def _numbers() -> dict[str, str]:
    """Of the newest finding, incident, report and invoice."""
    findings = Finding.objects.filter(job__in=visible(Job.objects.all()))
    return {
        "finding": _newest(findings),
        "incident": _newest(visible_incidents()),
        "report_id": _newest(reports.visible()),
        "month": _newest(Invoice.objects.all(), "month"),
    }


def _newest(rows: QuerySet[Any], name: str = "pk") -> str:
    """The newest row's; "" where there is none."""
    newest = rows.order_by("-pk").values_list(name, flat=True).first()
    return "" if newest is None else str(newest)
