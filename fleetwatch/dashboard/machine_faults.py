"""What the pages of a node and a GPU say at their head of what can't work there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from fleetwatch.dashboard.machine_commands import Command
from fleetwatch.dashboard.problems import Problem
from fleetwatch.diagnosis.cause import Step

DRAINS = "state=drain"
JOBS = 5  # named of those that run


@dataclass(frozen=True, slots=True)
class Fault:
    """How many GPUs can't work and since when, what that cost so far (None: not known) and per
    hour, and where its incident is.
    """

    gpus: int
    since_ms: int
    usd: Decimal | None
    usd_per_hour: Decimal | None
    address: str


def fault_of(problems: Sequence[Problem]) -> Fault | None:
    """All faults as one, since the first; None where all work."""
    faults = [each for each in problems if each.is_fault]
    if not faults:
        return None
    first = min(faults, key=lambda each: each.since_ms)
    return Fault(
        sum(max(1, len(each.links)) for each in faults),
        first.since_ms,
        _sum([each.usd for each in faults]),
        _sum([each.usd_per_hour for each in faults]),
        first.address,
    )


def _sum(amounts: Sequence[Decimal | None]) -> Decimal | None:
    in_dollars = [amount for amount in amounts if amount is not None]
    return sum(in_dollars, Decimal()) if in_dollars else None


def counted_once(problems: Sequence[Problem], running: Sequence[str]) -> list[Problem]:
    """A fault's dollars with its incident alone, and the command that drains the node once, with
    the names of the jobs that run there.
    """
    fault = fault_of(problems)
    shown = [_without_dollars(each, fault) if fault else each for each in problems]
    drains = [each for each in shown if each.step is not None and DRAINS in each.step.code]
    return [_drained_once(each, drains, running) if each in drains else each for each in shown]


def _without_dollars(problem: Problem, fault: Fault) -> Problem:
    """The same loss, found by diagnosis: a longer one, of earlier times too, keeps its dollars."""
    is_same = problem.is_capacity and problem.until_ms is None
    if not is_same or fault.usd is None or (problem.usd or 0) > fault.usd:
        return problem
    return replace(problem, usd=None, step=None, is_counted_above=True)


def _drained_once(problem: Problem, drains: Sequence[Problem], running: Sequence[str]) -> Problem:
    if problem is not drains[0]:
        return replace(problem, step=Step("The same: take the node out of service, as above."))
    return replace(problem, meanwhile=_in_words(running))


def _in_words(running: Sequence[str]) -> str:
    """Of the jobs that a drained node still runs."""
    if not running:
        return "No job runs on it now."
    more = f" and {len(running) - JOBS} more" if len(running) > JOBS else ""
    named = ", ".join(running[:JOBS])
    goes_on = "it goes on to its end" if len(running) == 1 else "they go on to their end"
    return f"Running there now: {named}{more}. Once the node drains {goes_on}."


def without_drain(commands: Sequence[Command], problems: Sequence[Problem]) -> list[Command]:
    """Those that no problem names already."""
    is_named = any(each.step is not None and DRAINS in each.step.code for each in problems)
    return [command for command in commands if not (is_named and DRAINS in command.line.lower())]
