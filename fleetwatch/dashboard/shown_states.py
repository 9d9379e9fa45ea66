"""The state of what the ledger judged as pages tell it. Pure."""

from functools import cache

from fleetwatch.figures.state_spans import Kind
from fleetwatch.ledger.explain import Part
from fleetwatch.ledger.models import Adjustment, Entry


def shown_state(judged: Entry | Adjustment | Part) -> str:
    """One of SHOWN_STATES: "busy, unverified" and "waiting" apart from the states they are of."""
    return _shown(judged.state, judged.tier, judged.efficiency_source == "none")


@cache  # of a page's windows thousands are alike
def _shown(state: str, tier: str, is_busy_only: bool) -> str:
    return Kind(state, tier, is_busy_only).shown
