"""What a report prints: cents and hundredths of GPU-hours that sum to the printed total, as its
micro-dollars and milliseconds sum to the exact one. Pure.

A shape with figures gets an entry `printed`: its figures as they are shown, the exact ones stay
beside them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from fleetwatch.figures.pricing import CENT, EXACT, can_sum_to, exact_sum, lines, usd
from fleetwatch.figures.totals import HEADLINE_TIERS
from fleetwatch.ledger.policy import TIERS
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.reports.statement import Shape, together

NONE_PINNED: Mapping[int, Decimal] = {}
NOTHING = Decimal("0.00")
TEN_THOUSANDTH = Decimal("0.0001")
EFFECTS = ("volume_usd", "mix_usd", "rate_usd")


def hours(gpu_ms: int) -> Decimal:
    """GPU-hours of milliseconds, not rounded."""
    return EXACT.divide(Decimal(gpu_ms), Decimal(HOUR_MS))


def apportioned(
    amounts: Sequence[Decimal], total: Decimal, pinned: Mapping[int, Decimal] = NONE_PINNED
) -> list[Decimal]:
    """The amounts to the cent (or hundredth) that sum to `total`, each rounded down or up; by their
    place those that are `pinned`, where the others can take what that leaves. What is exactly
    nothing is printed as nothing, pinned or not, as long as the others can take what that leaves.

    Where the total is not their sum, all are rounded to the nearest one.
    """
    nothing = {place: NOTHING for place, amount in enumerate(amounts) if not amount}
    for kept in ({**nothing, **pinned}, nothing, NONE_PINNED):
        rest = total - exact_sum(kept.values())
        others = [amount for place, amount in enumerate(amounts) if place not in kept]
        if can_sum_to(rest, others, CENT):
            shown = iter(lines(others, CENT, total=rest))
            return [kept[place] if place in kept else next(shown) for place in range(len(amounts))]
    return [usd(amount, CENT) for amount in amounts]


def at_most(
    limits: Sequence[Decimal],
    amounts: Sequence[Decimal],
    total: Decimal,
    pinned: Mapping[int, Decimal] = NONE_PINNED,
) -> list[Decimal]:
    """The same of amounts that are a part of something each, none of which is printed as more than
    that is, `limits`, where the others can take what that leaves.
    """
    shown = apportioned(amounts, total, pinned)
    while above := {
        place: limit
        for place, (limit, part) in enumerate(zip(limits, shown, strict=True))
        if part > limit and place not in pinned
    }:
        pinned = {**pinned, **above}
        shown = apportioned(amounts, total, pinned)
    return shown


def multiplied_hours(every_ms: Sequence[int]) -> tuple[list[Decimal], Decimal]:
    """GPU-hours to four places, which stand to be multiplied by a rate, and what they sum to."""
    shown = lines(list(map(hours, every_ms)), TEN_THOUSANDTH)
    return shown, exact_sum(shown)


def total(shape: Shape) -> Shape:
    """A report's total as printed: certain and probable sum to wasted, states to the GPU-hours."""
    waste_usd = shape["waste_usd"]
    wasted_usd = usd(shape["wasted_usd"], CENT)
    rest = {tier: usd(waste_usd[tier], CENT) for tier in TIERS if tier not in HEADLINE_TIERS}
    gpu_hours = usd(hours(shape["gpu_ms"]), CENT)
    states = apportioned(list(map(hours, shape["states"].values())), gpu_hours)
    figures = {
        "cost_usd": usd(shape["cost_usd"], CENT),
        "wasted_usd": wasted_usd,
        **_tiers(shape),
        **rest,
        "gpu_hours": gpu_hours,
        "states": dict(zip(shape["states"], states, strict=True)),
    }
    return shape | {"printed": figures}


def with_waste(whole: Shape, teams: Sequence[Shape], own_lines: Sequence[Shape]) -> Shape:
    """The fleet's printed total with what is wasted as the teams' own statements and the lines of
    what no job held print it, added up; so, too, what is potential where no such line has any.
    """
    costs = [_READERS["cost_usd"](team) for team in teams]
    own = own_waste(costs, own_lines, whole["printed"]["cost_usd"])
    names = HEADLINE_TIERS if any(map(_READERS["potential"], own_lines)) else TIERS
    shown = {
        name: exact_sum([*_shown_alone(teams, name), own.get(name, NOTHING)]) for name in names
    }
    wasted_usd = exact_sum(shown[tier] for tier in HEADLINE_TIERS)
    return whole | {"printed": whole["printed"] | shown | {"wasted_usd": wasted_usd}}


