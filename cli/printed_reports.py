"""Answers of the hub as lines and tables."""

import json
import sys
from typing import Any, Dict, List, Sequence

from cli import units
from cli.terminal_text import clean, paint, terminal_width
from cli.text_tables import Column, table

NOBODYS = "not allocated"
FIGURES = (
    Column("GPU-HOURS", rank=3),
    Column("COST"),
    Column("WASTED"),
    Column("SHARE", rank=5),
)
JOB_COLUMNS = (
    Column("JOB", is_text=True),
    Column("NAME", is_text=True, rank=1),
    Column("USER", is_text=True, rank=4),
    *FIGURES,
    Column("WHY", is_text=True, rank=2),
)
TERM_COLUMNS = (
    Column("STATE", is_text=True),
    Column("WASTE", is_text=True, rank=1),
    Column("GPU-HOURS"),
    Column("RATE", rank=2),
    Column("DOLLARS"),
)


def print_me(answer: Any) -> None:
    """Who it is, what the own jobs cost and wasted, and the jobs."""
    who = (answer["username"], answer["role"], *answer["teams"])
    say(" · ".join(who), "bold")
    if not answer["names"]:
        say("No name of yours in a scheduler is known: say on the page “My jobs” which are yours.")
        return
    savings = answer["recoverable"]
    saved = units.money_range(savings["low_usd"], savings["high_usd"])
    say("%s, could be saved %s" % (totals_line(answer["totals"]), saved))
    say(units.period(answer), "dim")
    print_jobs("Running now", [job for job in answer["rows"] if job["end_at"] is None])
    print_jobs("Ended", [job for job in answer["rows"] if job["end_at"] is not None])
    say("\nWhy one wastes, and what helps: fleetwatch job KEY", "dim")


def print_waste(answer: Any) -> None:
    """The totals, and a row for each group."""
    say(totals_line(answer["totals"]), "bold")
    say(units.period(answer), "dim")
    title = answer["group_by"].replace("_", " ").upper()
    print_table((Column(title, is_text=True), *FIGURES), _groups(answer["rows"]))
    if answer["next_cursor"]:
        say("and more: --limit N shows them", "dim")


def print_explained(answer: Any) -> None:
    """The figure, what it is made of under which rate, and its parts."""
    total = (units.money(answer["usd"]), units.hours_of_ms(answer["gpu_ms"]))
    say("%s for %s GPU-hours" % total, "bold")
    say(units.period(answer), "dim")
    print_table(TERM_COLUMNS, [_term(each) for each in answer["terms"]])
    if answer["parts"]:
        title = answer["parts_by"].upper()
        print_table((Column(title, is_text=True), *FIGURES), _groups(answer["parts"]))


def print_jobs(title: str, jobs: Sequence[Dict[str, Any]]) -> None:
    """The jobs under a title, those that wasted most first."""
    say("\n%s" % title, "bold")
    rows = [[job["key"], job["name"], job["user"], *_figures(job), _cause(job)] for job in jobs]
    print_table(JOB_COLUMNS, rows, nothing="None.")


def print_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    nothing: str = "No GPU time in this period.",
) -> None:
    if rows:
        print("\n" + table(columns, rows, terminal_width()))
    else:
        say(nothing)


def print_json(answer: Any) -> None:
    """As the API has it, for programs; escaped, so that no name speaks to a terminal."""
    json.dump(answer, sys.stdout, indent=2)
    print()


def say(text: str, colour: str = "") -> None:
    """A line, or several, without what names may have in them."""
    lines = "\n".join(clean(line) for line in text.split("\n"))
    print(paint(lines, colour) if colour else lines)


def totals_line(figures: Dict[str, Any]) -> str:
    """What it cost and what of that was wasted, in one line."""
    cost = units.money(figures["cost_usd"]["total"])
    wasted = units.money(figures["waste"]["wasted"]["usd"])
    share = units.percent(figures["wasted_share_of_observed"])
    return "Cost %s, wasted %s (%s)" % (cost, wasted, share)


def _groups(rows: Sequence[Dict[str, Any]]) -> List[List[str]]:
    return [[row["label"] or NOBODYS, *_figures(row)] for row in rows]


def _figures(row: Dict[str, Any]) -> List[str]:
    return [
        units.hours_of_ms(row["capacity_ms"]),
        units.money(row["cost_usd"]["total"]),
        units.money(row["waste"]["wasted"]["usd"]),
        units.percent(row["wasted_share_of_observed"]),
    ]


def _term(term: Dict[str, Any]) -> List[str]:
    return [
        term["state"],
        term["tier"] or "no waste",
        units.hours_of_ms(term["gpu_ms"]),
        "× %s" % units.money(term["usd_per_gpu_hour"]),
        units.money(term["usd"]),
    ]


def _cause(job: Dict[str, Any]) -> str:
    cause = job["primary_cause"]
    return "" if cause["key"] == "undetermined" else str(cause["title"])
