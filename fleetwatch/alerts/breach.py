"""What is wrong with one subject, and the record of a condition that looks for it. Each file of
conditions/ makes one. Pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import msgspec

from fleetwatch.notify.message import one_line

Line = tuple[str, str]  # a label and its value

# agents flush each 30 s and posting follows each minute: beyond this nothing is coming in
STALE_MS = 10 * 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One subject breaches a rule over [since_ms, until_ms), event time: until_ms is where what is
    known of it ends.

    `kind` and `subject` are its page: of a job, its key. Told to people are `word` ("idle"), `tag`
    ("idle held"), `title`, `where`, `what` it did ("2 of 8 GPUs of job 7 did nothing"), what they
    `had` been when it is over, and the rule's `limit`; all of it on one line, for names come from
    hosts. `lines` are what was measured, `actions` what to do. Dollars are None where a GPU has no
    rate. `facts` are the condition's own: what it needs to know when it is over, and the API tells.
    """

    subject: str
    kind: str
    since_ms: int
    until_ms: int
    word: str
    tag: str
    title: str
    where: str
    what: str
    had: str
    limit: str
    name: str = ""
    owner: str = ""  # "" = nobody known
    usd_per_hour: Decimal | None = None
    cost_usd: Decimal | None = None
    has_example_rates: bool = False
    memory_bytes: float | None = None  # that is held meanwhile; None = not read
    lines: tuple[Line, ...] = ()
    actions: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The address of its page."""
        return f"/{self.kind}s/{quote(self.subject)}"


def named(subject: str, name: str) -> str:
    """The subject as messages call it, with its name where it has one; both come from hosts."""
    key = one_line(subject, 100)
    called = one_line(name, 60)
    return f"{key} “{called}”" if called else key


def stored_breach(stored: Mapping[str, Any]) -> Breach:
    """The breach that was kept as plain data (msgspec.to_builtins) in the Incident's row."""
    return msgspec.convert(stored, Breach)


@dataclass(frozen=True, slots=True)
class Ended:
    """The breach is over: why, and how it stood when it ended."""

    reason: str
    breach: Breach


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What a rule can watch for: who breaches a threshold at a moment, and why a breach that is no
    longer listed is over (None: nobody can know, telemetry is missing).

    `label` and `unit` say what its threshold is, which is from `low` to `high`; a form calls it
    `asks`. `read` makes the breach of a row that was stored before breaches were.
    """

    name: str
    label: str
    asks: str
    unit: str
    low: float
    high: float
    breaches: Callable[[float, datetime], list[Breach]]
    ended: Callable[[Breach, datetime], Ended | None]
    read: Callable[[Mapping[str, Any]], Breach] = stored_breach
