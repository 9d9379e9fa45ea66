"""Why nobody is told of an incident: the first of the reasons that hold, in their order. Pure.

A reason why it is no waste (what counts as waste hangs on it), the rule's schedule, a snooze, a
silence or maintenance window, an exemption, an incident that speaks for it, telemetry that came
late.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from fleetwatch.alerts.matchers import Labels, Matcher, matched
from fleetwatch.alerts.weekly_hours import Hours
from fleetwatch.notify.message import one_line

LATE = "its telemetry came over 15 min late: it is recorded only"
# how a sentence begins that says of an incident why it is no waste
ACCEPTED = "accepted"
EXEMPT = "exemption"  # and what an operator approved
# kinds of silences in the order in which they count
KINDS = {
    "silence": "silence",
    "maintenance": "maintenance window",
    "exemption": EXEMPT,
    "justification": ACCEPTED,
}
# of which somebody said that it is no waste
AGREED = (ACCEPTED, EXEMPT)
ORDER = (("silence", "maintenance"), ("exemption",))
LONGEST = 200


@dataclass(frozen=True, slots=True)
class Mute:
    """One that was set: for what matches, over [starts_at, ends_at), in these hours of the week
    alone (None: always). One `of_teams_alone` is for nothing in which a team has a part that its
    matchers don't name. `ended_by` says what ends it, where no day does.
    """

    kind: str
    matchers: tuple[Matcher, ...]
    starts_at: datetime
    ends_at: datetime
    hours: Hours | None = None
    reason: str = ""
    of_teams_alone: bool = False
    ended_by: str = ""
    silence_id: int | None = None  # the row that it is of

    def is_for(self, labels: Labels) -> bool:
        """Whether it is meant, at whatever time."""
        return matched(self.matchers, labels) and not (
            self.of_teams_alone and self._has_others(labels)
        )

    def _has_others(self, labels: Labels) -> bool:
        of_teams = (each for each in self.matchers if each.label == "team" and not each.is_not)
        return not all(each.covers(labels) for each in of_teams)

    def holds(self, labels: Labels, now: datetime) -> bool:
        """Whether it is meant and it is its time."""
        is_time = self.starts_at <= now < self.ends_at and (
            self.hours is None or self.hours.hold(now)
        )
        return is_time and self.is_for(labels)

    def until(self, now: datetime) -> datetime:
        """When what holds now ends: with its hours of the week, where it has some."""
        if self.hours is None:
            return self.ends_at
        end = self.hours.end_after(now)
        while end < self.ends_at and self.hours.hold(end):  # whole days that follow each other
            end = self.hours.end_after(end)
        return min(end, self.ends_at)


@dataclass(frozen=True, slots=True)
class Speaker:
    """An incident that fires and speaks for what lies within it: of its label these values."""

    rule_id: int
    label: str
    values: frozenset[str]
    text: str

    def speaks_for(self, incident: "Subject") -> bool:
        """Whether all that the incident has of the label is among its own; none is not."""
        theirs = incident.labels.get(self.label, ())
        return incident.rule_id != self.rule_id and bool(theirs) and self.values.issuperset(theirs)


@dataclass(frozen=True, slots=True)
class Subject:
    """An incident, as far as it matters here; `speaks` for others, so none speaks for it."""

    rule_id: int
    labels: Labels
    schedule: Hours | None = None
    snoozed_until: datetime | None = None
    is_late: bool = False
    speaks: bool = False


@dataclass(frozen=True, slots=True)
class Mutes:
    """What holds an incident back at a moment; times are said in the zone."""

    now: datetime
    zone: ZoneInfo
    mutes: Sequence[Mute] = ()
    speakers: Sequence[Speaker] = ()

    @property
    def asks_labels(self) -> bool:
        """Whether something is set that is about some labels; else nobody needs to know them."""
        return bool(self.mutes or self.speakers)

    def reason(self, subject: Subject) -> str:
        """Why nobody is told of it, in words; "" where people are."""
        return one_line(next(filter(None, self._reasons(subject)), ""), LONGEST)

    def accepted(self, labels: Labels) -> str:
        """Why what has these labels is no waste, in words; "" where nobody said so."""
        return self._silenced(("justification",), labels)

    def _reasons(self, subject: Subject) -> Iterable[str]:
        yield self._silenced(("justification",), subject.labels)
        if subject.schedule is not None and not subject.schedule.hold(self.now):
            yield f"its rule tells {subject.schedule.text} only"
        if subject.snoozed_until is not None and self.now < subject.snoozed_until:
            yield f"snoozed until {moment(subject.snoozed_until, self.zone)}"
        for kinds in ORDER:
            yield self._silenced(kinds, subject.labels)
        if not subject.speaks:
            speaking = (each.text for each in self.speakers if each.speaks_for(subject))
            yield next(speaking, "")
        yield LATE if subject.is_late else ""

    def _silenced(self, kinds: Sequence[str], labels: Labels) -> str:
        """By the one of these kinds that lasts longest."""
        holding = [
            each for each in self.mutes if each.kind in kinds and each.holds(labels, self.now)
        ]
        if not holding:
            return ""
        last = max(holding, key=lambda each: each.until(self.now))
        end = last.ended_by or moment(last.until(self.now), self.zone)
        return held_back(last.kind, end, last.reason)


def held_back(kind: str, end: str, reason: str) -> str:
    """Why nobody is told of an incident by one that was set; what ends it, in words."""
    return one_line(f"{KINDS[kind]} until {end}: {reason}", LONGEST)


def is_acceptance(muted: str) -> bool:
    """Whether nobody is told because somebody said why it is no waste."""
    return muted.startswith(ACCEPTED)


def was_agreed(muted: str) -> bool:
    """Whether that was so when it was over: also by what an operator approved."""
    return muted.startswith(AGREED)


def muted_in_words(muted: str) -> str:
    """Why nobody is told, as pages say it: what is no waste by the name of that decision."""
    begun = next((each for each in AGREED if muted.startswith(f"{each} until ")), None)
    if begun is None:
        return muted
    until, _, why = muted.removeprefix(f"{begun} until ").partition(": ")
    return f"Agreed as not waste (until {until}){why and f': {why}'}"


def moment(at: datetime, zone: ZoneInfo) -> str:
    """With its date always: the text stays the same from day to day."""
    local = at.astimezone(zone)
    return f"{local:%-d %b %Y, %H:%M} {local.tzname()}"
