"""What every figure is a sum of: GPU time of one state and tier under one rate. Pure."""

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from fleetwatch.figures import pricing
from fleetwatch.figures.packed_spans import Ints
from fleetwatch.figures.priced_columns import Columns, summed_by
from fleetwatch.figures.state_spans import Kind
from fleetwatch.figures.totals import ZERO, Totals
from fleetwatch.ledger.policy import STATES, TIERS


class Cell(NamedTuple):
    """GPU time with all this in common, and its energy; None = no rate held, nobody read it."""

    state: str
    tier: str
    is_busy_only: bool
    usd_per_gpu_hour: Decimal | None
    is_example: bool | None
    gpu_ms: int
    energy_j: float | None
    energy_ms: int


def summed(cells: Iterable[Cell]) -> Totals:
    """The totals of cells: each dollar figure is divided once, from its own exact sum."""
    # one pass: a month has tens of thousands of jobs of a few cells each
    state_ms, tier_ms = dict.fromkeys(STATES, 0), dict.fromkeys(TIERS, 0)
    state_usd, tier_usd = dict.fromkeys(STATES, ZERO), dict.fromkeys(TIERS, ZERO)  # x ms
    capacity_ms = unpriced_ms = energy_ms = busy_only_ms = waiting_ms = 0
    total_usd = busy_only_usd = waiting_usd = ZERO
    has_example_rates = False
    energy_j: float | None = None
    add = pricing.EXACT.add
    for cell in cells:
        gpu_ms, rate = cell.gpu_ms, cell.usd_per_gpu_hour
        capacity_ms += gpu_ms
        energy_ms += cell.energy_ms
        usd_ms = pricing.usd_ms(gpu_ms, rate)
        total_usd = add(total_usd, usd_ms)
        if cell.state in state_ms:
            state_ms[cell.state] += gpu_ms
            state_usd[cell.state] = add(state_usd[cell.state], usd_ms)
        if cell.tier in tier_ms:
            tier_ms[cell.tier] += gpu_ms
            tier_usd[cell.tier] = add(tier_usd[cell.tier], usd_ms)
        if rate is None:
            unpriced_ms += gpu_ms
        if cell.is_busy_only:
            busy_only_ms += gpu_ms
            busy_only_usd = add(busy_only_usd, usd_ms)
        if cell.state == "stalled" and cell.tier == "potential":
            waiting_ms += gpu_ms
            waiting_usd = add(waiting_usd, usd_ms)
        if cell.energy_j is not None and gpu_ms:
            energy_j = (energy_j or 0.0) + cell.energy_j
        has_example_rates = has_example_rates or bool(cell.is_example and gpu_ms)
    return Totals(
        capacity_ms=capacity_ms,
        states=state_ms,
        cost_usd=pricing.divided(total_usd),
        # a group has a state or three: what is nothing is not divided
        cost_by_state={
            state: pricing.divided(usd_ms) if usd_ms else ZERO
            for state, usd_ms in state_usd.items()
        },
        waste_ms=tier_ms,
        waste_usd={
            tier: pricing.divided(usd_ms) if usd_ms else ZERO for tier, usd_ms in tier_usd.items()
        },
        unpriced_ms=unpriced_ms,
        has_example_rates=has_example_rates,
        energy_j=energy_j,
        energy_ms=energy_ms,
        busy_only_ms=busy_only_ms,
        busy_only_usd=pricing.divided(busy_only_usd),
        waiting_ms=waiting_ms,
        waiting_usd=pricing.divided(waiting_usd),
    )


def everything(columns: Columns[Kind]) -> list[Cell]:
    """All spans, those with all in common as one cell."""
    return by_line(columns, np.zeros(len(columns.label), dtype=np.int64)).get(0, [])


def by_line(columns: Columns[Kind], line: Ints) -> dict[int, list[Cell]]:
    """The spans of each line (a number from 0 on), those with all in common as one cell."""
    parts = summed_by(columns, line)
    energy_j = columns.figures["energy_j"]
    was_read = ~np.isnan(energy_j)
    joules = np.bincount(parts.at[was_read], energy_j[was_read], len(parts.line))
    times_read = np.bincount(parts.at[was_read], minlength=len(parts.line))
    cells: dict[int, list[Cell]] = {}
    for number, label, price, gpu_ms, energy, count, energy_ms in zip(
        parts.line.tolist(),
        parts.label.tolist(),
        parts.price.tolist(),
        parts.of(columns.figures["gpu_ms"]).tolist(),
        joules.tolist(),
        times_read.tolist(),
        parts.of(columns.figures["energy_ms"]).tolist(),
        strict=True,
    ):
        state, tier, is_busy_only = columns.labels[label]
        usd_per_gpu_hour, is_example = columns.prices[price]
        joules_or_none = energy if count else None
        cell = Cell(
            state,
            tier,
            is_busy_only,
            usd_per_gpu_hour,
            is_example,
            gpu_ms,
            joules_or_none,
            energy_ms,
        )
        cells.setdefault(number, []).append(cell)
    return cells
