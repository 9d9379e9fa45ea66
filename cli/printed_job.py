"""One job in words: what it cost by state, why it wasted, and what to do."""

from typing import Any, Dict, List, Sequence

from cli import units
from cli.printed_reports import print_table, say, totals_line
from cli.text_tables import Column

HOUR_MS = 3_600_000
AGREED = ("dismissed", "exempt")  # how findings stand that somebody agreed are no waste
COLUMNS = (
    Column("STATE", is_text=True),
    Column("GPU-HOURS"),
    Column("SHARE"),
    Column("COST"),
)


def print_job(answer: Any, findings: Sequence[Any]) -> None:
    """The job with its findings."""
    say("%s  %s" % (answer["key"], answer["name"]), "bold")
    say(" · ".join(_about(answer)))
    say(totals_line(answer))
    print_table(COLUMNS, _states(answer), nothing="It held no GPU in this period.")
    for finding in findings:
        _print_finding(finding)
    if not findings:
        say("\nNo finding about this job: nothing to mend is known.")


def _about(answer: Dict[str, Any]) -> List[str]:
    until = units.moment(answer["end_at"]) if answer["end_at"] else "now"
    held = "%s to %s UTC" % (units.moment(answer["start_at"]), until)
    count = len(answer["gpus"])
    gpus = "%d GPU%s" % (count, "" if count == 1 else "s")
    return [text for text in (answer["user"], answer["team"], answer["state"], gpus, held) if text]


def _states(answer: Dict[str, Any]) -> List[List[str]]:
    """A row for each state that it was in."""
    dollars = answer["cost_usd"]["states"]
    whole = answer["capacity_ms"] / HOUR_MS
    return [
        [state, units.hours(hours), units.percent(hours / whole), units.money(dollars[state])]
        for state, hours in answer["gpu_hours"].items()
        if hours
    ]


def _print_finding(finding: Dict[str, Any]) -> None:
    """Why it wastes, by what that is seen, and what to do."""
    savings = finding["savings"]
    saved = units.money_range(savings["low_usd"], savings["high_usd"])
    stands = "agreed as not waste" if finding["status"] in AGREED else finding["status"]
    say("\n%s · %s · could save %s" % (finding["title"], stands, saved), "bold")
    say(finding["sentence"])
    for number, step in enumerate(finding["steps"], start=1):
        say("%3d. %s" % (number, step["text"]))
        for line in step["code"].splitlines():
            say("       %s" % line)
    if finding["command"]:
        say("     $ %s" % finding["command"])
