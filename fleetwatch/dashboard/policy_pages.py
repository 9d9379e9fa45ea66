"""The ledger's policy: its thresholds, and what would change if some of them were others."""

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest

from fleetwatch.dashboard import threshold_words, trial_pages
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.policy_versions import policy_versions
from fleetwatch.dashboard.showing import Context
from fleetwatch.finance import policy_trial, trial_runs
from fleetwatch.finance.policy_trial import TookTooLongError
from fleetwatch.finance.trial_sums import GROUPS
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger import trial
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
DEFAULT_HOURS = "6"
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
# whom each part concerns
ABOUT = {
    "When a job is idle": "most waste is decided here: after how long a quiet job is idle",
    "Quiet windows and work": "what counts as quiet; by it idle time begins and ends",
    "What contradicts a counter": "seldom changed: when power or traffic outweighs utilisation",
    "Memory that is no job's": "where GPUs are held by no job",
    "Busy-waiting": "seldom changed: a job that spins and computes nothing",
    "Efficiency, power, energy": "what useful work is measured against",
    "Outages": "seldom changed: when a broken GPU works again",
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
# what a number alone does not say: pages show these in larger units than are stored
NEEDS_UNIT = {"s": "s", "bytes": "B", "bytes/s": "B/s"}


@dataclass(frozen=True, slots=True)
class Threshold:
    """One of the policy's: its value in force, the one that is tried, both as people write them,
    and why it is there.
    """

    name: str
    label: str
    reason: str
    shown: str
    tried: str
    error: str


@dataclass(frozen=True, slots=True)
class PolicyPart:
    """Thresholds about one thing."""

    title: str
    about: str
    thresholds: list[Threshold]

    @property
    def is_tried(self) -> bool:
        """Whether the address names another value of one of them."""
        return any(each.tried for each in self.thresholds)


def idle_after() -> list[tuple[str, str]]:
    """From when on jobs are idle by the policy in force: what each setting is called, and is."""
    _, policy = current_policy()
    return [
        (
            threshold_words.LABELS[name],
            threshold_words.written(getattr(policy, name), threshold_words.UNITS[name]),
        )
        for name in threshold_words.IDLE_AFTER
    ]


def content(request: HttpRequest, now: datetime) -> Context:
    """The policy in force, and where the address names other thresholds what would change."""
    version, in_force = current_policy()
    asked = thresholds_of(request.POST or request.GET)
    at_once = _at_once()
    hours = chosen(request, "hours", HOURS, default=_default_hours(at_once))
    may_try = policy_trial.may_try(request.user)
    context: Context = {
        "version": version,
        "hours": hours,
        "hour_choices": _hour_choices(at_once),
        "may_try": may_try,
    }
    if asked and may_try:
        context |= _outcome(in_force, asked, full_hours(int(hours), now), now)
    errors = context.get("errors", {})
    shown = [_threshold(field, in_force, asked, errors) for field in fields(Policy)]
    return context | {
        "parts": _parts(shown),
        "trials": trial_runs.newest() if may_try else (),
        "versions": policy_versions(),
    }


def thresholds_of(sent: Mapping[str, str]) -> dict[str, str]:
    """The thresholds that an address or a form names, as they are written."""
    return {name: sent[name].strip() for name in NAMES if sent.get(name)}


def _default_hours(at_once: Sequence[str]) -> str:
    """DEFAULT_HOURS, or as many as a request can judge of this fleet."""
    return min(DEFAULT_HOURS, *at_once[-1:] or HOURS[:1], key=int)


def _at_once() -> list[str]:
    """Those of HOURS that a request judges of this fleet."""
    gpus = GPU.objects.filter(parent=None, retired_ms=None).count()
    return [hours for hours in HOURS if int(hours) * gpus <= policy_trial.MAX_GPU_HOURS]


def _hour_choices(at_once: Sequence[str]) -> list[tuple[str, str]]:
    """Which of them a worker judges is said before they are chosen."""
    return [
        (hours, label if hours in at_once else f"{label}, in the background")
        for hours, label in HOUR_CHOICES
    ]


def full_hours(count: int, now: datetime) -> Interval:
    """So many, those that were over last."""
    until = floor_hour(now)
    return Interval(until - timedelta(hours=count), until)


def _parts(shown: Sequence[Threshold]) -> list[PolicyPart]:
    return [
        PolicyPart(
            title, ABOUT[title], [each for each in shown if each.name.partition("_")[0] in words]
        )
        for title, words in PARTS.items()
    ]


def _outcome(
    in_force: Policy, asked: Mapping[str, str], period: Interval, now: datetime
) -> Context:
    """What would change, or what is wrong with what is asked, by threshold."""
    try:
        changed = read(asked)
        return _tried(in_force, changed, bounds(period, now=now))
    except RefusedFieldError as error:
        return {"errors": {error.field: str(error)}}
    except TrialError as error:
        return {"errors": {"": str(error)}}


def read(asked: Mapping[str, str]) -> dict[str, float]:
    """The thresholds as numbers. Raises RefusedFieldError."""
    numbers: dict[str, float] = {}
    for name, text in asked.items():
        unit = threshold_words.UNITS[name]
        number = threshold_words.read(text, unit)
        if unit in NEEDS_UNIT and threshold_words.is_bare(text):
            raise RefusedFieldError(f"In which unit? Write {LIKE[unit]}, please.", field=name)
        if number is None:
            raise RefusedFieldError(f"Not understood: {LIKE[unit]}, please.", field=name)
        numbers[name] = number
    return numbers


def _tried(in_force: Policy, changed: dict[str, float], interval: Interval) -> Context:
    """What the changed policy would have said of the interval, or that it is more than a request
    judges. Raises TrialError, and RefusedFieldError for a threshold that can't be.
    """
    policy = Policy.from_json(in_force.to_json() | changed)
    gpu_hours = trial.gpu_hours(interval)
    if gpu_hours > policy_trial.MAX_GPU_HOURS:
        trial.check_reach(policy)
        return _for_a_worker(changed, gpu_hours)
    try:
        lines = policy_trial.compare_by(
            GROUPS,
            in_force,
            policy,
            interval,
            max_gpu_hours=policy_trial.MAX_GPU_HOURS,
            max_s=policy_trial.AT_ONCE_S,
        )
    except TookTooLongError:
        return _for_a_worker(changed, gpu_hours)
    return trial_pages.outcome_of(in_force, changed, lines, interval)


def _for_a_worker(changed: Mapping[str, float], gpu_hours: float) -> Context:
    """What a worker is to be asked for, who says how far it is and can be stopped."""
    return {
        "asked": [(name, as_typed(name, number)) for name, number in changed.items()],
        "gpu_hours": round(gpu_hours),
    }


def as_typed(name: str, number: float) -> str:
    """The number as read() takes it: exactly, and with its unit where it needs one."""
    unit = NEEDS_UNIT.get(threshold_words.UNITS[name], "")
    return f"{trial_pages.plain(number)} {unit}".strip()


def _threshold(
    field: Field[Any], in_force: Policy, asked: Mapping[str, str], errors: Mapping[str, str]
) -> Threshold:
    name = field.name
    unit = threshold_words.UNITS[name]
    number = threshold_words.read(asked.get(name, ""), unit)
    understood = None if number is None else threshold_words.written(number, unit)
    return Threshold(
        name=name,
        label=threshold_words.LABELS[name],
        reason=field.metadata["reason"],
        shown=threshold_words.written(getattr(in_force, name), unit),
        tried=understood or asked.get(name, ""),
        error=errors.get(name, ""),
    )
