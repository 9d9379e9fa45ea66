"""What a month's reports say: lines that sum to the total, to the micro-dollar. Pure: groups of the
ledger in, plain data out.

Dollars are Decimals and milliseconds integers; stored() makes the dollars text, so that they are
read back exactly.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import Any

import msgspec

from fleetwatch.figures import pricing
from fleetwatch.figures.pricing import MICRO_USD
from fleetwatch.figures.totals import HEADLINE_TIERS, UNALLOCATED, WHY, Group, Totals
from fleetwatch.ledger.policy import STATES, TIERS
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.reports.effects import Spent, at_its_price, effects

Shape = dict[str, Any]
NO_JOB = UNALLOCATED  # the key that costs gives time that no job held
PARTS = ("busy_unverified_ms", "waiting_ms")  # of useful, and of stalled
NO_USD = Decimal("0.000000")
TWELVE_PLACES = Decimal("0.000000000001")
MOMENT = "%Y-%m-%dT%H:%M:%SZ"


def by_model(models: Sequence[Group], cost_usd: Decimal) -> list[Shape]:
    """One line per GPU model; their dollars sum to cost_usd."""
    return lines_of([{"gpu_model": group.key} for group in models], models, cost_usd)


def lines_of(heads: Iterable[Shape], groups: Sequence[Group], cost_usd: Decimal) -> list[Shape]:
    """What a line says first, and the figures of its group; their dollars sum to cost_usd."""
    costs = pricing.lines([group.totals.cost_usd for group in groups], total=cost_usd)
    return with_figures(heads, groups, costs)


def with_figures(
    heads: Iterable[Shape], groups: Iterable[Group], costs: Sequence[Decimal]
) -> list[Shape]:
    """What a line says first, and the figures of its group, at that cost; wasted dollars of a tier
    sum to the tier's.
    """
    every = [group.totals for group in groups]
    tiers = [pricing.lines([totals.waste_usd[tier] for totals in every]) for tier in TIERS]
    return [
        head | _figures(totals, cost_usd, dict(zip(TIERS, waste_usd, strict=True)))
        for head, totals, cost_usd, *waste_usd in zip(heads, every, costs, *tiers, strict=True)
    ]


def figures(totals: Totals, cost_usd: Decimal) -> Shape:
    """The figures of one total."""
    return _figures(
        totals, cost_usd, {tier: pricing.usd(usd) for tier, usd in totals.waste_usd.items()}
    )


def together(lines: Sequence[Shape]) -> Shape:
    """The sum of lines as figures() made them."""
    states: Counter[str] = Counter()
    for line in lines:
        states.update(line["states"])
    waste_usd = {tier: summed(line["waste_usd"][tier] for line in lines) for tier in TIERS}
    return {
        "gpu_ms": sum(line["gpu_ms"] for line in lines),
        "priced_ms": sum(line["priced_ms"] for line in lines),
        "states": dict(states),
        "cost_usd": summed(line["cost_usd"] for line in lines),
        **_waste(waste_usd),
        **_parts(*(sum(line.get(part, 0) for line in lines) for part in PARTS)),
    }


def stored(content: Shape) -> Shape:
    """The same as plain data: amounts, of six places at most, are text with all their digits."""
    plain: Shape = msgspec.to_builtins(content)
    return plain


def rounded(amount: Decimal | None, step: Decimal = MICRO_USD) -> Decimal | None:
    """The amount in such steps; None of one that is not known."""
    return None if amount is None else pricing.usd(amount, step)


def amount_or_none(text: str | Decimal | None) -> Any:
    """A Decimal again of what is stored; None of None."""
    return None if text is None else Decimal(text)


def summed(amounts: Iterable[str | Decimal]) -> Decimal:
    """Their sum; a text is an amount as it was stored."""
    return sum(map(Decimal, amounts), NO_USD)


def by_user(lines: Iterable[Shape]) -> list[Shape]:
    """The lines of each user together, dearest first; a job that names none is under ""."""
    users: dict[str, list[Shape]] = defaultdict(list)
    for line in lines:
        users[line["user"]].append(line)
    shapes = [
        {"user": user, "jobs": len({line["job"] for line in held})} | together(held)
        for user, held in users.items()
    ]
    return sorted(shapes, key=lambda shape: (-shape["cost_usd"], shape["user"]))


def breakdown(groups: Sequence[Group], cost_usd: Decimal) -> list[Shape]:
    """One line per group, dearest first, whose dollars sum to cost_usd; none where all groups only
    say why they have no name.
    """
    if all(group.key in WHY for group in groups):
        return []
    ordered = sorted(groups, key=lambda group: (-group.totals.cost_usd, group.key))
    heads = [{"key": group.key, "name": group.label} for group in ordered]
    return lines_of(heads, ordered, cost_usd)


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
    difference_usd = cost_usd - previous_usd
    parts = effects(_spent(before), _spent(now), difference_usd=difference_usd)
    return {"cost_usd": previous_usd, "difference_usd": difference_usd, **asdict(parts)}


def split(groups: Sequence[Group]) -> tuple[dict[str, Decimal], dict[str, Decimal]]:
    """The fleet's micro-dollars by team (or why there is none) and, of what no job held, by state:
    all of them sum to the fleet's.

    `groups` are by team. A team or state without GPU time has no share.
    """
    held = {
        group.key: group.totals.cost_usd
        for group in sorted(groups, key=lambda group: group.key)
        if group.key != NO_JOB
    }
    unheld = {
        state: group.totals.cost_by_state[state]
        for group in groups
        if group.key == NO_JOB
        for state in STATES
        if group.totals.states[state]
    }
    amounts = iter(pricing.lines([*held.values(), *unheld.values()]))
    return {team: next(amounts) for team in held}, {state: next(amounts) for state in unheld}


def _figures(totals: Totals, cost_usd: Decimal, waste_usd: dict[str, Decimal]) -> Shape:
    return {
        "gpu_ms": totals.capacity_ms,
        "priced_ms": totals.priced_ms,
        "states": {state: gpu_ms for state, gpu_ms in totals.states.items() if gpu_ms},
        **_parts(totals.busy_only_ms, totals.waiting_ms),
        "cost_usd": cost_usd,
        "usd_per_gpu_hour": price(totals),
        **_waste(waste_usd),
        "has_example_rates": totals.has_example_rates,
    }


def _waste(waste_usd: Mapping[str, Decimal]) -> Shape:
    return {
        "waste_usd": waste_usd,
        "wasted_usd": summed(waste_usd[tier] for tier in HEADLINE_TIERS),
    }


def _parts(*of_states: int) -> Shape:
    """The part of useful of which utilisation alone tells, and what services wait of stalled;
    without any a report says what it always did, and has no new version.
    """
    return {part: gpu_ms for part, gpu_ms in zip(PARTS, of_states, strict=True) if gpu_ms}


def price(totals: Totals) -> str | None:
    """What a GPU-hour cost, to twelve places: exact for a rate (six), near enough for the average
    of several; None without priced time.
    """
    if not totals.priced_ms:
        return None
    mean = pricing.usd(at_its_price(totals.cost_usd, totals.priced_ms, HOUR_MS), TWELVE_PLACES)
    digits = f"{mean:f}".rstrip("0")
    return digits + "00" if digits.endswith(".") else digits


def _spent(groups: Iterable[Group]) -> dict[str, Spent]:
    """Priced time and dollars by GPU model."""
    spent = {group.key: Spent(group.totals.priced_ms, group.totals.cost_usd) for group in groups}
    return {key: each for key, each in spent.items() if each.gpu_ms}
