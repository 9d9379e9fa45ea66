"""What a month's reports say: lines that sum to the total, to the micro-dollar. Pure: groups of the
ledger in, plain data out.

Dollars are decimal strings and milliseconds integers, so that what is stored is read back exactly.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from fleetwatch.figures import pricing
from fleetwatch.figures.totals import HEADLINE_TIERS, UNALLOCATED, WHY, Group, Totals
from fleetwatch.ledger.policy import STATES, TIERS
from fleetwatch.reports.effects import Effects, Spent, average_usd_per_gpu_hour, effects

Shape = dict[str, Any]
NO_JOB = UNALLOCATED  # the key that costs gives time that no job held
NO_USD = Decimal("0.000000")
TWELVE_PLACES = Decimal("0.000000000001")


@dataclass(frozen=True, slots=True)
class Held:
    """GPU time of one job on GPUs of one model."""

    job: Group
    gpu_model: str
    user: str


def statement_lines(held: Sequence[Held], cost_usd: Decimal) -> list[Shape]:
    """One line per job and GPU model, dearest first; their dollars sum to cost_usd."""
    ordered = sorted(
        held, key=lambda each: (-each.job.totals.cost_usd, each.job.key, each.gpu_model)
    )
    costs = pricing.lines([each.job.totals.cost_usd for each in ordered], total=cost_usd)
    shapes = figures([each.job.totals for each in ordered], costs)
    return [
        {
            "job": each.job.key,
            "name": each.job.label,
            "user": each.user,
            "gpu_model": each.gpu_model,
        }
        | shape
        for each, shape in zip(ordered, shapes, strict=True)
    ]


def own_lines(unheld: Mapping[str, Sequence[Group]], costs: Mapping[str, Decimal]) -> list[Shape]:
    """What no job held, one line per state and GPU model; `unheld` by state, whose dollars sum to
    those of `costs`.
    """
    lines: list[Shape] = []
    for state, models in unheld.items():
        ordered = sorted(models, key=lambda group: group.key)
        amounts = pricing.lines([group.totals.cost_usd for group in ordered], total=costs[state])
        shapes = figures([group.totals for group in ordered], amounts)
        lines += [
            {"state": state, "gpu_model": group.key} | shape
            for group, shape in zip(ordered, shapes, strict=True)
        ]
    return lines


def figures(every: Sequence[Totals], costs: Sequence[Decimal]) -> list[Shape]:
    """GPU time by state, waste and dollars of each line, the dollars of a tier summing to the
    tier's.
    """
    tiers = {tier: pricing.lines([totals.waste_usd[tier] for totals in every]) for tier in TIERS}
    return [
        _figures(totals, cost, {tier: tiers[tier][i] for tier in TIERS})
        for i, (totals, cost) in enumerate(zip(every, costs, strict=True))
    ]


def together(lines: Iterable[Shape]) -> Shape:
    """The sum of lines as figures() made them."""
    total: Shape = {
        "gpu_ms": 0,
        "priced_ms": 0,
        "states": {},
        "cost_usd": NO_USD,
        "waste_usd": dict.fromkeys(TIERS, NO_USD),
    }
    unverified_ms = 0
    for line in lines:
        unverified_ms += line.get("busy_unverified_ms", 0)
        total["gpu_ms"] += line["gpu_ms"]
        total["priced_ms"] += line["priced_ms"]
        total["cost_usd"] += Decimal(line["cost_usd"])
        for state, gpu_ms in line["states"].items():
            total["states"][state] = total["states"].get(state, 0) + gpu_ms
        for tier in TIERS:
            total["waste_usd"][tier] += Decimal(line["waste_usd"][tier])
    wasted = sum((total["waste_usd"][tier] for tier in HEADLINE_TIERS), NO_USD)
    return total | {
        "states": {state: total["states"][state] for state in STATES if state in total["states"]},
        "cost_usd": f"{total['cost_usd']:f}",
        "waste_usd": {tier: f"{amount:f}" for tier, amount in total["waste_usd"].items()},
        "wasted_usd": f"{wasted:f}",
        **_unverified(unverified_ms),
    }


def by_user(lines: Iterable[Shape]) -> list[Shape]:
    """The lines of each user together, dearest first; a job that names none is under ""."""
    users: dict[str, list[Shape]] = {}
    for line in lines:
        users.setdefault(line["user"], []).append(line)
    shapes = [
        {"user": user, "jobs": len({line["job"] for line in held})} | together(held)
        for user, held in users.items()
    ]
    return sorted(shapes, key=lambda shape: (-Decimal(shape["cost_usd"]), shape["user"]))


def breakdown(groups: Sequence[Group], cost_usd: Decimal) -> list[Shape]:
    """One line per group, dearest first, whose dollars sum to cost_usd; none where all groups only
    say why they have no name.
    """
    if all(group.key in WHY for group in groups):
        return []
    ordered = sorted(groups, key=lambda group: (-group.totals.cost_usd, group.key))
    amounts = pricing.lines([group.totals.cost_usd for group in ordered], total=cost_usd)
    shapes = figures([group.totals for group in ordered], amounts)
    return [
        {"key": group.key, "name": group.label} | shape
        for group, shape in zip(ordered, shapes, strict=True)
    ]


def comparison(
    before: Sequence[Group],
    now: Sequence[Group],
    *,
    previous_usd: Decimal | None,
    cost_usd: Decimal,
) -> Shape | None:
    """What changed against the period before and why; groups by GPU model.

    None = the ledger says nothing of that one.
    """
    if previous_usd is None:
        return None
    found = effects(_spent(before), _spent(now), difference_usd=cost_usd - previous_usd)
    return {
        "cost_usd": f"{previous_usd:f}",
        "difference_usd": f"{cost_usd - previous_usd:f}",
        **{name: f"{getattr(found, name):f}" for name in Effects.__slots__},
    }


def split(groups: Sequence[Group]) -> tuple[dict[str, Decimal], dict[str, Decimal]]:
    """The fleet's micro-dollars by team (or why there is none) and, of what no job held, by state:
    all of them sum to the fleet's.

    `groups` are by team. A team or state without GPU time has no share.
    """
    held = sorted((group for group in groups if group.key != NO_JOB), key=lambda group: group.key)
    unheld = [group.totals for group in groups if group.key == NO_JOB]
    states = [
        (state, totals.cost_by_state[state])
        for totals in unheld
        for state in STATES
        if totals.states[state]
    ]
    amounts = pricing.lines(
        [group.totals.cost_usd for group in held] + [amount for _, amount in states]
    )
    by_team = {group.key: amount for group, amount in zip(held, amounts[: len(held)], strict=True)}
    return by_team, {
        state: amount for (state, _), amount in zip(states, amounts[len(held) :], strict=True)
    }


def _figures(totals: Totals, cost_usd: Decimal, waste_usd: dict[str, Decimal]) -> Shape:
    priced_ms = totals.capacity_ms - totals.unpriced_ms
    return {
        "gpu_ms": totals.capacity_ms,
        "priced_ms": priced_ms,
        "states": {state: gpu_ms for state, gpu_ms in totals.states.items() if gpu_ms},
        **_unverified(totals.busy_only_ms),
        "cost_usd": f"{cost_usd:f}",
        "usd_per_gpu_hour": _price(average_usd_per_gpu_hour(Spent(priced_ms, totals.cost_usd))),
        "waste_usd": {tier: f"{amount:f}" for tier, amount in waste_usd.items()},
        "wasted_usd": f"{sum((waste_usd[tier] for tier in HEADLINE_TIERS), NO_USD):f}",
        "has_example_rates": totals.has_example_rates,
    }


def _unverified(gpu_ms: int) -> Shape:
    """The part of useful of which utilisation alone tells; without any a report says what it always
    did, and has no new version.
    """
    return {"busy_unverified_ms": gpu_ms} if gpu_ms else {}


def _price(price: Decimal | None) -> str | None:
    """Twelve places: exact for a rate (six), near enough for the average of several."""
    if price is None:
        return None
    text = f"{price.quantize(TWELVE_PLACES, context=pricing.EXACT):f}".rstrip("0")
    return text + "00" if text.endswith(".") else text


def _spent(groups: Iterable[Group]) -> dict[str, Spent]:
    """Priced time and dollars by GPU model."""
    spent = {
        group.key: Spent(group.totals.capacity_ms - group.totals.unpriced_ms, group.totals.cost_usd)
        for group in groups
    }
    return {key: each for key, each in spent.items() if each.gpu_ms}
