"""The rows of a list of incidents: what befell GPUs of a node at once is one of them. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.alerts.models import Severity
from fleetwatch.alerts.selectors import IncidentView
from fleetwatch.figures.pricing import sum_if_all_known
from fleetwatch.lib.intervals import MINUTE_MS

# diagnosis looks each five minutes: what befell GPUs at once fires within a few looks of it
AT_ONCE_MS = 15 * MINUTE_MS
# say nothing by themselves, in a sentence beside its title
FILLERS = frozenset({"a", "an", "the", "was", "were", "is", "are", "has", "had", "been", "of"})


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """One incident, or several of one rule on GPUs of one node that fired at once."""

    lines: tuple[IncidentView, ...]

    @property
    def first(self) -> IncidentView:
        """The one that stands for all."""
        return self.lines[0]

    @property
    def is_group(self) -> bool:
        """Whether it opens to several."""
        return len(self.lines) > 1

    @property
    def title(self) -> str:
        """As lists call it: "node-014: 4 GPUs slowed"."""
        breach = self.first.breach
        if not self.is_group:
            return breach.title
        joined = "with " if " " in breach.word else ""
        return f"{breach.label('node')}: {len(self.lines)} GPUs {joined}{breach.word}"

    @property
    def what(self) -> str:
        """What happened; "" where the title says it already."""
        what = self.first.what
        return "" if self.is_group or is_repeated(what, self.first.breach.title) else what

    @property
    def rule(self) -> str:
        """The rule's name; "" where the title says it already."""
        name = self.first.incident.rule.name
        return "" if is_repeated(name, self.title) else name

    @property
    def since_ms(self) -> int:
        """When the first of them began."""
        return min(line.breach.since_ms for line in self.lines)

    @property
    def is_critical(self) -> bool:
        return self.first.incident.severity == Severity.CRITICAL

    @property
    def burning_usd_per_hour(self) -> Decimal:
        """Dollars an hour of those that go on, as far as they are known."""
        burning = (line.breach.usd_per_hour for line in self.lines if not line.incident.note)
        return sum(filter(None, burning), Decimal(0))

    @property
    def cost_usd(self) -> Decimal | None:
        """Dollars of all so far; None where one's are not known."""
        return sum_if_all_known(line.breach.cost_usd for line in self.lines)

    @property
    def usd_per_hour(self) -> Decimal | None:
        """Dollars an hour of all; None where one's are not known."""
        return sum_if_all_known(line.breach.usd_per_hour for line in self.lines)


def incident_rows(lines: Iterable[IncidentView]) -> list[IncidentRow]:
    """The lines in their order, each group where its first line stands."""
    rows: list[list[IncidentView]] = []
    for line in lines:
        row = next((each for each in rows if _is_of(line, each)), None)
        if row is None:
            rows.append([line])
        else:
            row.append(line)
    return [IncidentRow(tuple(row)) for row in rows]


def by_usd_per_hour(rows: Iterable[IncidentRow]) -> list[IncidentRow]:
    """What burns most an hour first, a group by the sum of its incidents; what stopped, or whose
    dollars nobody knows, behind it in its order.
    """
    return sorted(rows, key=lambda row: -row.burning_usd_per_hour)


def critical_first(rows: Iterable[IncidentRow]) -> list[IncidentRow]:
    """Critical ones before others, each as by_usd_per_hour() has them."""
    return sorted(by_usd_per_hour(rows), key=lambda row: not row.is_critical)


def is_repeated(text: str, title: str) -> bool:
    """Whether the title has every word of the text that says anything."""
    return _words(text) <= _words(title)


def _is_of(line: IncidentView, row: Sequence[IncidentView]) -> bool:
    """Whether the line belongs to the group: one more GPU of that node, and at once."""
    first = row[0]
    node = line.breach.label("node")
    if line.breach.kind != "gpu" or not node or _key(line) != _key(first):
        return False
    if any(each.breach.subject == line.breach.subject for each in row):
        return False
    return abs(line.incident.fired_or_since_ms - first.incident.fired_or_since_ms) <= AT_ONCE_MS


def _key(line: IncidentView) -> tuple[object, ...]:
    incident = line.incident
    stands = (incident.state, incident.resolution, incident.snoozed_until, incident.assignee_id)
    return (incident.rule_id, line.breach.kind, line.breach.label("node"), *stands)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[\w-]+", text.lower())) - FILLERS
