"""The incidents that go on of a node, a GPU or a job: what the pages of these say is wrong."""

from collections.abc import Iterable

from django.db.models import Q

from fleetwatch.alerts.models import Incident, Severity
from fleetwatch.alerts.selectors import IncidentView, views_of, visible_incidents

MOST = 50
FIRES = (Incident.State.FIRING, Incident.State.ACKNOWLEDGED)


def of_node(name: str) -> Q:
    """Those of the node, of its GPUs, and of jobs on them."""
    return Q(facts__contains={"labels": {"node": [name]}})


def of_gpu(uuid: str) -> Q:
    """Those of the GPU, and of jobs that fire because of it among others."""
    return Q(subject=uuid) | Q(facts__contains={"facts": {"gpus": [{"uuid": uuid}]}})


def of_job(key: str, uuids: Iterable[str]) -> Q:
    """Those of the job, and of these GPUs, which it holds."""
    return Q(subject=key) | Q(subject__in=list(uuids))


def firing_since(condition: str, subjects: Iterable[str]) -> dict[str, int]:
    """By the subject since when an incident of a rule of that condition fires, that the reader may
    see.
    """
    rows = visible_incidents().filter(
        rule__condition=condition, subject__in=list(subjects), state__in=FIRES
    )
    return dict(rows.order_by("-since_ms").values_list("subject", "since_ms"))


def going_on(which: Q) -> list[IncidentView]:
    """Of them those that fire and the reader may see, critical ones first, then the
    oldest.
    """
    rows = visible_incidents().filter(which, state__in=FIRES).order_by("since_ms", "pk")[:MOST]
    return sorted(views_of(rows), key=lambda view: view.incident.rule.severity != Severity.CRITICAL)