def own_waste(
    team_costs: Sequence[Decimal], own_lines: Sequence[Shape], cost_usd: Decimal
) -> dict[str, Decimal]:
    """What lines of what no job held print as certain and as probable in all: what is all of a
    line's cost as that is printed, beside the teams' in the fleet's `cost_usd`.
    """
    read = _READERS["cost_usd"]
    costs = [*team_costs, *map(read, own_lines)]
    of_teams = {place: usd(amount, CENT) for place, amount in enumerate(team_costs)}
    shown = apportioned(costs, cost_usd, of_teams)[len(team_costs) :]
    printed = {}
    for tier in HEADLINE_TIERS:
        amounts = list(map(_READERS[tier], own_lines))
        whole = _all_of_it(amounts, list(map(read, own_lines)), shown)
        printed[tier] = exact_sum(
            whole.get(place, usd(amount, CENT)) for place, amount in enumerate(amounts)
        )
    return printed


def _shown_alone(teams: Sequence[Shape], name: str) -> Iterable[Decimal]:
    return _alone(teams, list(map(_READERS[name], teams)), name).values()


def with_states(whole: Shape, own_lines: Sequence[Shape]) -> Shape:
    """The printed total with the hours of states that no job holds as their own lines print them,
    where these are all of the state.
    """
    states = whole["states"]
    pinned = {}
    for place, (state, gpu_ms) in enumerate(states.items()):
        lines_of = [line for line in own_lines if line["state"] == state]
        if lines_of and sum(line["gpu_ms"] for line in lines_of) == gpu_ms:
            pinned[place] = column_sum(lines_of, "gpu_hours")
    figures = whole["printed"]
    amounts = apportioned(list(map(hours, states.values())), figures["gpu_hours"], pinned)
    return whole | {"printed": figures | {"states": dict(zip(states, amounts, strict=True))}}


def commitment(line: Shape) -> Shape:
    """A commitment's dollars as printed: with what was not there, as its line prints that, they sum
    to what was committed.
    """
    missing_usd = line["printed"]["missing_usd"]
    committed_usd = usd(line["committed_usd"], CENT)
    parts = [line["used_usd"], line["unheld_usd"]]
    used_usd, unheld_usd = apportioned(parts, committed_usd - missing_usd)
    figures = {
        "committed_usd": committed_usd,
        "used_usd": used_usd,
        "unheld_usd": unheld_usd,
        "unused_usd": unheld_usd + missing_usd,
    }
    return line | {"printed": line["printed"] | figures}


def rows(shapes: Sequence[Shape], of: Shape | None, *, firm: int = 0) -> list[Shape]:
    """The rows as printed: each column sums to that of the printed total `of`, or without one to
    its own sum. The first `firm` rows are what their own statements print, where the others can
    take the rest; what is all of a row's cost is printed as that.
    """
    columns: dict[str, list[Decimal]] = {}
    costs = [shape["cost_usd"] for shape in shapes]
    for name, read in _READERS.items():
        if not shapes or not _has(shapes[0], name):
            continue
        amounts = list(map(read, shapes))
        shown = columns.get("cost_usd", [])
        pinned = _alone(shapes[:firm], amounts, name) | _all_of_it(amounts, costs, shown)
        columns[name] = _column(amounts, of and of["printed"][name], pinned)
    return [
        shape | {"printed": {name: column[place] for name, column in columns.items()}}
        for place, shape in enumerate(shapes)
    ]


def within(shapes: Sequence[Shape], groups: Sequence[Shape], name: str) -> list[Shape]:
    """The rows as printed, each column of those with a group's `name` summing to what it prints:
    what is the group's only row reads as the group does.
    """
    places: dict[Any, list[int]] = defaultdict(list)
    for place, shape in enumerate(shapes):
        places[shape[name]].append(place)
    shown: dict[int, Shape] = {}
    for group in groups:
        of_group = places[group[name]]
        shown |= zip(of_group, rows([shapes[place] for place in of_group], group), strict=True)
    return [shown[place] for place in range(len(shapes))]


def _alone(shapes: Sequence[Shape], amounts: Sequence[Decimal], name: str) -> dict[int, Decimal]:
    """By place what a row prints where it stands alone, as the total of its own statement."""
    if name in HEADLINE_TIERS:
        return {place: _tiers(shape)[name] for place, shape in enumerate(shapes)}
    return {place: usd(amounts[place], CENT) for place in range(len(shapes))}


def _tiers(shape: Shape) -> dict[str, Decimal]:
    """Certain and probable of what is wasted, which they sum to."""
    wasted_usd = usd(shape["wasted_usd"], CENT)
    amounts = [shape["waste_usd"][tier] for tier in HEADLINE_TIERS]
    return dict(zip(HEADLINE_TIERS, apportioned(amounts, wasted_usd), strict=True))


def _all_of_it(
    amounts: Sequence[Decimal], costs: Sequence[Decimal], shown: Sequence[Decimal]
) -> dict[int, Decimal]:
    """By its place what is printed of a row's cost, where the amount is all of that."""
    both = enumerate(zip(amounts, costs, shown, strict=bool(shown)))
    return {place: cost for place, (amount, exact, cost) in both if amount == exact}


