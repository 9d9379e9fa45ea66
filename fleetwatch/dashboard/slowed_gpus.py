"""What pages say of GPUs that heat or power slowed: what the clock cost, each time that they were,
and the incidents that told of it.
"""

from collections.abc import Iterable, Mapping, Sequence

from fleetwatch.accounts.visibility import sight
from fleetwatch.alerts.breach import Breach
from fleetwatch.alerts.conditions import gpu_slowed
from fleetwatch.alerts.measuring.likely_causes import meanwhile
from fleetwatch.alerts.models import Rule
from fleetwatch.alerts.selectors import IncidentView, views_of, visible_incidents
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context
from fleetwatch.diagnosis.causes import SLOWED
from fleetwatch.diagnosis.findings import clock_losses
from fleetwatch.diagnosis.findings.clock_losses import ClockLoss
from fleetwatch.diagnosis.findings.slowed_spells import Spells, slowed_spells
from fleetwatch.diagnosis.models import Finding
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import Interval

IS_SLOWED = gpu_slowed.CONDITION.name
MAX_INCIDENTS = 8  # of those that are over


def is_of_slowed(breach: Breach) -> bool:
    return breach.kind == "gpu" and breach.label("cause") == SLOWED


def losses(views: Iterable[IncidentView]) -> Mapping[int, ClockLoss]:
    """By id of those of slowed GPUs what the clock cost while each went on."""
    slowed = [view for view in views if is_of_slowed(view.breach)]
    if not slowed:
        return {}
    gpus = inventory.newest_rows({view.breach.subject for view in slowed})
    there = [view for view in slowed if view.breach.subject in gpus]
    asked = [(gpus[view.breach.subject].pk, meanwhile(view.breach)) for view in there]
    return {
        view.incident.pk: loss
        for view, loss in zip(there, clock_losses.of_gpus(asked), strict=True)
    }


def of_incident(view: IncidentView, period: Period) -> Context:
    """Of what is no slowed GPU nothing; each time that it was slowed for who sees machines."""
    loss = losses([view]).get(view.incident.pk)
    return {"clock_loss": loss, "spells": _spells_of(view.breach, period)}


def _spells_of(breach: Breach, period: Period) -> Spells:
    gpu = inventory.gpu(breach.subject) if is_of_slowed(breach) and sight() is None else None
    return slowed_spells([gpu], meanwhile(breach), now=period.now) if gpu else Spells()


def of_finding(finding: Finding, gpus: Sequence[GPU], period: Period) -> Context:
    """Of another cause nothing."""
    if finding.cause != SLOWED:
        return {}
    interval = period.interval
    return {
        "spells": slowed_spells(gpus, interval, now=period.now),
        "earlier_incidents": _over(gpus, interval),
        "clock_losses": _by_gpu(gpus, interval),
        "slowed_rule": Rule.objects.filter(condition=IS_SLOWED, is_shipped=True).first(),
    }


def _by_gpu(gpus: Sequence[GPU], interval: Interval) -> Mapping[int, ClockLoss]:
    """By GPU's id what the clock cost of it."""
    own = clock_losses.of_gpus([(gpu.pk, interval) for gpu in gpus])
    return {gpu.pk: loss for gpu, loss in zip(gpus, own, strict=True)}


def _over(gpus: Sequence[GPU], interval: Interval) -> list[IncidentView]:
    """The newest of these GPUs that are over and went on in the period, as far as the reader may
    see them.
    """
    rows = visible_incidents().filter(
        subject__in=[gpu.uuid for gpu in gpus],
        rule__condition=IS_SLOWED,
        fired_ms__isnull=False,
        since_ms__lt=interval.end_ms,
        ended_ms__gt=interval.start_ms,
    )
    return views_of(rows.order_by("-since_ms", "-pk")[:MAX_INCIDENTS])
