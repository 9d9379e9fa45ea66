"""Why an incident was raised long after its limit was reached, where that is known."""

from collections.abc import Callable

from fleetwatch.accounts.selectors import zone
from fleetwatch.alerts.conditions.hub_behind import EVALUATION
from fleetwatch.alerts.measuring.budget_months import slug_of
from fleetwatch.alerts.models import RAISED_LATE_MS, Incident
from fleetwatch.budgets import calendar
from fleetwatch.budgets.budgets import WHOLE_FLEET, counting
from fleetwatch.budgets.models import Budget
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import MINUTE_MS, from_ms, to_ms
from fleetwatch.notify import wording
from fleetwatch.operations.selectors import first_run_since
from fleetwatch.telemetry.arrivals import first_received_at

FIRST_LOOK = "before the rule began to watch"
FIRST_LOOKS_MS = 10 * MINUTE_MS  # of diagnosis, and of the rule at that, since it watches
BUDGET_NEWER = "before this budget was set"
NOT_LOOKED = "and until it was raised the hub looked at no rule"


def late_reason(incident: Incident) -> str:
    """Why it was raised long after its limit was reached, as it is said behind when that was; ""
    where that was in time, or nobody can tell.
    """
    if not incident.is_raised_late:
        return ""
    if _is_of_newer_budget(incident):
        return BUDGET_NEWER
    if _was_so_before(incident):
        return FIRST_LOOK
    return NOT_LOOKED if _nobody_looked(incident) else _data_came(incident)


def late_in_words(incident: Incident, clock: Callable[[int], str]) -> str:
    """When its limit was reached and why it is raised only now; "" where it is in time."""
    if not incident.is_raised_late:
        return ""
    reason = late_reason(incident)
    return f"its limit was reached {clock(incident.limit_ms)}{reason and f', {reason}'}"


def _was_so_before(incident: Incident) -> bool:
    """Whether it was raised by the first looks of its rule at what was so before: then it does not
    matter when its data came.
    """
    begun_ms = incident.rule.begun_ms
    if begun_ms is None or incident.limit_ms >= begun_ms:
        return False
    return to_ms(incident.opened_at) - begun_ms < FIRST_LOOKS_MS


def _nobody_looked(incident: Incident) -> bool:
    """Whether the hub looked at no rule for long after the limit was reached, and its first look
    since raised it.
    """
    first_at = first_run_since(EVALUATION, from_ms(incident.limit_ms))
    if first_at is None:
        return False
    first_ms = to_ms(first_at)
    has_waited = first_ms - incident.limit_ms >= RAISED_LATE_MS
    return has_waited and 0 <= to_ms(incident.opened_at) - first_ms < RAISED_LATE_MS


def _data_came(incident: Incident) -> str:
    """How late the data of that moment came, of one node, while its batches are kept; "" else."""
    names = incident.facts.get("labels", {}).get("node", ())
    node = Node.objects.filter(name=names[0]).first() if len(names) == 1 else None
    if node is None:
        return ""
    received_at = first_received_at(node.pk, incident.limit_ms)
    if received_at is None:
        return ""
    if received_at > incident.opened_at:  # it was raised without: the demo looks at a past
        return ""
    late_ms = to_ms(received_at) - incident.limit_ms
    return f"its data came {wording.duration(late_ms)} late" if late_ms >= RAISED_LATE_MS else ""


def _is_of_newer_budget(incident: Incident) -> bool:
    """Whether the budget that counted when it was raised was set after its limit was reached."""
    if incident.facts.get("kind") != "budget":
        return False
    slug = slug_of(incident.subject)
    of_team = {"team": None} if slug == WHOLE_FLEET else {"team__slug": slug}
    rows = Budget.objects.filter(created_at__lte=incident.opened_at, **of_team)
    fired_at = from_ms(incident.limit_ms)
    budget = counting(rows, calendar.month_of(fired_at, zone()))
    return budget is not None and budget.created_at > fired_at
