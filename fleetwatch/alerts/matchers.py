"""What a scope, a silence or a route is about: matchers on the labels of a breach, as Alertmanager
has them. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from fleetwatch.lib.refusal import RefusedFieldError

MAX_MATCHERS = 20
MAX_VALUES = 100
# a subject has 410 characters at most, and escaped each of them may be three
MAX_LENGTH = 3 * 410
# what a breach can have; beside them label.x, a job's own
MATCHED = {
    "subject": "Subject",
    "rule": "Rule",
    "severity": "Severity",
    "team": "Team",
    "person": "Person",
    "user": "User",
    "job": "Job",
    "name": "Job name",
    "kind": "Job kind",
    "node": "Node",
    "model": "GPU model",
    "cluster": "Cluster",
    "scheduler": "Scheduler",
    "cause": "Cause",
}

Labels = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Matcher:
    """Holds where one value of the label is one of these (`*` and `?` stand for anything); negated,
    where none is. What has no such label has no value.
    """

    label: str
    values: tuple[str, ...]
    is_not: bool = False

    def matches(self, labels: Labels) -> bool:
        """Whether it holds."""
        return any(map(self._names, labels.get(self.label, ()))) != self.is_not

    def covers(self, labels: Labels) -> bool:
        """Whether every value of the label is one of these; of none that is so."""
        return all(map(self._names, labels.get(self.label, ())))

    def _names(self, value: str) -> bool:
        return any(fnmatchcase(value, pattern) for pattern in self.values)

    @property
    def text(self) -> str:
        """In words: "node is gpu-01 or gpu-02"."""
        name = MATCHED.get(self.label, self.label)
        return f"{name} is {'not ' if self.is_not else ''}{' or '.join(self.values)}"


def matched(matchers: Iterable[Matcher], labels: Labels) -> bool:
    """Whether all of them hold; of none that is so."""
    return all(matcher.matches(labels) for matcher in matchers)


def stored(rows: Any) -> list[Matcher]:
    """The matchers of a JSON column."""
    return msgspec.convert(rows, list[Matcher])


def checked(matchers: Iterable[Matcher]) -> list[dict[str, Any]]:
    """The matchers for a JSON column. Raises RefusedFieldError."""
    several = list(matchers)
    if len(several) > MAX_MATCHERS:
        raise RefusedFieldError(f"At most {MAX_MATCHERS} conditions", field="matchers")
    for matcher in several:
        _check(matcher)
    return [msgspec.to_builtins(matcher) for matcher in several]


def _check(matcher: Matcher) -> None:
    if matcher.label not in MATCHED and not matcher.label.startswith("label."):
        raise RefusedFieldError(
            f"{matcher.label[:60]!r} is none of {', '.join(MATCHED)} or label.NAME",
            field="matchers",
        )
    if not 1 <= len(matcher.values) <= MAX_VALUES:
        raise RefusedFieldError(f"{matcher.label}: name 1 to {MAX_VALUES} values", field="matchers")
    if any(not value or len(value) > MAX_LENGTH for value in (matcher.label, *matcher.values)):
        raise RefusedFieldError(
            f"{matcher.label[:60]}: values have 1 to {MAX_LENGTH} characters", field="matchers"
        )
