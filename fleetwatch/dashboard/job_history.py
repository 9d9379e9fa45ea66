"""Who said what of a job, in words for its page."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fleetwatch.jobs.models import JobChange
from fleetwatch.jobs.records import Voice
from fleetwatch.jobs.selectors import Contradicted
from fleetwatch.lib.intervals import from_ms

VOICES = {
    Voice.CLAIM: "by the environment of its processes",
    Voice.BOOKS: "by its scheduler or engine",
    Voice.IMPORT: "by an import of accounting",
    Voice.CLUSTER: "by the cluster's scheduler",
    Voice.CLUSTER_IMPORT: "by the accounting of the cluster",
}
# Fact -> its name on the page, in the order in which people read them.
NAMES = {
    "user": "user",
    "account": "account",
    "kind": "kind",
    "name": "name",
    "state": "state",
    "end_ms": "ended",
    "restarts": "restarts",
    "labels": "labels",
}


@dataclass(frozen=True, slots=True)
class OtherwiseLine:
    """A node that has facts otherwise than they are believed, with those facts in words."""

    node: str
    by: str
    facts: str


def change_lines(changes: Iterable[JobChange]) -> list[tuple[JobChange, str, str, str]]:
    """The changes in their order, each with who said it, and in words what of it was taken and what
    was refused ("" = nothing).
    """
    lines = []
    for change in changes:
        refused = {name: value for name, value in change.facts.items() if name in change.refused}
        facts = {name: value for name, value in change.facts.items() if name not in refused}
        lines.append((change, VOICES[Voice(change.voice)], _words(facts), _words(refused)))
    return lines


def otherwise_lines(contradictions: Iterable[Contradicted]) -> list[OtherwiseLine]:
    """One line for each node and voice, in the order in which they were first heard."""
    facts: dict[tuple[str, Voice], dict[str, str]] = {}
    for belief in contradictions:
        facts.setdefault((belief.node, belief.voice), {})[belief.fact] = belief.value
    return [
        OtherwiseLine(node, VOICES[voice], _words(named)) for (node, voice), named in facts.items()
    ]


def _words(facts: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{NAMES[name]} {_value(name, facts[name])}" for name in NAMES if name in facts
    )


def _value(name: str, value: Any) -> str:
    if name == "end_ms":
        return f"{from_ms(value):%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, dict):
        return " ".join(f"{key}={item}" for key, item in sorted(value.items()))
    return str(value)
