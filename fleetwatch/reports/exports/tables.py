"""A stored report as tables: the same rows for CSV and Excel. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from fleetwatch.figures import pricing
from fleetwatch.ledger.policy import STATES, TIERS

Shape = dict[str, Any]
Cell = str | Decimal | int | None
FOUR_PLACES, SIX_PLACES = Decimal("0.0001"), Decimal("0.000001")

_FIGURES = (
    "gpu_hours",
    *(f"{state}_gpu_hours" for state in STATES),
    "busy_unverified_gpu_hours",  # a part of the useful ones, of which utilisation alone tells
    "usd_per_gpu_hour",
    "cost_usd",
    *(f"waste_{tier}_usd" for tier in TIERS),
    "wasted_usd",
)
# of the team's whole month, the same on every line: a file of lines alone has to say it too
_BUDGET = ("team_budget_usd", "team_spent_usd", "team_used_ratio", "team_expected_usd")
_PERIOD = ("month", "from_utc", "to_utc")


@dataclass(frozen=True, slots=True)
class Table:
    """One sheet: names with their units, and rows; text is as people typed it, None is not
    known.
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def tables(content: Shape) -> list[Table]:
    """The sheets of a statement or of the fleet's report; the first one's cost_usd sum to the
    report's total.
    """
    return _statement(content) if "team" in content else _fleet(content)


def _statement(content: Shape) -> list[Table]:
    team, budget = [content["team"]["slug"], content["team"]["name"]], _budget(content)
    lines = [
        (
            *team,
            line["job"],
            line["name"],
            line["user"],
            line["gpu_model"],
            *_figures(line),
            *budget,
        )
        for line in content["lines"]
    ]
    users = [(*team, user["user"], user["jobs"], *_figures(user)) for user in content["users"]]
    return [
        _table(
            "Lines",
            ("team", "team_name", "job", "name", "user", "gpu_model", *_FIGURES, *_BUDGET),
            lines,
            content,
        ),
        _table("Users", ("team", "team_name", "user", "jobs", *_FIGURES), users, content),
        *_budgets(content),
        *_owners(content),
        *_free(content),
        *_adjustments(content),
        *_comparison(content),
    ]


def _fleet(content: Shape) -> list[Table]:
    teams = [
        ("team", team["slug"], team["name"], None, None, *_figures(team))
        for team in content["teams"]
    ]
    own = [
        ("own line", None, None, line["state"], line["gpu_model"], *_figures(line))
        for line in content["own_lines"]
    ]
    models = [(model["gpu_model"], *_figures(model)) for model in content["gpu_models"]]
    savings = [
        (line["team"], line["job"], line["name"], line["user"], *_figures(line))
        for line in content["savings"]
    ]
    return [
        _table(
            "Teams",
            ("line", "team", "team_name", "state", "gpu_model", *_FIGURES),
            teams + own,
            content,
        ),
        _table("GPU models", ("gpu_model", *_FIGURES), models, content),
        *_budgets(content),
        *_owners(content),
        *_free(content),
        _table("Savings", ("team", "job", "name", "user", *_FIGURES), savings, content),
        *_adjustments(content),
        *_commitments(content),
        *_invoice_lines(content),
        *_comparison(content),
    ]


def _budget(content: Shape) -> list[Cell]:
    """Budget, spent, used ÷ budget (four places) and expected at the month's end; None = not known.

    Older reports have none.
    """
    found = content.get("budget") or {}
    budget, spent, expected = (
        _dollars(found.get(name)) for name in ("budget_usd", "spent_usd", "expected_usd")
    )
    used = None if not budget or spent is None else (spent / budget).quantize(FOUR_PLACES)
    return [budget, spent, used, expected]


def _budgets(content: Shape) -> list[Table]:
    found = content.get("budget")
    if not found:
        return []
    columns = (
        *(name.removeprefix("team_") for name in _BUDGET),
        "expected_low_usd",
        "expected_high_usd",
        "note",
    )
    row = [
        *_budget(content),
        _dollars(found["low_usd"]),
        _dollars(found["high_usd"]),
        found["note"] or None,
    ]
    return [_table("Budget", columns, [row], content)]


def _owners(content: Shape) -> list[Table]:
    """The same time by project and cost centre, where rules name any.

    Older reports have neither.
    """
    named = {
        "Projects": ("project", content.get("projects")),
        "Cost centres": ("cost_centre", content.get("cost_centres")),
    }
    return [
        _table(
            name,
            (column, "label", *_FIGURES),
            [(line["key"], line["name"], *_figures(line)) for line in lines],
            content,
        )
        for name, (column, lines) in named.items()
        if lines
    ]


