"""Rules in the API: what is watched for, how that is set, and what it would have opened before."""

from dataclasses import fields, replace
from datetime import timedelta

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Body, Query, Router, Schema
from ninja.security import django_auth
from pydantic import Field

from fleetwatch.accounts.permissions import Right, check
from fleetwatch.alerts import breach, matchers, selectors, services, weekly_hours
from fleetwatch.alerts.back_test import Trial, back_test
from fleetwatch.alerts.breach import Condition
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.models import Rule
from fleetwatch.alerts.weekly_hours import Hours
from fleetwatch.api.answer_types import (
    Answer,
    At,
    AtOrNone,
    Joined,
    TextOrNone,
    Usd,
    UsdOrNone,
    fields_of,
)
from fleetwatch.api.auth import WriteToken
from fleetwatch.api.request_period import RequestError, asked, required
from fleetwatch.api.schemas import (
    MAY_BE_MISSING,
    Listed,
    ListedInPeriod,
    Name,
    NameGiven,
    Paging,
    PeriodAsked,
)
from fleetwatch.api.vocabulary import JobKind, Severity, Verdict
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify.models import Channel

MONTH = "30d"
LONGEST = timedelta(days=31)  # of a back-test: some seconds of a worker
SETTINGS = {field.name for field in fields(breach.Settings)}
MAX_CHANNELS = 100

router = Router(tags=["rules"])


class MatcherRow(fields_of(matchers.Matcher, {str: NameGiven, tuple[str, ...]: list[NameGiven]})):  # type: ignore[misc]
    """Holds where one value of the label is one of these (`*` and `?` stand for anything);
    `is_not`: where none is.
    """


class HoursRow(fields_of(weekly_hours.Hours, {tuple[int, ...]: list[int]})):  # type: ignore[misc]
    """From one time of day until another one on these days (0 = Monday) in a time zone."""


class RuleTerms(fields_of(breach.Settings)):  # type: ignore[misc]
    """How a rule is set: its threshold in `unit`, for how many minutes, the share of that time that
    must be seen; the value at which it is over (`clear`, null: below the threshold).

    `matchers` are what it watches (none: everything), `schedule` when it tells (null: always);
    0 minutes: no reminder, no next step. `channels` by name are told of all of it; none: every one.
    """

    is_enabled: bool
    severity: Severity
    matchers: list[MatcherRow]
    schedule: HoursRow | None
    tells_owner: bool
    remind_minutes: int
    escalate_minutes: int
    channels: list[NameGiven] = Field(max_length=MAX_CHANNELS)


class RuleRow(RuleTerms):
    """A rule. `sentence` says what it does; its threshold is from `low` to `high`."""

    id: int
    name: str
    condition: str
    label: str
    sentence: str
    kind: str
    unit: str
    low: float
    high: float
    is_shipped: bool
    evaluated_at: AtOrNone = Field(alias="evaluated_ms")


class RulePage(Listed[RuleRow]):
    """Every rule, by name."""


@router.get("/rules", operation_id="listRules", response=RulePage)
def rules(request: HttpRequest, paging: Paging) -> Answer:
    """What is watched for, and how that is set."""
    return asked(request).listed(selectors.rules(), paging.limit, lambda each: rule_row(*each))


@router.put(
    "/rules/{int:number}",
    operation_id="setRule",
    response=RuleRow,
    auth=[WriteToken(), django_auth],
)
def set_rule(request: HttpRequest, number: int, wanted: Body[RuleTerms]) -> Joined:
    """The rule, set anew as a whole, for operators: read a row, change it, send it back."""
    check(getattr(request, "auth"), Right.FLEET)  # noqa: B009 - Ninja's name for who asks
    rule = required(Rule.objects.filter(pk=number).first(), "rule", field="number")
    given = wanted.dict()
    terms = services.RuleTerms(
        settings=breach.Settings(**{name: given.pop(name) for name in SETTINGS}),
        scope=matchers_of(given.pop("matchers")),
        hours=hours_of(given.pop("schedule")),
        channels=channels_named(given.pop("channels"), Channel.objects.all()),
        **given,
    )
    return rule_row(services.set_rule(rule, terms), condition(rule.condition))


def matchers_of(rows: list[Answer]) -> tuple[Matcher, ...]:
    return tuple(Matcher(**row | {"values": tuple(row["values"])}) for row in rows)


def hours_of(row: Answer | None) -> Hours | None:
    return Hours(**row | {"days": tuple(row["days"])}) if row else None


def channels_named(names: list[str], among: QuerySet[Channel]) -> tuple[Channel, ...]:
    """Raises RefusedFieldError."""
    channels = tuple(among.filter(name__in=names))
    missing = set(names) - {channel.name for channel in channels}
    if missing:
        raise RefusedFieldError(f"There is no channel {min(missing)!r}", field="channels")
    return channels


