"""Mapping rules: what one asks of a job, what it gives, and which of several is asked first. Pure.

The order is that of the list on the page, so that a person can predict it: from the top down, the
first rule that matches and names a team gives the team; project and cost centre are found alike,
each on its own.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime

from fleetwatch.figures.totals import WHY
from fleetwatch.lib.refusal import RefusedFieldError, is_name

# as people write them: name -> for people
CONDITIONS = {
    "user": "user",
    "account": "account",
    "namespace": "namespace",
    "partition": "partition",
    "label": "label",
}
GIVES = {"team": "team", "project": "project", "cost_centre": "cost centre"}
ANY = "*"
LONGEST_PATTERN = 128
LONGEST_NAME = 100
LONGEST_NOTE = 300
# priorities
FIRST = 1
LAST = 1000
USUAL = 100


class MappingError(RefusedFieldError):
    """A rule that can't be."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a job has to be; all of it.

    "" = any. In user, account, namespace, partition and label_value `*` stands for any characters.
    """

    user: str = ""
    account: str = ""
    namespace: str = ""
    partition: str = ""
    label: str = ""
    label_value: str = ""

    @property
    def patterns(self) -> dict[str, str]:
        """What is asked, by condition; of a label its value."""
        values = {"label": self.label_value}
        patterns = {name: values.get(name, getattr(self, name)) for name in CONDITIONS}
        return {name: pattern for name, pattern in patterns.items() if pattern}

    @property
    def words(self) -> str:
        """For people: "user ann, label project=vision-*"."""
        return ", ".join(
            f"{name} {self.label + '=' if name == 'label' else ''}{pattern}"
            for name, pattern in self.patterns.items()
        )


@dataclass(frozen=True, slots=True)
class Gives:
    """Whose time it is by a rule; "" = the rule does not say."""

    team: str = ""  # slug
    project: str = ""
    cost_centre: str = ""

    @property
    def words(self) -> str:
        """For people: "team nlp, cost centre 4711"."""
        return ", ".join(
            f"{label} {getattr(self, name)}" for name, label in GIVES.items() if getattr(self, name)
        )


@dataclass(frozen=True, slots=True)
class Terms:
    """What a rule says over [valid_from, valid_to), None = until it is ended; a note makes no two
    rules of one.
    """

    asks: Conditions
    gives: Gives
    valid_from: datetime
    valid_to: datetime | None = None
    priority: int = USUAL
    note: str = field(default="", compare=False)


def place(priority: int, asks: Conditions, number: int) -> tuple[int, int, int, int, int]:
    """What rules are sorted by: priority, then more conditions, fewer patterns, more characters
    that are given, then the older rule.
    """
    patterns = asks.patterns.values()
    literal = sum(len(pattern.replace(ANY, "")) for pattern in patterns)
    return priority, -len(patterns), sum(ANY in pattern for pattern in patterns), -literal, number


def like(pattern: str) -> str:
    """The pattern as SQL's LIKE has it: `*` any characters, everything else itself."""
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped.replace(ANY, "%")


def read_label(text: str) -> tuple[str, str]:
    """Name and value of a label written as key=value; a name alone is any value.

    Raises MappingError.
    """
    name, _, value = (part.strip() for part in text.partition("="))
    if text.strip() and not name:
        raise MappingError("A label is written as key=value, like project=vision-*.", field="label")
    return name, (value or ANY) if name else ""


def check(terms: Terms) -> None:
    """Raises MappingError where one of them can't be."""
    asks = asdict(terms.asks)
    gives = asdict(terms.gives)
    if not terms.asks.patterns:
        raise MappingError(
            "Which jobs? At least one of user, account, namespace, partition and label.",
            field="user",
        )
    if not any(gives.values()):
        raise MappingError(
            "What do they belong to? A team, a project or a cost centre.", field="team"
        )
    if not FIRST <= terms.priority <= LAST:
        raise MappingError(
            f"A priority is {FIRST} (asked first) to {LAST}, not {terms.priority}.",
            field="priority",
        )
    _check_texts(asks, LONGEST_PATTERN)
    _check_texts(gives, LONGEST_NAME)
    _check_texts({"note": terms.note}, LONGEST_NOTE)
    for name, owner in gives.items():
        if owner in WHY:
            raise MappingError(f"{owner} is what jobs without one are listed under.", field=name)


def _check_texts(texts: Mapping[str, str], longest: int) -> None:
    for name, text in texts.items():
        if not is_name(text, longest=longest):
            raise MappingError(
                f"At most {longest} characters, none of them control characters, please.",
                field="label" if name == "label_value" else name,
            )
