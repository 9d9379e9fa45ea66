"""Totals put together: a breakdown's lines are the whole, so that the ledger is read once. Pure."""

from collections.abc import Iterable, Sequence
from decimal import Decimal

from fleetwatch.figures.selectors import Totals
from fleetwatch.ledger.policy import STATES, TIERS


def together(parts: Sequence[Totals]) -> Totals:
    """The sum of the parts; energy is what was read of it, None where nobody read any."""
    if len(parts) == 1:
        return parts[0]
    energies = [part.energy_j for part in parts if part.energy_j is not None]
    return Totals(
        capacity_ms=sum(part.capacity_ms for part in parts),
        states={state: sum(part.states[state] for part in parts) for state in STATES},
        cost_usd=_usd(part.cost_usd for part in parts),
        cost_by_state={
            state: _usd(part.cost_by_state[state] for part in parts) for state in STATES
        },
        waste_ms={tier: sum(part.waste_ms[tier] for part in parts) for tier in TIERS},
        waste_usd={tier: _usd(part.waste_usd[tier] for part in parts) for tier in TIERS},
        unpriced_ms=sum(part.unpriced_ms for part in parts),
        has_example_rates=any(part.has_example_rates for part in parts),
        energy_j=sum(energies) if energies else None,
        energy_ms=sum(part.energy_ms for part in parts),
        busy_only_ms=sum(part.busy_only_ms for part in parts),
        busy_only_usd=_usd(part.busy_only_usd for part in parts),
        waiting_ms=sum(part.waiting_ms for part in parts),
        waiting_usd=_usd(part.waiting_usd for part in parts),
    )


def _usd(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))