def _free(content: Shape) -> list[Table]:
    """The teams' parts of the free capacity, where it was spread: beside the total, not in it."""
    found = content.get("free")
    if found is None:
        return []
    teams = found["teams"] if "teams" in found else [content["team"] | found]
    dollars = ("cost_usd", "free_usd", "with_free_usd")
    rows = [
        (team["slug"], team["name"], found["way"], *(Decimal(team[name]) for name in dollars))
        for team in teams
    ]
    return [_table("Free capacity", ("team", "team_name", "way", *dollars), rows, content)]


def _adjustments(content: Shape) -> list[Table]:
    """Corrections of closed months that were booked in this one: beside its total, not in it."""
    rows = [
        (
            line["team"] or None,
            line["state"] or None,
            line["corrects"],
            line["cause"],
            _hours(line["gpu_ms"]),
            Decimal(line["cost_usd"]),
        )
        for line in content["adjustments"]
    ]
    names = ("team", "state", "corrects_month", "cause", "gpu_hours", "cost_usd")
    return [_table("Adjustments", names, rows, content)] if rows else []


def _commitments(content: Shape) -> list[Table]:
    """What was committed to; not_delivered_usd is paid beside the report's total.

    Older reports have none.
    """
    times, dollars = (
        ("committed", "used", "unheld", "missing"),
        ("committed_usd", "used_usd", "unheld_usd", "missing_usd", "rate_book_usd"),
    )
    rows = [
        (
            *(line[name] or None for name in ("name", "gpu_model", "pool", "node_class", "region")),
            line["gpus"],
            *(_hours(line[f"{name}_ms"]) for name in times),
            *(Decimal(line[name]) for name in dollars),
        )
        for line in content.get("commitments", [])
    ]
    names = (
        "commitment",
        "gpu_model",
        "pool",
        "class",
        "region",
        "gpus",
        *(f"{name}_gpu_hours" for name in times),
    )
    dollar_names = ("committed_usd", "used_usd", "unheld_usd", "not_delivered_usd", "rate_book_usd")
    return [_table("Commitments", (*names, *dollar_names), rows, content)] if rows else []


def _invoice_lines(content: Shape) -> list[Table]:
    """Booked differences to invoices: beside the report's total, not in it."""
    dollars = ("cost_usd", "hours_usd", "unobserved_usd", "rate_usd", "other_usd")
    rows = [
        (
            line["label"],
            line["invoice_of"],
            line["reason"],
            *(Decimal(line[name]) for name in dollars),
        )
        for line in content.get("invoice_lines", [])
    ]
    return (
        [_table("Invoice", ("line", "invoice_of", "reason", *dollars), rows, content)]
        if rows
        else []
    )


def _comparison(content: Shape) -> list[Table]:
    found = content["comparison"]
    if found is None:
        return []
    names = ("cost_usd", "difference_usd", "volume_usd", "mix_usd", "rate_usd")
    row = [
        content["compared_with"]["from"],
        content["compared_with"]["to"],
        *(Decimal(found[name]) for name in names),
    ]
    return [
        _table(
            "Difference",
            ("before_from_utc", "before_to_utc", "before_cost_usd", *names[1:]),
            [row],
            content,
        )
    ]


def _table(
    name: str, columns: Iterable[str], rows: Iterable[Sequence[Cell]], content: Shape
) -> Table:
    period = (content["month"], content["from"], content["to"])
    return Table(name, (*_PERIOD, *columns), [(*period, *row) for row in rows])


def _figures(line: Shape) -> list[Cell]:
    price = line.get("usd_per_gpu_hour")
    return [
        _hours(line["gpu_ms"]),
        *(_hours(line["states"].get(state, 0)) for state in STATES),
        _hours(line.get("busy_unverified_ms", 0)),
        None if price is None else Decimal(price),
        Decimal(line["cost_usd"]),
        *(Decimal(line["waste_usd"][tier]) for tier in TIERS),
        Decimal(line["wasted_usd"]),
    ]


def _dollars(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def _hours(gpu_ms: int) -> Decimal:
    return (Decimal(gpu_ms) / pricing.HOUR_MS).quantize(SIX_PLACES)
