"""What a report's page prints, and its files repeat to the cent: rows that sum to the totals beside
them. Pure.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal

from fleetwatch.figures import pricing
from fleetwatch.figures.totals import HEADLINE_TIERS
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.reports import by_contract, printed
from fleetwatch.reports.by_contract import MonthSums
from fleetwatch.reports.statement import Shape


def printed_content(content: Shape) -> Shape:
    """The content with what of it is printed: rows that sum to the totals beside them."""
    whole = printed.total(content["total"])
    cost_usd = whole["printed"]["cost_usd"]
    compared = content["comparison"]
    is_fleets = "teams" in content
    if is_fleets:
        whole = printed.with_waste(whole, content["teams"], content["own_lines"])
    fleets_rows = _fleets_rows(content, whole) if is_fleets else {}
    if is_fleets:
        whole = printed.with_states(whole, fleets_rows["own_lines"])
    return content | {
        "total": whole,
        "comparison": compared and printed.comparison(compared, cost_usd),
        **fleets_rows,
        **({} if is_fleets else {"users": printed.rows(content["users"], whole)}),
        **_owners(content, None if is_fleets else whole),
        **_beside(content, cost_usd),
        **({"free": _free(content["free"], fleets_rows)} if "free" in content else {}),
    }


def _owners(content: Shape, whole: Shape | None) -> Shape:
    """The rows of projects and of cost centres, and what they sum to."""
    shown = {name: printed.rows(content[name], whole) for name in ("projects", "cost_centres")}
    totals = {f"{name}_total": printed.summed(rows) for name, rows in shown.items() if rows}
    return shown | totals


def _free(free: Shape, fleets_rows: Shape) -> Shape:
    """Of each team, or of the one, its part of the free capacity: what leads from its cost to the
    sum of both. The fleet's are those of its other rows.
    """
    if "teams" not in free:
        return printed.with_part(free)
    costs = {team["slug"]: team["printed"]["cost_usd"] for team in fleets_rows["teams"]}
    own_lines = [line for line in fleets_rows["own_lines"] if line["state"] == "free"]
    return printed.with_parts(free, costs, printed.column_sum(own_lines, "cost_usd"))


def _fleets_rows(content: Shape, whole: Shape) -> Shape:
    """A team's row is what its statement prints, as far as own lines can take what that leaves."""
    teams = content["teams"]
    rows = printed.rows([*teams, *content["own_lines"]], whole, firm=len(teams))
    return {"teams": rows[: len(teams)], "own_lines": rows[len(teams) :]}


def _beside(content: Shape, cost_usd: Decimal) -> Shape:
    """Adjustments lead from the cost to the adjusted one, commitments from there to the month at
    the rates, contract prices from that to what is paid by contract, and what was booked of
    invoices from there to the month with it.
    """
    adjusted_usd = pricing.usd(content["adjusted_usd"], pricing.CENT)
    adjustments = printed.one_column(content["adjustments"], "cost_usd", cost_usd, adjusted_usd)
    shown = {"adjusted_usd": adjusted_usd, "adjustments_usd": adjusted_usd - cost_usd}
    own = {"adjustments": adjustments, "printed": shown}
    return own if "paid_usd" not in content else own | _paid(content, shown, cost_usd)


def _paid(content: Shape, shown: Shape, cost_usd: Decimal) -> Shape:
    """The lines from the adjusted cost to the month at the rates, and on to what is paid."""
    month = by_contract.sums(content)
    cents = {name: pricing.usd(usd, pricing.CENT) for name, usd in asdict(month).items()}
    lines = printed.one_column(
        content["commitments"], "missing_usd", shown["adjusted_usd"], cents["rates_usd"]
    )
    committed = list(map(printed.commitment, lines))
    return {
        "sums": asdict(month),
        "due": _due(content, month, cents, cost_usd),
        "printed": shown | cents,
        **_by_contract(committed, cents["contract_usd"] - cents["rates_usd"]),
        **_above(content),
        **_invoiced(content, cents),
    }


def _due(content: Shape, month: MonthSums, cents: Shape, cost_usd: Decimal) -> Shape | None:
    """What the month comes to at the end of that way, exactly and as printed, and what of it is
    beside the printed cost; None where nothing is.
    """
    if not (content["commitments"] or content["invoice_lines"]):
        return None
    name = "booked_usd" if content["invoice_lines"] else "contract_usd"
    return {
        "usd": getattr(month, name),
        "printed": {"usd": cents[name], "beside_usd": cents[name] - cost_usd},
        "is_booked": bool(content["invoice_lines"]),
    }


def _above(content: Shape) -> Shape:
    """What stood above the commitments, as printed, and their sum."""
    lines = printed.rows(above_commitments(content), None)
    return {
        "above_commitments": lines,
        "above_total": {
            "gpu_ms": sum(line["gpu_ms"] for line in lines),
            "cost_usd": printed.column_sum(lines, "cost_usd"),
        },
    }


