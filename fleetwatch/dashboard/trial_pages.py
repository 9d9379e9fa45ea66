"""What a page says of a policy that was tried: how waste moves, for whom, and what puts it in
force.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.urls import reverse

from fleetwatch.accounts.models import Team
from fleetwatch.costs.mapping import attribution
from fleetwatch.dashboard import threshold_words
from fleetwatch.dashboard.showing import Context
from fleetwatch.dashboard.trial_outcome import (
    DECIDED_BY,
    MAX_MOVERS,
    Mover,
    most_decided,
    outcome,
    why_nothing,
)
from fleetwatch.figures.totals import NOBODY, UNMAPPED
from fleetwatch.finance.trial_sums import UNALLOCATED, Line
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.intervals import Interval

WITHOUT_OWNER = {
    UNALLOCATED: "unallocated",
    NOBODY: "jobs that name nobody",
    UNMAPPED: "jobs without a team",
}


@dataclass(frozen=True, slots=True)
class NamedMover:
    """A team or job whose time another policy would sort otherwise: what it is called, where its
    page is ("": it has none), and whose job it is ("" of a team).
    """

    name: str
    address: str
    user: str
    mover: Mover


@dataclass(frozen=True, slots=True)
class Change:
    """A threshold that is tried: its value in force and the other one, as people write them."""

    label: str
    shown: str
    tried: str


def outcome_of(
    in_force: Policy,
    changed: dict[str, float],
    lines: Mapping[str, Sequence[Line]],
    interval: Interval,
) -> Context:
    """What the `lines` by state, team and job come to, and the command that puts it in force.

    Raises RefusedFieldError for a threshold that can't be.
    """
    policy = Policy.from_json(in_force.to_json() | changed)
    result = outcome(lines, interval)
    differing = {
        name: number for name, number in changed.items() if getattr(in_force, name) != number
    }
    words = _in_words(in_force, policy, differing)
    return _put_in_force(differing) | {
        "outcome": result,
        "is_recorded": bool(lines["state"]),
        "changes": [Change(threshold_words.LABELS[name], *words[name]) for name in differing],
        "team_movers": _teams(result.teams[:MAX_MOVERS]),
        "job_movers": _jobs(result.jobs[:MAX_MOVERS], interval),
        "why_nothing": why_nothing(in_force, policy, words),
        **_decides(lines["state"]),
    }


def _decides(lines: Sequence[Line]) -> Context:
    """Which thresholds decide most of the time that there is, by their labels."""
    most = most_decided(lines)
    if most is None:
        return {}
    state, spent_ms = most
    labels = [threshold_words.LABELS[name] for name in DECIDED_BY[state]]
    return {"decided_state": state, "decided_ms": spent_ms, "decided_by": labels}


def _put_in_force(changed: Mapping[str, float]) -> Context:
    """The form's values and the shell's command; "" where nothing would be another."""
    values = [(name, plain(number)) for name, number in changed.items()]
    settings = " ".join(f"{name}={value}" for name, value in values)
    return {"differing": values, "command": f"manage.py set_policy {settings}" if values else ""}


def _in_words(in_force: Policy, tried: Policy, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """By the name of a threshold its value in force and the tried one."""
    return {
        name: (
            threshold_words.written(getattr(in_force, name), threshold_words.UNITS[name]),
            threshold_words.written(getattr(tried, name), threshold_words.UNITS[name]),
        )
        for name in names
    }


def plain(number: float) -> str:
    """The number as a form or a shell takes it."""
    return str(number).removesuffix(".0")


def _teams(movers: Sequence[Mover]) -> list[NamedMover]:
    teams = Team.objects.in_bulk([mover.key for mover in movers], field_name="slug")
    return [
        NamedMover(teams[mover.key].name or mover.key, reverse("team", args=[mover.key]), "", mover)
        if mover.key in teams
        else NamedMover(WITHOUT_OWNER.get(mover.key, mover.key), "", "", mover)
        for mover in movers
    ]


def _jobs(movers: Sequence[Mover], interval: Interval) -> list[NamedMover]:
    """Time that no job held is told by its team's line."""
    jobs = attribution.jobs_by_key((mover.key for mover in movers), before=interval.end)
    return [
        NamedMover(job.name or job.key, reverse("job", args=[job.key]), job.user, mover)
        for mover in movers
        if (job := jobs.get(mover.key))
    ]
