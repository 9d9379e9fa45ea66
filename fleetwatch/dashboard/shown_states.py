"""The state of what the ledger judged as pages tell it. Pure."""

from fleetwatch.figures.state_spans import Kind
from fleetwatch.ledger.explain import Part
from fleetwatch.ledger.models import Adjustment, Entry


def shown_state(judged: Entry | Adjustment | Part) -> str:
    """One of SHOWN_STATES: "busy, unverified" and "waiting" apart from the states they are of."""
    return Kind(judged.state, judged.tier, judged.efficiency_source == "none").shown
