"""Why an incident was raised long after its limit was reached, where that is known."""

from fleetwatch.alerts.measuring.budget_months import slug_of
from fleetwatch.alerts.models import Incident
from fleetwatch.budgets.budgets import WHOLE_FLEET
from fleetwatch.budgets.models import Budget
from fleetwatch.lib.intervals import from_ms

FIRST_LOOK = "before the rule began to watch"
NOT_SEEN = "its data came later, or the hub was behind"
BUDGET_NEWER = "before this budget was set"


def late_reason(incident: Incident) -> str:
    """When its limit was reached, beside what had to be there for it to be raised; "" where it was
    raised in time.
    """
    if not incident.is_raised_late:
        return ""
    if _is_of_newer_budget(incident):
        return BUDGET_NEWER
    return FIRST_LOOK if incident.was_so_at_first_look else NOT_SEEN


def _is_of_newer_budget(incident: Incident) -> bool:
    """Whether the budget that held when it was raised was set after its limit was reached."""
    if incident.facts.get("kind") != "budget":
        return False
    slug = slug_of(incident.subject)
    of_team = {"team": None} if slug == WHOLE_FLEET else {"team__slug": slug}
    rows = Budget.objects.filter(created_at__lte=incident.opened_at, **of_team)
    set_at = rows.order_by("-created_at").values_list("created_at", flat=True).first()
    return set_at is not None and set_at > from_ms(incident.fired_or_since_ms)
