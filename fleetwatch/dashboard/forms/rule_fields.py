"""The fields of a rule's form, and back."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fleetwatch.alerts.breach import Condition, Settings
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.services import RuleTerms, check_settings
from fleetwatch.dashboard.forms.asked import Asked
from fleetwatch.dashboard.forms.matcher_fields import (
    is_scope_sent,
    read_hours,
    read_scope,
    rows_of,
    sent_rows,
)
from fleetwatch.dashboard.threshold_words import of_minutes, read_minutes
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.models import Channel

MINUTES = ("minutes", "grace_minutes", "clear_minutes")
NUMBERS = ("threshold", "clear", "minutes", "coverage", "grace_minutes", "clear_minutes")
MAX_MINUTES = 30 * 24 * 60

Sent = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NumberField:
    """A number of the form: its name, what it is called, in which unit, and what is said of it."""

    name: str
    label: str
    value: str
    help: str = ""


def number_fields(watched: Condition, settings: Settings, sent: Sent) -> list[NumberField]:
    """What can be set of the condition, as it is set or as it was sent."""
    values = _values(settings)
    texts = _texts(watched)
    return [
        NumberField(name, label, sent.get(name, values[name]), about)
        for name, (label, about) in texts.items()
    ]


def scope_rows(scope: Sequence[Matcher], sent: Sent) -> list[object]:
    """The rows of what the rule watches, as it is set or as it was sent."""
    return list(sent_rows(sent) if is_scope_sent(sent) else rows_of(scope))


def read_watching(terms: RuleTerms, watched: Condition, sent: Sent) -> RuleTerms:
    """The terms with what was sent of what is watched; what was not sent stays. Raises
    RefusedFieldError.
    """
    settings = _settings(terms.settings, sent)
    check_settings(watched, settings)
    scope = read_scope(sent) if is_scope_sent(sent) else terms.scope
    return replace(terms, settings=settings, scope=scope)


def read_telling(terms: RuleTerms, asked: Asked, *, zone: str) -> RuleTerms:
    """The terms with whom the form says to tell, when, and how often. Raises RefusedFieldError."""
    channels = [
        channel
        for channel in Channel.objects.order_by("name")
        if asked.is_ticked(f"channel-{channel.pk}")
    ]
    return replace(
        terms,
        severity=asked.text("severity"),
        hours=read_hours(asked.post, zone=zone),
        tells_owner=asked.is_ticked("tells_owner"),
        remind_minutes=_whole_minutes(asked, "remind_minutes"),
        escalate_minutes=_whole_minutes(asked, "escalate_minutes"),
        channels=tuple(channels),
    )


def _settings(settings: Settings, sent: Sent) -> Settings:
    numbers = {name: _number(name, sent[name]) for name in NUMBERS if sent.get(name, "").strip()}
    if "clear" in sent:
        numbers.setdefault("clear", None)
    if "coverage" in numbers:
        numbers["min_coverage"] = _share(numbers.pop("coverage") or 0)
    return replace(settings, **numbers)  # type: ignore[arg-type]


def _share(percent: float) -> float:
    """Raises RefusedFieldError."""
    if not 1 <= percent <= 100:
        raise RefusedFieldError("1 to 100 %", field="coverage")
    return percent / 100


def _whole_minutes(asked: Asked, name: str) -> int:
    """Raises RefusedFieldError."""
    minutes = read_minutes(asked.text(name))
    if minutes is None or minutes != int(minutes) or not 0 <= minutes <= MAX_MINUTES:
        raise RefusedFieldError("0 to 30 days in whole minutes, like 4 h, please.", field=name)
    return int(minutes)


def _number(name: str, text: str) -> float | None:
    """Raises RefusedFieldError."""
    if name in MINUTES:
        minutes = read_minutes(text)
        if minutes is None:
            raise RefusedFieldError("A duration like 30 min or 2 h, please.", field=name)
        return minutes
    try:
        number = float(text)
    except ValueError as error:
        raise RefusedFieldError("A number, please.", field=name) from error
    if not math.isfinite(number):
        raise RefusedFieldError("A number, please.", field=name)
    return number


def _values(settings: Settings) -> dict[str, str]:
    return {
        "threshold": f"{settings.threshold:g}",
        "clear": "" if settings.clear is None else f"{settings.clear:g}",
        "minutes": of_minutes(settings.minutes),
        "coverage": f"{settings.min_coverage * 100:g}",
        "grace_minutes": of_minutes(settings.grace_minutes),
        "clear_minutes": of_minutes(settings.clear_minutes),
    }


def _texts(watched: Condition) -> dict[str, tuple[str, str]]:
    """By name what the field is called, and what is said of it."""
    bounds = f"{watched.low:g} to {watched.high:g}"
    threshold = {"threshold": (f"Threshold, {watched.unit}", bounds)}
    until = f"{watched.clears} the threshold; empty: as soon as the threshold is no longer met"
    clear = {"clear": (f"Resolves at, {watched.unit}", until)}
    observed = {
        "coverage": (
            "Observed share of that time, %",
            "with less, telemetry is missing and nothing fires",
        )
    }
    # of nothing else it is known when it began
    grace = {"grace_minutes": ("Ignored at the start", "of a job; 0: nothing is ignored")}
    return (
        (threshold if watched.unit else {})
        | (clear if watched.clears else {})
        | {"minutes": ("For at least", "how long it has to last, like 30 min or 2 h")}
        | ({} if watched.is_of_budgets else observed)
        | (grace if watched.kind == "job" else {})
        | {"clear_minutes": ("Resolves after", "how long it has to be over; 0: at once")}
    )
