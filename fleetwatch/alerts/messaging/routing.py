"""Whom incidents are told, in which order, and why: the owner, the owner again, the team's
channels, the operators'. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

NO_ACCOUNT = "no account was linked to"  # why it goes where the unowned goes
NOBODY_BEFORE = "nobody before them acknowledged it"
NOBODY = "nobody acknowledged it"


class Step(IntEnum):
    """Of the escalation ladder; each is for those whom the one before did not move."""

    OWNER = 0
    AGAIN = 1
    TEAM = 2
    OPERATORS = 3


@dataclass(frozen=True, slots=True)
class Destination:
    """A channel, or a person by an address there, and why it is they, in words."""

    channel_id: int
    address: str = ""
    person_id: int | None = None
    why: str = ""

    @property
    def place(self) -> tuple[int, str]:
        """Where it is: what two destinations have in common that reach the same."""
        return self.channel_id, self.address


@dataclass(frozen=True, slots=True)
class Routes:
    """The channels (ids) that are set for teams (by id), for what nobody acknowledges and for what
    nobody owns; `every` is all there are, and `is_set` whether anything is set at all.
    """

    every: tuple[int, ...]
    operators: tuple[int, ...] = ()
    unowned: tuple[int, ...] = ()
    by_team: Mapping[int, tuple[int, ...]] | None = None
    is_set: bool = False

    def of_team(self, team_id: int | None) -> tuple[int, ...]:
        """The team's channels; none where it has no route."""
        return (self.by_team or {}).get(team_id or 0, ())

    def readers(self, channel_id: int) -> frozenset[int] | None:
        """The teams (ids) that read the channel; None where it is no team's, or operators read it
        too.
        """
        if channel_id in (*self.operators, *self.unowned):
            return None
        by_team = self.by_team or {}
        teams = {team_id for team_id, channels in by_team.items() if channel_id in channels}
        return frozenset(teams) or None

    def has_strangers(self, channel_id: int) -> bool:
        """Whether nobody said who reads the channel: it is no team's, and not the operators'."""
        fleets = (*self.operators, *self.unowned)
        return channel_id not in fleets and self.readers(channel_id) is None


@dataclass(frozen=True, slots=True)
class Matter:
    """What is to be told: of which rule, with which channels (ids) of its own, and whose it is.

    `holder` is who holds it as its scheduler names him, "" where nobody does (a node); `person`
    where the owner is reached, None where nobody is known or he wants to hear nothing.
    """

    rule_name: str
    rule_channels: tuple[int, ...] = ()
    holder: str = ""
    team_id: int | None = None
    team_name: str = ""
    person: Destination | None = None


@dataclass(frozen=True, slots=True)
class Rung:
    """A step, and who is told then."""

    step: Step
    destinations: tuple[Destination, ...]


def rungs(matter: Matter, routes: Routes) -> list[Rung]:
    """The ladder, steps that reach nobody left out; a rule's own channels are told with the first.

    Where nothing is set every channel is told, as on a hub with one admin and one channel. Empty
    where there is no channel at all.
    """
    owner = () if matter.person is None else (matter.person,)
    team = _team(matter, routes)
    why = NOBODY_BEFORE if owner or team else _why_operators(matter)
    steps = {
        Step.OWNER: owner,
        Step.AGAIN: owner,
        Step.TEAM: team,
        Step.OPERATORS: _once_more(_channels(routes.operators, why), team),
    }
    ladder = [Rung(step, several) for step, several in steps.items() if several]
    first = ladder[0] if ladder else Rung(Step.OPERATORS, ())
    always = _always(matter, routes, is_only=not ladder)
    both = Rung(first.step, _distinct([*first.destinations, *always]))
    return [rung for rung in (both, *ladder[1:]) if rung.destinations]


def _once_more(
    operators: tuple[Destination, ...], team: Sequence[Destination]
) -> tuple[Destination, ...]:
    """The operators, of whom those that were told as the team's are the ones who did not answer."""
    before = {each.place for each in team}
    return tuple(replace(each, why=NOBODY) if each.place in before else each for each in operators)


def _why_operators(matter: Matter) -> str:
    """Why they hear first of it."""
    if matter.team_name:
        return f"team {matter.team_name} has no channel, so the operators are told"
    if matter.holder:
        return "its owner is not reached here, so the operators are told"
    return "it goes to the operators"


def rung_after(ladder: Sequence[Rung], step: int) -> Rung | None:
    """The next one; None at the top."""
    return next((rung for rung in ladder if rung.step > step), None)


def _team(matter: Matter, routes: Routes) -> tuple[Destination, ...]:
    """The team's channels; of what somebody holds whom nobody knows, those for the unowned."""
    own = routes.of_team(matter.team_id)
    if own:
        return _channels(own, f"the route of team {matter.team_name}")
    if matter.person is None and matter.holder:
        return _channels(routes.unowned, f"{NO_ACCOUNT} {matter.holder} at that time")
    return ()


def _always(matter: Matter, routes: Routes, *, is_only: bool) -> tuple[Destination, ...]:
    if matter.rule_channels:
        return _channels(matter.rule_channels, f"a channel of the rule {matter.rule_name}")
    if not routes.is_set:
        return _channels(routes.every, "no route is set: every channel is told")
    why = "no route leads anywhere: every channel is told"
    return _channels(routes.every, why) if is_only else ()


def _channels(ids: Iterable[int], why: str) -> tuple[Destination, ...]:
    return tuple(Destination(each, why=why) for each in ids)


def _distinct(destinations: Iterable[Destination]) -> tuple[Destination, ...]:
    """Of those that reach the same the first."""
    by_place: dict[tuple[int, str], Destination] = {}
    for each in destinations:
        by_place.setdefault(each.place, each)
    return tuple(by_place.values())
