"""What an evaluation changes: episodes beside the incidents that are there. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fleetwatch.alerts.episodes import Episode, Firing

LATE_MS = 15 * 60_000  # what is older when it arrives is recorded and never told
FIRST_LOOK_MS = 7 * 24 * 60 * 60_000  # what goes on when a rule is switched on began then at most


@dataclass(frozen=True, slots=True)
class Row:
    """An incident as evaluation sees it: `ended_ms` None while its breach goes on."""

    subject: str
    since_ms: int
    until_ms: int
    fired_ms: int | None
    ended_ms: int | None

    @property
    def firing(self) -> Firing | None:
        """What is carried into the next period; None of one that is over or pending."""
        if self.fired_ms is None or self.ended_ms is not None:
            return None
        return Firing(self.since_ms, self.fired_ms, self.until_ms)

    def goes_on(self, episode: Episode) -> bool:
        """Whether the episode may be this one's: what fires is not continued by what is pending."""
        return self.fired_ms is None or episode.fired_ms is not None


@dataclass(slots=True)
class Changes:
    """What to write: episodes that are new, those of incidents that go on or are over; subjects
    whose pending incident came to nothing, and those that fire by settings that hold no more.
    """

    opened: list[Episode] = field(default_factory=list)
    kept: list[Episode] = field(default_factory=list)
    ended: list[Episode] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)


def carried(rows: Iterable[Row], *, duration_ms: int) -> dict[str, Firing]:
    """What fires already, by subject: what lasted as long as the rule asks for now."""
    firing = {row.subject: row.firing for row in rows}
    return {
        subject: each
        for subject, each in firing.items()
        if each is not None and each.until_ms - each.since_ms >= duration_ms
    }


def over_until(rows: Iterable[Row]) -> dict[str, int]:
    """By subject until when its time is an incident's that is over."""
    ends: dict[str, int] = {}
    for row in rows:
        if row.ended_ms is not None:
            ends[row.subject] = max(row.ended_ms, ends.get(row.subject, row.ended_ms))
    return ends


def changes(
    episodes: Iterable[Episode], going_on: Iterable[Row], *, begun_ms: int | None
) -> Changes:
    """What differs between the episodes of a period and the rows that go on. What was over when the
    rule was evaluated first (`begun_ms`; None: nobody knows when that was) is history.
    """
    left = {row.subject: row for row in going_on}
    result = Changes()
    for episode in episodes:
        row = left.get(episode.subject)
        if _is_history(episode, row, begun_ms):
            continue
        if row is not None and row.goes_on(episode):
            left.pop(episode.subject)
            same = result.kept if episode.ended_ms is None else result.ended
            same.append(episode)
        elif row is None:
            result.opened.append(episode)
    _note_left(left, result)
    return result


def _note_left(left: Mapping[str, Row], result: Changes) -> None:
    for subject, row in left.items():
        gone = result.dropped if row.fired_ms is None else result.withdrawn
        gone.append(subject)


def _is_history(episode: Episode, row: Row | None, begun_ms: int | None) -> bool:
    """Whether it was over before the rule watched: what fires is the rule's, whenever it ended."""
    if begun_ms is None or episode.ended_ms is None or episode.ended_ms > begun_ms:
        return False
    return row is None or row.fired_ms is None
