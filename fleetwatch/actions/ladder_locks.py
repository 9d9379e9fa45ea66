"""A ladder's row, held until the transaction ends; its incident's first, as every step holds it."""

from fleetwatch.actions.models import Action
from fleetwatch.alerts.models import Incident


def locked_ladder(action_id: int) -> Action:
    """The ladder. Raises Action.DoesNotExist."""
    action = Action.objects.get(pk=action_id)
    Incident.objects.select_for_update().filter(pk=action.incident_id or 0).first()
    own = Action.objects.select_for_update(of=("self",))
    return own.select_related("incident", "person", "node", "call", "policy").get(pk=action_id)


def hold_open_ladder(incident: Incident, policy_id: int) -> None:
    """Of an incident whose row is held: nobody keeps its job meanwhile."""
    rows = Action.objects.filter(incident=incident, policy=policy_id, ended_at=None)
    list(rows.select_for_update())