def _invoiced(content: Shape, cents: Mapping[str, Decimal]) -> Shape:
    """What was booked of invoices, and off again the contract's price of what these bill: they lead
    from the month by contract to the month with what was booked.
    """
    booked = [line | {"booked_usd": line["cost_usd"]} for line in content["invoice_lines"]]
    billed = by_contract.taken_back(content)
    rows = [*booked, *(each | {"booked_usd": each["taken_back_usd"]} for each in billed)]
    lines = printed.one_column(rows, "booked_usd", cents["contract_usd"], cents["booked_usd"])
    return {"invoice_lines": lines[: len(booked)], "billed_lines": lines[len(booked) :]}


def _by_contract(commitments: Sequence[Shape], more_usd: Decimal) -> Shape:
    """The commitments with what their contract price is more than the rates, `more_usd` together as
    printed.
    """
    differs_usd = [line["rate_book_differs_usd"] for line in commitments]
    parts = printed.apportioned(differs_usd, more_usd)
    lines = [
        printed.at_the_rates(line, part) | _there(line)
        for line, part in zip(commitments, parts, strict=True)
    ]
    there = [line for line in lines if line["there_ms"]]
    return {
        "commitments": lines,
        "undelivered": [line for line in lines if line["missing_ms"]],
        "contract_lines": there,
    }


def above_commitments(content: Shape) -> list[Shape]:
    """What stood above the commitments by GPU model; `apart_ms` of the model was compared with
    none: of a first hour that was seen in part, or of places that no commitment is for.
    """
    counted: Counter[str] = Counter()
    for each in content["commitments"]:
        counted[each["gpu_model"]] += each["used_ms"] + each["unheld_ms"]
    for each in content["above_commitments"]:
        counted[each["gpu_model"]] += each["gpu_ms"]
    all_ms = {each["gpu_model"]: each["gpu_ms"] for each in content["gpu_models"]}
    return [
        each
        | {
            "apart_ms": max(0, all_ms.get(model, 0) - counted[model]),
            "model_ms": all_ms.get(model, 0),
            "usd_per_gpu_hour": each["cost_usd"] * HOUR_MS / each["gpu_ms"],
        }
        for each in content["above_commitments"]
        for model in [each["gpu_model"]]
    ]


def _there(commitment: Shape) -> Shape:
    """What of it was there, held or not, by its contract price."""
    return {
        "there_ms": commitment["used_ms"] + commitment["unheld_ms"],
        "there_usd": commitment["used_usd"] + commitment["unheld_usd"],
    }


def printed_lines(content: Shape) -> list[Shape]:
    """The lines of a printed statement; the fleet's report has none."""
    return printed.within(content.get("lines", []), content.get("users", []), "user")


def with_cents(content: Shape, shown: Shape) -> Shape:
    """A stored report's content with what `shown`, the same as it is printed, prints of each line
    that its file has: a line's dollars to the cent, and `cents` of what leads to what is paid.
    """
    of_lines = {
        "lines": printed_lines(shown),
        "teams": shown.get("teams", []),
        "own_lines": shown.get("own_lines", []),
    }
    return content | {
        "total": content["total"] | {"printed": shown["total"]["printed"]},
        **{
            name: [line | _to_the_cent(row) for line, row in zip(content[name], rows, strict=True)]
            for name, rows in of_lines.items()
            if name in content
        },
        **_beside_in_cents(content, shown),
    }


def _to_the_cent(row: Shape) -> Shape:
    figures = row["printed"]
    wasted_usd = pricing.exact_sum(figures[tier] for tier in HEADLINE_TIERS)
    return {"cost_to_the_cent_usd": figures["cost_usd"], "wasted_to_the_cent_usd": wasted_usd}


def _beside_in_cents(content: Shape, shown: Shape) -> Shape:
    """Of each line that leads from the cost to what is paid, by the amount's name, what is printed
    of it.
    """
    billed = iter(shown.get("billed_lines", []))
    every: dict[str, list[Shape]] = {
        "adjustments": [line["printed"] for line in shown["adjustments"]],
        "commitments": [
            line["printed"] | _taken_back(content, line, billed)
            for line in shown.get("commitments", [])
        ],
        "invoice_lines": [
            {"cost_usd": line["printed"]["booked_usd"]} for line in shown.get("invoice_lines", [])
        ],
    }
    return {
        name: [line | {"cents": cents} for line, cents in zip(content[name], several, strict=True)]
        for name, several in every.items()
        if name in content
    }


def _taken_back(content: Shape, commitment: Shape, billed: Iterator[Shape]) -> Shape:
    """`billed`: those of by_contract.taken_back, in its order."""
    is_billed = by_contract.is_taken_back(content, commitment)
    return {"taken_back_usd": next(billed)["printed"]["booked_usd"]} if is_billed else {}
