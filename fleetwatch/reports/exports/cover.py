"""The first sheet of a report's workbook: whose month it is, in which currency, what it comes to,
and what the words of the other sheets mean. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from fleetwatch.lib import timeframes
from fleetwatch.reports import by_contract, months, statement
from fleetwatch.reports.exports.headings import heading
from fleetwatch.reports.exports.tables import Cell, hours
from fleetwatch.reports.statement import Shape

WORDS = (
    ("gpu_hours", "One GPU for one hour, whatever it did in it."),
    ("cost_usd", "GPU-hours at the rate that held in each hour. Lines sum to the total."),
    ("cost_to_the_cent_usd", "Cost as its page prints it: each cent is in one line of the column."),
    ("usd_per_gpu_hour", "Cost by priced GPU-hours: the rate, or the average of several."),
    ("priced_gpu_hours", "Hours that had a rate: what they cost is in dollars, the rest is not."),
    ("wasted_usd", "Certain and probable waste together; a part of the cost, not beside it."),
    ("waste_certain_usd", "Nothing ran at all: held, or kept by what a job left behind."),
    ("waste_probable_usd", "The GPU was held and did too little: the rest of idle, and stalled."),
    ("waste_potential_usd", "Might be saved; never a part of what is called wasted."),
    ("useful_gpu_hours", "The GPU worked at what it can do in practice."),
    ("busy_unverified_gpu_hours", "Utilisation says that it worked, and nothing else was read."),
    ("underused_gpu_hours", "The GPU worked, below that."),
    ("stalled_gpu_hours", "Held, and waiting: for data, for other ranks, between steps."),
    ("waiting_gpu_hours", "Held by a service that waits for requests; no waste."),
    ("idle_gpu_hours", "Held, and doing nothing for so long that nobody expects it to go on."),
    ("starting_gpu_hours", "The quiet begin of a job that then worked; no waste."),
    ("orphaned_gpu_hours", "Held by no job, and a process or its memory was left on the GPU."),
    ("free_gpu_hours", "Held by no job: capacity, nobody's waste."),
    ("unavailable_gpu_hours", "There is evidence that the GPU could not work: lost, drained."),
    ("unobserved_gpu_hours", "No agent reported it; never counted as idle, and never as useful."),
    ("beside", "What is paid in addition to the cost at the rates, or less: in no team's line."),
)
UNALLOCATED = "Unallocated"
NO_USER = "No user named"


@dataclass(frozen=True, slots=True)
class Cover:
    """A title, facts by their labels, words with what they mean; and the bars of its chart, what
    they are and their dollars.
    """

    title: str
    facts: Sequence[tuple[str, Cell]]
    words: Sequence[tuple[str, str]]
    charted: str
    bars: Sequence[tuple[str, Decimal]]


def cover(content: Shape, *, version: int, invoiced: Sequence[tuple[str, Cell]] = ()) -> Cover:
    """The cover of a statement or of the fleet's report, with facts of what was `invoiced`."""
    is_fleet = "team" not in content
    name = "the fleet" if is_fleet else content["team"]["name"]
    return Cover(
        title=f"GPU cost of {name}, {months.in_words(content['month'])}",
        facts=_facts(content, version, invoiced),
        words=[(heading(column), meaning) for column, meaning in WORDS],
        charted="Teams" if is_fleet else "Users",
        bars=_teams(content) if is_fleet else _users(content),
    )


def _teams(content: Shape) -> list[tuple[str, Decimal]]:
    """The teams, and what no job held as one."""
    unallocated = statement.summed(line["cost_usd"] for line in content["own_lines"])
    teams = [(team["name"], Decimal(team["cost_usd"])) for team in content["teams"]]
    return [*teams, (UNALLOCATED, unallocated)] if unallocated else teams


def _users(content: Shape) -> list[tuple[str, Decimal]]:
    return [(user["user"] or NO_USER, Decimal(user["cost_usd"])) for user in content["users"]]


def _period(content: Shape) -> str:
    start, end = (datetime.fromisoformat(content[end]) for end in ("from", "to"))
    zone = ZoneInfo(content["zone"])
    words = timeframes.in_words(start, end, zone)
    return f"{words} (to date)" if months.name_at(end, zone) == content["month"] else words


def _recorded_since(content: Shape) -> list[tuple[str, Cell]]:
    """Since when there are figures, where that is within the period."""
    since = content.get("recorded_since")
    if since is None:
        return []
    local = datetime.fromisoformat(since).astimezone(ZoneInfo(content["zone"]))
    return [("Recorded since", f"{local:%-d %b %Y, %H:%M}: of the period before nothing is known")]


def _paid(content: Shape) -> list[tuple[str, Cell]]:
    """Of the fleet's month with what is paid beside the ledger the dollars at the rates, by
    contract, and with what was booked of invoices.
    """
    commitments, booked = (content.get(name) for name in ("commitments", "invoice_lines"))
    if not commitments and not booked:
        return []
    month = by_contract.sums(content)
    return [
        ("Month at the rates", month.rates_usd),
        *([("Month due by contract", month.contract_usd)] if commitments else []),
        *([("With what was booked of invoices", month.booked_usd)] if booked else []),
    ]


def _expected(content: Shape) -> list[tuple[str, Cell]]:
    """While the month runs what its version expected at the end, and between which ends."""
    budget = content["budget"] or {}
    if budget.get("expected_usd") is None:
        return []
    names = {"expected_usd": "middle", "low_usd": "lower end", "high_usd": "upper end"}
    return [
        (f"Expected at the month's end, {words}", Decimal(budget[name]))
        for name, words in names.items()
    ]


def _above(content: Shape) -> list[tuple[str, Cell]]:
    """What no commitment of the same GPU model covered, at its own rates: in the cost."""
    above = content.get("above_commitments", [])
    usd = statement.summed(each["cost_usd"] for each in above)
    return [("Above the commitments, at the rates", usd)] if above else []


def _facts(
    content: Shape, version: int, invoiced: Sequence[tuple[str, Cell]]
) -> list[tuple[str, Cell]]:
    total = content["total"]
    budget = (content["budget"] or {}).get("budget_usd")
    return [
        ("Organisation", content["organisation"]),
        ("Period", _period(content)),
        *_recorded_since(content),
        ("Time zone", content["zone"]),
        ("Currency", "US dollars (USD)"),
        ("Version", float(version)),
        ("Cost", total["printed"]["cost_usd"]),
        ("Of that, wasted", total["printed"]["wasted_usd"]),
        *_paid(content),
        *_above(content),
        *invoiced,
        ("GPU-hours", hours(total["gpu_ms"])),
        ("Of them without a rate", hours(content["unpriced_ms"])),
        *([("Budget of the month", Decimal(budget))] if budget is not None else []),
        *_expected(content),
    ]