def rule_row(rule: Rule, watched: Condition) -> Joined:
    terms = services.terms_of(rule)
    return Joined(
        terms.settings,
        rule,
        watched,
        condition=watched.name,
        sentence=watched.in_words(terms.settings),
        matchers=terms.scope,
        schedule=terms.hours,
        channels=[channel.name for channel in terms.channels],
    )


class Tried(Schema):
    """A rule by its name, or a condition as it ships; what is said beside is in the place of its
    own. The rest narrows what is watched.
    """

    rule: Name = None
    condition: Name = None
    threshold: float | None = None
    minutes: float | None = None
    clear: float | None = None
    min_coverage: float | None = None
    grace_minutes: float | None = None
    clear_minutes: float | None = None
    team: Name = None
    user: Name = None
    node: Name = None
    gpu_model: Name = None
    kind: JobKind | None = None
    cluster: Name = None


# what an incident is narrowed by -> the label of it
LABELS = {
    "team": "team",
    "user": "user",
    "node": "node",
    "gpu_model": "model",
    "kind": "kind",
    "cluster": "cluster",
}


class TrialRow(Schema):
    """An incident that would have been, in the telemetry's time; `verdict` is what people said of
    the one that was.
    """

    kind: str
    subject: str
    title: str
    owner: TextOrNone
    since: At = Field(alias="since_ms")
    fired_at: AtOrNone = Field(alias="fired_ms")
    until: At = Field(alias="until_ms")
    ended_at: AtOrNone = Field(alias="ended_ms")
    reason: str
    usd: UsdOrNone = Field(alias="cost_usd")
    usd_per_hour: UsdOrNone
    verdict: Verdict


class BackTested(ListedInPeriod[TrialRow]):
    """What the rule would have opened in the period, the newest first: so many incidents of so many
    people, and dollars while they were open, of those whose GPUs have a rate (`unpriced` have
    none). `missing` would have been more but for telemetry that is missing, and are not counted.
    """

    condition: str
    sentence: str
    incidents: int
    people: int
    usd: Usd
    unpriced: int
    missing: int


@router.get(
    "/back-test",
    operation_id="backTestRule",
    response=BackTested,
    openapi_extra=MAY_BE_MISSING,
)
def tried(request: HttpRequest, period: PeriodAsked, tried: Query[Tried], paging: Paging) -> Answer:
    """A rule tried on history, of the last 30 days unless asked otherwise: the live evaluator over
    a longer period. Nothing is written, nobody is told.
    """
    wanted = asked(request, default=MONTH)
    watched, settings, scope = _ground(tried)
    services.check_settings(watched, settings)
    done = back_test(watched, settings, scope, _over(wanted.interval))
    return wanted.answer(
        condition=watched.name,
        sentence=watched.in_words(settings),
        incidents=len(done.trials),
        people=done.owners,
        usd=done.cost_usd,
        unpriced=done.unpriced,
        missing=done.missing,
        **wanted.listed(done.trials, paging.limit, trial_row),
    )


def _ground(tried: Tried) -> tuple[Condition, breach.Settings, list[Matcher]]:
    """What is watched, how, and whom. Raises RequestError."""
    watched, settings, scope = _base(tried)
    given = {name: value for name, value in tried.dict().items() if value is not None}
    settings = replace(settings, **{name: given[name] for name in SETTINGS & given.keys()})
    narrowed = [Matcher(LABELS[name], (given[name],)) for name in LABELS.keys() & given.keys()]
    return watched, settings, [*scope, *narrowed]


def _base(tried: Tried) -> tuple[Condition, breach.Settings, list[Matcher]]:
    """The rule as it is set, or the condition as it ships. Raises RequestError."""
    if (tried.rule is None) == (tried.condition is None):
        raise RequestError("name a rule or a condition", field="condition")
    if tried.condition is not None:
        watched = _condition(tried.condition)
        return watched, watched.usual, []
    rule = required(Rule.objects.filter(name=tried.rule).first(), "rule", field="rule")
    scope = matchers.stored(rule.matchers)
    return condition(rule.condition), services.settings_of(rule), scope


def _condition(name: str) -> Condition:
    try:
        return condition(name)
    except ValueError as error:
        raise RequestError(str(error), field="condition") from error


def _over(interval: Interval) -> Interval:
    """What of it is over: nothing is known of what comes. Raises RequestError."""
    if interval.end - interval.start > LONGEST:
        raise RequestError(f"a back-test is of at most {LONGEST.days} days", field="from")
    now = timezone.now()
    if interval.start >= now:
        raise RequestError("nothing is known of what comes", field="from")
    return Interval(interval.start, min(interval.end, now))


def trial_row(trial: Trial) -> Joined:
    return Joined(trial.episode, trial.breach, verdict=trial.verdict)