def _column(amounts: Sequence[Decimal], total: Any, pinned: Mapping[int, Decimal]) -> list[Decimal]:
    """`total`: a Decimal, or None: their own sum."""
    if total is None:
        total = usd(exact_sum(amounts), CENT)
    return apportioned(amounts, total, pinned)


def _has(shape: Shape, name: str) -> bool:
    return name in shape or name == "gpu_hours" or name in shape.get("waste_usd", ())


def _reader(name: str) -> Callable[[Shape], Decimal]:
    if name in TIERS:
        return lambda shape: Decimal(shape["waste_usd"][name])
    return lambda shape: Decimal(shape[name])


_READERS: dict[str, Callable[[Shape], Decimal]] = {
    **{name: _reader(name) for name in ("cost_usd", "wasted_usd", *TIERS)},
    "gpu_hours": lambda shape: hours(shape["gpu_ms"]),
}


def wasters(shapes: Sequence[Shape]) -> list[Shape]:
    """Rows each of which says what of its own waste is certain and probable."""
    return [total(shape) for shape in shapes]


def summed(rows: Sequence[Shape]) -> Shape:
    """The rows as one: each printed column is the sum of what they print. There is one at least."""
    columns = [name for name, shown in rows[0]["printed"].items() if isinstance(shown, Decimal)]
    return together(rows) | {"printed": {name: column_sum(rows, name) for name in columns}}


def column_sum(rows: Sequence[Shape], name: str) -> Decimal:
    """What rows print in a column, added up."""
    return exact_sum([row["printed"][name] for row in rows])


def cents_of(rows: Iterable[object], name: str) -> Decimal:
    """The dollars of that name, each to its nearest cent, added up."""
    return exact_sum([usd(getattr(row, name), CENT) for row in rows])


def comparison(compared: Shape, cost_usd: Decimal) -> Shape:
    """Before and the effects, as printed: together they are the printed `cost_usd`."""
    before_usd = usd(compared["cost_usd"], CENT)
    parts = apportioned([compared[name] for name in EFFECTS], cost_usd - before_usd)
    figures = dict(zip(EFFECTS, parts, strict=True))
    difference = {"cost_usd": before_usd, "difference_usd": cost_usd - before_usd}
    return compared | {"printed": figures | difference}


def one_column(
    shapes: Sequence[Shape], name: str, start_usd: Decimal, end_usd: Decimal
) -> list[Shape]:
    """Rows of dollars that lead from one printed total to another."""
    parts = apportioned([shape[name] for shape in shapes], end_usd - start_usd)
    return [shape | {"printed": {name: part}} for shape, part in zip(shapes, parts, strict=True)]


def at_the_rates(line: Shape, differs_usd: Decimal) -> Shape:
    """Of a printed commitment what of it was there: by its contract price, at the rates, and what
    of these differs, as printed.
    """
    shown = line["printed"]
    there_usd = shown["used_usd"] + shown["unheld_usd"]
    figures = {
        "there_usd": there_usd,
        "rate_book_usd": there_usd - differs_usd,
        "rate_book_differs_usd": differs_usd,
    }
    return line | {"printed": shown | figures}


def with_parts(free: Shape, costs: Mapping[str, Decimal], free_usd: Decimal) -> Shape:
    """The teams' parts of the free capacity, as printed: beside `costs`, by slug, and with what is
    left they sum to `free_usd`; each is what its own statement prints, where what is left can take
    that.
    """
    teams = list(map(with_part, free["teams"]))
    pinned = {place: team["printed"]["free_usd"] for place, team in enumerate(teams)}
    parts = [*(team["free_usd"] for team in teams), free["left_usd"]]
    *shown, left_usd = apportioned(parts, free_usd, pinned)
    printed = [
        team | {"printed": _sum_of_both(costs.get(team["slug"], team["printed"]["cost_usd"]), part)}
        for team, part in zip(teams, shown, strict=True)
    ]
    cost_usd = column_sum(printed, "cost_usd")
    total = _sum_of_both(cost_usd, column_sum(printed, "free_usd") + left_usd)
    return free | {"teams": printed, "printed": {"left_usd": left_usd}, "total": total}


def _sum_of_both(cost_usd: Decimal, free_usd: Decimal) -> Shape:
    return {"cost_usd": cost_usd, "free_usd": free_usd, "with_free_usd": cost_usd + free_usd}


def with_part(free: Shape) -> Shape:
    """A team's part of the free capacity, as printed: with its cost it is the sum of both."""
    cost_usd, with_free_usd = (usd(free[name], CENT) for name in ("cost_usd", "with_free_usd"))
    return free | {"printed": _sum_of_both(cost_usd, with_free_usd - cost_usd)}
