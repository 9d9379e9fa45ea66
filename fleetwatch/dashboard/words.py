"""Names in words for people: the nine states (order and names as in the ledger), and kinds of
events.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from fleetwatch.diagnosis.cause_totals import Caused
from fleetwatch.diagnosis.findings.inbox import AGREED
from fleetwatch.figures.totals import HEADLINE_TIERS


@dataclass(frozen=True, slots=True)
class StateWords:
    """How a state is called, what it means in a sentence, who can change it, and which
    waste it is.
    """

    name: str
    label: str
    meaning: str
    who_acts: str
    waste: str


STATES = (
    StateWords(
        "useful",
        "Useful",
        "A job holds the GPU and its units work: the active share of time × the efficiency of it.",
        "–",
        "",
    ),
    StateWords(
        "underused",
        "Underused",
        "The GPU works below its practical ceiling: active time × (1 − efficiency).",
        "job owner",
        "potential",
    ),
    StateWords(
        "stalled",
        "Stalled",
        "A job holds the GPU and waits: quiet for less than the idle time, pauses inside active"
        " windows (data loader), or busy-waiting. What services wait stands apart.",
        "job owner",
        "probable",
    ),
    StateWords(
        "idle",
        "Idle",
        "A job holds the GPU and it is quiet (activity at most 2 %) for an unbroken 15 minutes"
        " (interactive 30, service 60) or longer, counted from the start of the quiet run.",
        "job owner",
        "certain where activity is exactly zero, else probable",
    ),
    StateWords(
        "starting",
        "Starting",
        "The quiet time at the start of a job that then begins to work, up to 15 minutes"
        " (interactive 10, service 30).",
        "–",
        "",
    ),
    StateWords(
        "orphaned",
        "Orphaned",
        "No job was given the GPU, but a process or memory above 300 MiB holds it.",
        "platform",
        "certain",
    ),
    StateWords(
        "free",
        "Free",
        "No job was given the GPU and nothing holds it: spare capacity.",
        "planning",
        "potential",
    ),
    StateWords(
        "unavailable",
        "Unavailable",
        "There is positive evidence that it cannot work: lost, reset needed, driver missing,"
        " drained or in maintenance.",
        "platform",
        "",
    ),
    StateWords(
        "unobserved",
        "Unobserved",
        "Nobody looked: the agent was silent, no activity signal could be read, or who held the GPU"
        " is not known. Never counted as idle.",
        "platform",
        "",
    ),
)
UNVERIFIED = StateWords(
    "unverified",
    "Busy, unverified",
    "The part of useful time of which utilisation alone tells: no unit's counter was read, and"
    " power says nothing of the work, mostly because what the GPU draws at idle is not known. Left"
    " out of every efficiency figure.",
    "–",
    "",
)
WAITING = StateWords(
    "waiting",
    "Waiting",
    "The part of stalled time of services, which wait for requests: no waste, but what a smaller"
    " GPU or fewer of them could give back.",
    "job owner",
    "potential",
)
# As bars, bands, maps, legends and charts show them: what is only utilisation apart from what is
# useful, what services wait from what is wasted.
_APART = {"useful": UNVERIFIED, "stalled": WAITING}
SHOWN = tuple(
    shown for state in STATES for shown in (state, _APART.get(state.name)) if shown is not None
)
NAMES = tuple(state.name for state in SHOWN)
BY_NAME = {state.name: state for state in SHOWN}

EVENTS = {
    "xid": "XID",
    "gpu_lost": "GPU lost",
    "gpu_ok": "GPU is back",
    "recovery_action": "recovery needed",
    "driver_missing": "driver missing",
    "driver_mismatch": "driver and library differ",
    "driver_ok": "node’s driver answers again",
    "driver_opened": "agent began to read its GPUs",
    "nvml_stuck": "NVML does not answer",
    "drained": "drained",
    "resumed": "back in service",
    "action_result": "result of an action",
    "boot": "machine started",
    "source_silent": "job source does not answer",
    "source_answers": "job source answers again",
}


class Happened(Protocol):
    """Something that happened on a node. telemetry.models.HealthEvent is one."""

    kind: str
    text: str


def event(kind: str) -> str:
    """What an event is; of an agent that is newer than the hub, its own name in plain letters."""
    return EVENTS.get(kind, kind.replace("_", " "))


def event_text(happened: Happened) -> str:
    """What its source said; "" where that is no more than what it is."""
    return "" if happened.text == event(happened.kind) else happened.text


def have_texts(events: Iterable[Happened]) -> bool:
    return any(map(event_text, events))


# the entries of the rail, as it calls them
PLACES = {
    "me": "My jobs",
    "overview": "Overview",
    "fleet": "Fleet",
    "capacity": "Capacity",
    "jobs": "Jobs",
    "waste": "Waste",
    "costs": "Costs",
    "findings": "Savings",
    "causes": "Causes",
    "alerts": "Alerts",
    "reports": "Reports",
    "budgets": "Budgets",
    "teams": "Teams",
    "pricing": "Pricing",
    "status": "Status",
    "people": "People",
    "settings": "Settings",
    "views": "Views",
    "definitions": "Definitions",
    "search": "Search",
    "api": "API",
}


# background work, as it is recorded
TASKS = {
    "accounts.ask_directory": "Asks the directory who left",
    "actions.advance": "Warns about idle jobs, ends them, drains nodes",
    "alerts.evaluate": "Checks alert rules and notifies people",
    "budgets.refresh": "Forecasts budgets, looks for unusual spending",
    "costs.attribute_changed": "Assigns new jobs to teams",
    "costs.ensure_example_rates": "Sets list prices of new GPU models",
    "costs.note_places": "Records nodes’ pools and regions",
    "costs.forget_owner_changes": "Deletes old records of jobs that changed owners",
    "costs.sum_all_days": "Updates totals of all days",
    "costs.sum_recent_days": "Updates totals of the newest days",
    "demo.history": "Loaded the demo’s history",
    "demo.keep_going": "Simulates the demo’s fleet",
    "diagnosis.apply_retention": "Deletes old diagnoses",
    "diagnosis.diagnose": "Diagnoses why GPU time is wasted",
    "diagnosis.forget_cells": "Deletes what diagnosis no longer needs",
    "diagnosis.measure_fixes": "Measures what fixes saved",
    "alerts.try_rules": "Tries rules on history",
    "actions.try_policies": "Tries policies of actions on history",
    "finance.advance_trials": "Tries a policy on past hours",
    "ingest.believe_moves": "Notices GPUs that moved to another node",
    "ingest.bill_silent": "Counts the time of silent nodes",
    "ingest.retire_silent": "Retires GPUs that are gone",
    "ledger.apply_retention": "Deletes old hours of the ledger",
    "ledger.learn_idle_power": "Learns what GPUs draw at idle",
    "ledger.post": "Sorts GPU time into states",
    "ledger.refresh_state_days": "Updates days by state",
    "notify.deliver": "Sends messages",
    "notify.prune_deliveries": "Deletes old messages",
    "operations.prune_runs": "Deletes old runs of this list",
    "reports.ask_for_last_month": "Asks for last month’s reports",
    "reports.compute": "Plans monthly reports",
    "reports.compute_part": "Computes a report",
    "reports.send_statements": "Sends statements",
    "reports.weekly_digest": "Writes weekly digests",
    "settle": "Did all that was due at once",
    "stack.make_room": "Frees room on the disk",
    "telemetry.apply_retention": "Deletes old telemetry",
    "telemetry.join": "Joins hours of telemetry into larger blocks",
    "telemetry.keep_partitions": "Prepares storage for the coming days",
    "telemetry.refresh_recent_cells": "Updates the map of the fleet",
    "telemetry.seal": "Compresses telemetry",
}


def task_name(name: str) -> str:
    """What a background task does; its own name where that is nowhere said."""
    return TASKS.get(name, name)


def place_name(page: str) -> str:
    """The place that a page is at; FleetWatch for one that is at none."""
    return PLACES.get(page, "FleetWatch")


# in which state an incident is: the tabs of the inbox
INCIDENT_STATES = {
    "firing": "Firing",
    "acknowledged": "Acknowledged",
    "snoozed": "Snoozed",
    "accepted": "Agreed as not waste",
    "pending": "Pending",
    "resolved": "Resolved",
}


def finding_stands(status: str) -> str:
    """How a finding stands, or what was done about it, within a line: by the one word for each."""
    return "agreed as not waste" if status in AGREED else status


def is_agreed(status: str) -> bool:
    """Whether people said of a finding that stands so that it is no waste."""
    return status in AGREED


def decided_parts(parts: Iterable[tuple[str, int]], runs: int) -> list[tuple[str, int]]:
    """Of a pattern's findings that stand unlike, how many stand how, each word once; none where one
    word is for all of its runs.
    """
    counts: Counter[str] = Counter()
    for status, count in parts:
        counts[finding_stands(status)] += count
    return [] if runs in counts.values() else list(counts.items())


def waste_in_words(caused: Caused) -> str:
    """What the dollars are that a finding took: potential stands apart from what was wasted."""
    if not caused.tier_ms["potential"]:
        return "wasted"
    is_wasted = any(caused.tier_ms[tier] for tier in HEADLINE_TIERS)
    return "wasted and potential" if is_wasted else "potential, no waste"


# beside it
STOPPED = "stopped, not over yet"
NO_WASTE = "agreed as not waste"


def incident_state(name: str) -> str:
    """How an incident stands, within a line."""
    return INCIDENT_STATES[name].lower()


# what happened to an incident; what people do says itself whole
INCIDENT_EVENTS = {
    "fired": "Raised",
    "action": "Action",
    "resolved": "Over",
    "muted": "Nobody is notified",
    "unmuted": "People are notified again",
    "told_opened": "Notification queued",
    "told_step": "Escalation queued",
    "told_reminder": "Reminder queued",
    "told_changed": "Notice of its group changed",
    "told_later": "Held notification queued",
    "told_resolved": "Notice of its end queued",
}


def incident_event(kind: str) -> str:
    """What happened, before its text; "" where the text says it."""
    return INCIDENT_EVENTS.get(kind, "")


def quarter(start: datetime) -> str:
    """Q4 2026, of a moment of that quarter in the organisation's zone."""
    return f"Q{(start.month + 2) // 3} {start.year}"


def process_trouble(state: str) -> str:
    """What is wrong with a process in this state of the kernel; "" for those that run or sleep."""
    return {"Z": "zombie", "D": "stuck in the kernel", "X": "dead", "T": "stopped"}.get(state, "")


def did(counts: Mapping[str, Any]) -> str:
    """What a run did, without what it did not: "batches 464, windows 1,415,696"; "nothing
    to do".
    """
    return _amounts(counts) or "nothing to do"


def _amounts(counts: Mapping[str, Any]) -> str:
    texts = {name.replace("_", " "): _amount(value) for name, value in counts.items()}
    return ", ".join(f"{name} {text}" for name, text in texts.items() if text)


def _amount(value: Any) -> str:
    """A count, or what a part of the run did; "" for nothing."""
    if isinstance(value, Mapping):
        amounts = _amounts(value)
        return f"({amounts})" if amounts else ""
    if isinstance(value, int):
        return f"{value:,}" if value else ""
    return str(value or "")
