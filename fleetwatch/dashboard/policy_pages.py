"""The ledger's policy: its thresholds, and what would change if some of them were others."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.permissions import Right, may
from fleetwatch.costs.mapping import attribution
from fleetwatch.dashboard import threshold_words
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.showing import Context
from fleetwatch.dashboard.trial_outcome import MAX_MOVERS, Mover, outcome, why_nothing
from fleetwatch.figures.totals import NOBODY, UNMAPPED
from fleetwatch.finance import policy_trial
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.selectors import current_policy
from fleetwatch.ledger.trial import TrialError, bounds
from fleetwatch.lib.intervals import Interval, floor_hour
from fleetwatch.lib.refusal import RefusedFieldError

HOURS = ("1", "6", "24", "168")  # that are judged twice
HOUR_CHOICES = [
    ("1", "the last hour"),
    ("6", "the last 6 full hours"),
    ("24", "the last 24 full hours"),
    ("168", "the last 7 days"),
]
DEFAULT_HOURS = HOUR_CHOICES[1]
NAMES = tuple(threshold.name for threshold in fields(Policy))
PARAMETERS = ("hours", *NAMES)
# the policy in parts, each with the words that its thresholds' names begin with
PARTS = {
    "When a job is idle": ("idle", "grace"),
    "Quiet windows and work": ("observed", "quiet", "blip", "bridge", "active"),
    "What contradicts a counter": ("contradiction", "work"),
    "Memory that is no job's": ("phantom", "empty"),
    "Busy-waiting": ("spin",),
    "Efficiency, power, energy": ("ceiling", "power", "rest", "energy"),
    "Outages": ("revival",),
}
# how a value of each unit may be written
LIKE = {
    "s": "a duration like 15 min or 1 h 30 min",
    "ratio": "a share like 2 %",
    "bytes": "a size like 300 MiB",
    "bytes/s": "a rate like 50 MiB/s",
    "W": "a number of watts",
    "windows": "a number of windows",
}
# what a bare number is in, as its field says
BARE = {
    "s": "or seconds",
    "ratio": "or 0 to 1",
    "bytes": "or bytes",
    "bytes/s": "or bytes/s",
    "W": "watts",
    "windows": "windows",
}
UNITS = {threshold.name: threshold.metadata["unit"] for threshold in fields(Policy)}
WITHOUT_OWNER = {
    policy_trial.UNALLOCATED: "unallocated",
    NOBODY: "jobs that name nobody",
    UNMAPPED: "jobs without a team",
}


@dataclass(frozen=True, slots=True)
class Threshold:
    """One of the policy's: its value in force, the one that is tried, both as people write them,
    what a bare number is in, and why it is there.
    """

    name: str
    label: str
    reason: str
    shown: str
    tried: str
    bare: str
    error: str

    @property
    def is_changed(self) -> bool:
        """Whether another value is tried than the one in force."""
        return bool(self.tried) and not self.error and self.tried != self.shown


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
class PolicyPart:
    """Thresholds about one thing."""

    title: str
    thresholds: list[Threshold]

    @property
    def is_tried(self) -> bool:
        """Whether the address names another value of one of them."""
        return any(each.tried for each in self.thresholds)


def content(request: HttpRequest, now: datetime) -> Context:
    """The policy in force, and where the address names other thresholds what would change."""
    version, in_force = current_policy()
    asked = _asked(request)
    choices = _hour_choices()
    hours = _hours(request, choices)
    may_try = may(request.user, Right.FLEET) or may(request.user, Right.MONEY)
    context: Context = {
        "version": version,
        "hours": hours,
        "hour_choices": choices,
        "may_try": may_try,
    }
    if asked and may_try:
        context |= _outcome(in_force, asked, _full_hours(int(hours), now), now)
    errors = context.get("errors", {})
    shown = [_threshold(field, in_force, asked, errors) for field in fields(Policy)]
    changes = [each for each in shown if each.is_changed]
    return context | {"parts": _parts(shown), "changes": changes}


def _asked(request: HttpRequest) -> dict[str, str]:
    """The thresholds that the address names, as they are written."""
    return {name: request.GET[name].strip() for name in NAMES if request.GET.get(name)}


def _hour_choices() -> list[tuple[str, str]]:
    """What a request can judge of this fleet, the shortest first; there is always one."""
    gpus = GPU.objects.filter(parent=None, retired_ms=None).count()
    fitting = [each for each in HOUR_CHOICES if _length(each) * gpus <= policy_trial.MAX_GPU_HOURS]
    return fitting or HOUR_CHOICES[:1]


def _hours(request: HttpRequest, choices: Sequence[tuple[str, str]]) -> str:
    """How many are asked for; without a word DEFAULT_HOURS, or as many as can be judged."""
    default, _ = min(DEFAULT_HOURS, choices[-1], key=_length)
    return chosen(request, "hours", HOURS, default=default)


def _length(choice: tuple[str, str]) -> int:
    return int(choice[0])


def _full_hours(count: int, now: datetime) -> Interval:
    """So many, those that were over last."""
    until = floor_hour(now)
    return Interval(until - timedelta(hours=count), until)


def _parts(shown: Sequence[Threshold]) -> list[PolicyPart]:
    return [
        PolicyPart(title, [each for each in shown if each.name.partition("_")[0] in words])
        for title, words in PARTS.items()
    ]


def _outcome(
    in_force: Policy, asked: Mapping[str, str], period: Interval, now: datetime
) -> Context:
    """What would change, or what is wrong with what is asked, by threshold."""
    try:
        changed = read(asked)
    except RefusedFieldError as error:
        return {"errors": {error.field: str(error)}}
    try:
        return _tried(in_force, changed, bounds(period, now=now))
    except RefusedFieldError as error:
        return {"errors": {error.field: str(error)}}
    except TrialError as error:
        return {"errors": {"": str(error)}, "try_command": _command("try_policy", changed)}


def read(asked: Mapping[str, str]) -> dict[str, float]:
    """The thresholds as numbers. Raises RefusedFieldError."""
    numbers: dict[str, float] = {}
    for name, text in asked.items():
        number = threshold_words.read(text, UNITS[name])
        if number is None:
            raise RefusedFieldError(f"Not understood: {LIKE[UNITS[name]]}, please.", field=name)
        numbers[name] = number
    return numbers


def _tried(in_force: Policy, changed: dict[str, float], interval: Interval) -> Context:
    """What the changed policy would have said of the interval. Raises TrialError, and
    RefusedFieldError for a threshold that can't be.
    """
    policy = Policy.from_json(in_force.to_json() | changed)
    lines = policy_trial.compare_by(
        policy_trial.GROUPS,
        in_force,
        policy,
        interval,
        max_gpu_hours=policy_trial.MAX_GPU_HOURS,
        max_s=policy_trial.MAX_S,
    )
    result = outcome(lines, interval)
    differing = {
        name: number for name, number in changed.items() if getattr(in_force, name) != number
    }
    return {
        "outcome": result,
        "is_recorded": bool(lines["state"]),
        "team_movers": _teams(result.teams[:MAX_MOVERS]),
        "job_movers": _jobs(result.jobs[:MAX_MOVERS], interval),
        "why_nothing": why_nothing(in_force, policy, _in_words(in_force, policy, differing)),
        "command": _command("set_policy", differing) if differing else "",
        "differing": [(name, _plain(number)) for name, number in differing.items()],
    }


def _in_words(in_force: Policy, tried: Policy, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """By the name of a threshold its value in force and the tried one."""
    return {
        name: (
            threshold_words.written(getattr(in_force, name), UNITS[name]),
            threshold_words.written(getattr(tried, name), UNITS[name]),
        )
        for name in names
    }


def _command(name: str, changed: Mapping[str, float]) -> str:
    """What does that with the thresholds, as a shell takes it."""
    changes = [f"{key}={_plain(number)}" for key, number in changed.items()]
    return " ".join([f"manage.py {name}", *changes])


def _plain(number: float) -> str:
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


def _threshold(
    field: Field[Any], in_force: Policy, asked: Mapping[str, str], errors: Mapping[str, str]
) -> Threshold:
    name = field.name
    unit = UNITS[name]
    number = threshold_words.read(asked.get(name, ""), unit)
    understood = None if number is None else threshold_words.written(number, unit)
    return Threshold(
        name=name,
        label=threshold_words.LABELS[name],
        reason=field.metadata["reason"],
        shown=threshold_words.written(getattr(in_force, name), unit),
        tried=understood or asked.get(name, ""),
        bare=BARE[unit],
        error=errors.get(name, ""),
    )
