"""Taking back what was asked for, as far as nobody did it yet."""

from datetime import datetime

from fleetwatch.actions.models import Action
from fleetwatch.ingest.node_orders import withdraw
from fleetwatch.notify.services import expire


def recall(ladder: Action, now: datetime) -> bool:
    """Whether an order, or a call of the webhook, was good until now. Whoever has it already does
    it all the same.
    """
    is_withdrawn = bool(ladder.order_key) and withdraw(ladder.order_key, now)
    is_expired = ladder.call is not None and expire(ladder.call, now)
    return is_withdrawn or is_expired
