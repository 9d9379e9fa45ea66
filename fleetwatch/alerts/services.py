"""Writes of alerts: rules, and the incidents they open and resolve."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import structlog
from django.db import transaction
from django.db.models import Q, QuerySet

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import User
from fleetwatch.accounts.selectors import zone as organisation_zone
from fleetwatch.alerts import evaluation, matchers, weekly_hours
from fleetwatch.alerts.breach import (
    BELOW,
    STALE_MS,
    Breach,
    Condition,
    Settings,
    Watch,
    stored_breach,
)
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.episodes import Again, Episode, Measured, episodes
from fleetwatch.alerts.evaluation import FIRST_LOOK_MS, LATE_MS, Changes, Row
from fleetwatch.alerts.incidents.open_names import PERSON
from fleetwatch.alerts.incidents.owners import Owners, owners_of
from fleetwatch.alerts.matchers import Matcher
from fleetwatch.alerts.models import Incident, IncidentEvent, Rule, Severity
from fleetwatch.alerts.stopped_words import stopped
from fleetwatch.alerts.weekly_hours import Hours
from fleetwatch.lib.fences import Fences
from fleetwatch.lib.intervals import MINUTE_MS, from_ms, to_ms
from fleetwatch.lib.memo import remembering
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.lib.sql import execute, has_lock, read_statement
from fleetwatch.notify import wording
from fleetwatch.notify.message import one_line
from fleetwatch.notify.models import Channel

RULE_OFF = "the rule was switched off"
UNWATCHED = "the rule does not watch it any more"
RULE_CHANGED = "the rule was changed: it is not so for as long as it says"
# nodes are posted one after the other: a job's GPUs are known until moments that differ by so much
STOPPED_MS = 3 * MINUTE_MS
# evaluations may come late by so much and still read all that they need
SLACK_MS = 60 * 60_000
CLOCK_MS = 30_000  # by so much beat may be early: the fifth minute is not to become the sixth
# what is said of an incident that goes on costs more than to know that it does
WORDS_LAST = timedelta(minutes=5) - timedelta(milliseconds=CLOCK_MS)
MAX_FAILURE = 300
LONGEST_MINUTES = 30 * 24 * 60
OPEN = Q(ended_ms=None)
# what an evaluation may change of an incident that goes on
KEPT_UP = (
    *("since_ms", "until_ms", "fired_ms", "ended_ms", "state", "updated_at", "note", "facts"),
    *("person_id", "team_id", "is_late"),
)
GONE_ON = ("until_ms", "is_late")  # and of one of which nothing is new
_KEEP = read_statement("alerts/sql/keep_incidents.sql")
_GO_ON = read_statement("alerts/sql/go_on.sql")
State = Incident.State

log = structlog.get_logger(__name__)


@remembering()
def evaluate(now: datetime) -> dict[str, int]:
    """How many incidents were opened, kept, left without data, and resolved.

    Each rule in a transaction of its own; one that another evaluator is at is left to it. Twice
    changes nothing. Raises PartlyDoneError once the other rules were evaluated: what one of them
    stumbles over (a name, a row) keeps none from being so.
    """
    fences = Fences()
    did: Counter[str] = Counter(opened=0, kept=0, no_data=0, resolved=0)
    open_ids = set(Incident.objects.filter(OPEN).values_list("rule", flat=True).distinct())
    for rule in Rule.objects.order_by("pk"):
        if rule.is_enabled or rule.pk in open_ids:
            work = partial(_evaluated_or_failing, rule, now)
            did.update(fences.within(rule.name, work, Counter[str]()))
    fences.check()
    return dict(did)


def _evaluated_or_failing(rule: Rule, now: datetime) -> Counter[str]:
    """As _evaluated; the rule says since when that fails, and why."""
    try:
        did = _evaluated(rule, now)
    except Exception as error:
        failure = one_line(f"{type(error).__name__}: {error}", MAX_FAILURE)
        _note_failure(rule, rule.failing_since or now, failure)
        raise
    if rule.failing_since is not None:
        _note_failure(rule, None, "")
    return did


def _note_failure(rule: Rule, since: datetime | None, failure: str) -> None:
    Rule.objects.filter(pk=rule.pk).update(failing_since=since, failure=failure)


@transaction.atomic
def _evaluated(rule: Rule, now: datetime) -> Counter[str]:
    if not _is_due(rule, now) or not has_lock(f"alerts.rule.{rule.pk}"):
        return Counter()
    return evaluate_rule(rule, now) if rule.is_enabled else _close_all(rule, now)


def _is_due(rule: Rule, now: datetime) -> bool:
    """What its condition measures changes each so many minutes, or by people; what is switched
    off, was not evaluated yet, or will have been (the clock was ahead), is always due.
    """
    watched = condition(rule.condition)
    every_ms = watched.every_minutes * MINUTE_MS
    if not rule.is_enabled or rule.evaluated_ms is None or every_ms == MINUTE_MS:
        return True
    since_ms = to_ms(now) - rule.evaluated_ms
    if since_ms < 0 or since_ms >= every_ms - CLOCK_MS:
        return True
    renewed_at = watched.renewed_at() if watched.renewed_at else None
    return renewed_at is not None and to_ms(renewed_at) > rule.evaluated_ms


def settings_of(rule: Rule) -> Settings:
    """How the rule is set."""
    return Settings(
        threshold=rule.threshold,
        minutes=rule.minutes,
        clear=rule.clear,
        min_coverage=rule.min_coverage,
        grace_minutes=rule.grace_minutes,
        clear_minutes=rule.clear_minutes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTerms:
    """How a rule is set, what it watches and whom it tells; no channels = every channel, no hours =
    always, 0 minutes = never.
    """

    settings: Settings
    is_enabled: bool
    severity: str
    scope: tuple[Matcher, ...]
    hours: Hours | None
    tells_owner: bool
    remind_minutes: int
    escalate_minutes: int
    channels: tuple[Channel, ...]


def terms_of(rule: Rule) -> RuleTerms:
    """The rule's as they are."""
    return RuleTerms(
        settings=settings_of(rule),
        is_enabled=rule.is_enabled,
        severity=rule.severity,
        scope=tuple(matchers.stored(rule.matchers)),
        hours=weekly_hours.stored(rule.schedule),
        tells_owner=rule.tells_owner,
        remind_minutes=rule.remind_minutes,
        escalate_minutes=rule.escalate_minutes,
        channels=tuple(rule.channels.all()),
    )


def set_rule(rule: Rule, terms: RuleTerms) -> Rule:
    """The rule with new terms.

    Raises RefusedFieldError.
    """
    check_settings(condition(rule.condition), terms.settings)
    weekly_hours.check(terms.hours)
    _check_waits(terms)
    scope = matchers.checked(terms.scope)
    hours = msgspec.to_builtins(terms.hours) if terms.hours else {}
    columns = _numbers(terms) | {"matchers": scope, "schedule": hours}
    if terms.is_enabled and not rule.is_enabled:
        columns["evaluated_ms"] = None
    for name, value in columns.items():
        setattr(rule, name, value)
    with transaction.atomic():
        # no more than these: a name and an evaluation of meanwhile stay
        rule.save(update_fields=columns)
        rule.channels.set(terms.channels)
        _record(rule, terms)
    return rule


def _numbers(terms: RuleTerms) -> dict[str, Any]:
    """The terms that are columns of the rule as they are."""
    return asdict(terms.settings) | {
        "is_enabled": terms.is_enabled,
        "severity": terms.severity,
        "tells_owner": terms.tells_owner,
        "remind_minutes": terms.remind_minutes,
        "escalate_minutes": terms.escalate_minutes,
    }


def _record(rule: Rule, terms: RuleTerms) -> None:
    record(
        "rule.set",
        rule.name,
        scope=[matcher.text for matcher in terms.scope],
        hours=terms.hours.text if terms.hours else "always",
        channels=sorted(channel.name for channel in terms.channels),
        **_numbers(terms),
    )


def check_settings(watched: Condition, settings: Settings) -> None:
    """Raises RefusedFieldError."""
    bounds = {
        "threshold": (watched.low, watched.high, watched.unit),
        "clear": (min(0, watched.low), watched.high, watched.unit),
        "minutes": (1, LONGEST_MINUTES, "minutes"),
        "min_coverage": (0.01, 1, ""),
        "grace_minutes": (0, 24 * 60, "minutes"),
        "clear_minutes": (0, 24 * 60, "minutes"),
    }
    for name, (low, high, unit) in bounds.items():
        value = getattr(settings, name)
        if value is not None and not (math.isfinite(value) and low <= value <= high):
            raise RefusedFieldError(
                f"{watched.label}: {low:g} to {high:g} {unit}".strip(), field=name
            )
    _check_clear(watched, settings)


def _check_clear(watched: Condition, settings: Settings) -> None:
    """Raises RefusedFieldError."""
    if settings.clear is None:
        return
    if not watched.clears:
        raise RefusedFieldError(
            f"{watched.label} is over as soon as it is not at the threshold: leave it empty",
            field="clear",
        )
    beyond = settings.clear - settings.threshold
    is_wrong_side = beyond > 0 if watched.clears == BELOW else beyond < 0
    if is_wrong_side:
        raise RefusedFieldError(
            f"{watched.label} is over at its threshold or {watched.clears} it", field="clear"
        )


def _check_waits(terms: RuleTerms) -> None:
    """Raises RefusedFieldError."""
    if terms.severity not in Severity.values:
        raise RefusedFieldError(f"One of {', '.join(Severity.values)}", field="severity")
    for name in ("remind_minutes", "escalate_minutes"):
        if not 0 <= getattr(terms, name) <= LONGEST_MINUTES:
            raise RefusedFieldError(f"0 to {LONGEST_MINUTES:g} minutes", field=name)


def evaluate_rule(rule: Rule, now: datetime) -> Counter[str]:
    """What became of its incidents, as evaluate() counts. Needs a transaction."""
    watched = condition(rule.condition)
    incidents = {incident.subject: incident for incident in _open_incidents(rule)}
    watch = _watch(rule, incidents.values(), now)
    measured = watched.measure(watch)
    every = episodes(
        measured,
        watch.settings.timing,
        edge_ms=watch.end_ms,
        firing=watch.firing,
        over_ms=evaluation.over_until(
            map(_row, _over_since(rule, _measured_from(measured, watch)))
        ),
    )
    if rule.evaluated_ms is None:
        rule.begun_ms = watch.end_ms
    going_on = map(_row, incidents.values())
    changes = evaluation.changes(every, going_on, begun_ms=rule.begun_ms)
    rule.evaluated_ms = watch.end_ms
    rule.save(update_fields=["evaluated_ms", "begun_ms"])
    writing = _Writing(rule, watched, watch, now, measured.again)
    return _write(writing, changes, incidents)


def _open_incidents(rule: Rule) -> QuerySet[Incident]:
    """Those that go on, for update; their facts are read where they are asked for: of a rule that
    watches everything seldom.
    """
    rows = rule.incidents.filter(OPEN).select_for_update(of=("self",))
    return rows if rule.matchers else rows.defer("facts")


def _measured_from(measured: Measured, watch: Watch) -> int:
    """Where what was measured begins: of some conditions long before the period."""
    firsts = (spans[0].start_ms for spans in measured.spans.values() if spans)
    return min(firsts, default=watch.start_ms)


def _over_since(rule: Rule, start_ms: int) -> QuerySet[Incident]:
    """What ended, but for what ended because the rule was switched off, narrowed or changed: where
    that goes on, and is watched again, it begins anew.
    """
    over = rule.incidents.filter(ended_ms__gt=start_ms)
    return over.exclude(resolution__in=(RULE_OFF, UNWATCHED, RULE_CHANGED))


def _watch(rule: Rule, incidents: Iterable[Incident], now: datetime) -> Watch:
    settings = settings_of(rule)
    timing = settings.timing
    end_ms = to_ms(now)
    since_ms = end_ms if rule.evaluated_ms is None else min(rule.evaluated_ms, end_ms)
    back_ms = FIRST_LOOK_MS if rule.evaluated_ms is None else timing.lookback_ms + SLACK_MS
    firing = evaluation.carried(map(_row, incidents), duration_ms=timing.duration_ms)
    return Watch(settings=settings, start_ms=since_ms - back_ms, end_ms=end_ms, firing=firing)


def _row(incident: Incident) -> Row:
    return Row(
        incident.subject,
        incident.since_ms,
        incident.until_ms,
        incident.fired_ms,
        incident.ended_ms,
    )


@dataclass(frozen=True, slots=True)
class _Writing:
    """One evaluation of one rule; `again` as in Measured."""

    rule: Rule
    watched: Condition
    watch: Watch
    now: datetime
    again: Mapping[str, Again]

    def described(self, wanted: Sequence[Episode]) -> list["_Described"]:
        """The episodes, each with what there is to say of it."""
        breaches = self.watched.describe(wanted, self.watch) if wanted else []
        there = [breach for breach in breaches if breach is not None]
        owners = iter(owners_of(there))
        return [
            _Described(episode, breach, next(owners) if breach else (None, None))
            for episode, breach in zip(wanted, breaches, strict=True)
        ]

    def stale(self, episode: Episode) -> str:
        """What to say where it was seen not to be so, or nobody saw it for a while."""
        recent_ms = to_ms(self.now) - STALE_MS
        if episode.ended_ms is not None:
            return ""
        if episode.known_ms < recent_ms:
            return _not_known(episode.known_ms, self.now)
        is_clear = episode.clear_from_ms is not None
        if not is_clear and episode.known_ms - episode.until_ms < STOPPED_MS:
            return ""
        return stopped(
            episode,
            being=self.watched.being,
            clear_ms=self.watch.settings.timing.clear_ms,
            again=self.again.get(episode.subject),
            now_ms=to_ms(self.now),
            clock=partial(_moment, now=self.now),
        )

    def is_news(self, episode: Episode, incident: Incident) -> bool:
        """Whether more is new of it than that it goes on, or that was said for long enough."""
        was = (incident.since_ms, incident.fired_ms, incident.ended_ms, incident.note)
        now = (episode.since_ms, episode.fired_ms, episode.ended_ms, self.stale(episode))
        return was != now or self.now - incident.updated_at >= WORDS_LAST

    def is_late(self, episode: Episode) -> bool:
        """Whether it was too old when it arrived to tell anybody."""
        return episode.until_ms < to_ms(self.now) - LATE_MS - self.watched.judged_ms


@dataclass(frozen=True, slots=True)
class _Described:
    """An episode as a breach, None of a subject that is gone, and whose it is."""

    episode: Episode
    breach: Breach | None
    owners: Owners


def _write(writing: _Writing, changes: Changes, incidents: Mapping[str, Incident]) -> Counter[str]:
    did = _keep_all(writing, incidents, changes.kept)
    for each in writing.described(changes.ended):
        _end(writing, incidents[each.episode.subject], each)
    for subject in changes.withdrawn:
        _resolve(incidents[subject], RULE_CHANGED, writing.now)
    did["resolved"] += len(changes.ended) + len(changes.withdrawn)
    dropped = [incidents[subject].pk for subject in changes.dropped]
    Incident.objects.filter(pk__in=dropped).delete()
    # last: within one period a breach can end and another one of its subject begin
    return did + _open_all(writing, changes.opened)


def _open_all(writing: _Writing, opened: Sequence[Episode]) -> Counter[str]:
    """Those that the rule watches, as soon as they are more than a passing thing."""
    scope = matchers.stored(writing.rule.matchers)
    shown = [episode for episode in opened if _is_shown(episode, writing)]
    return Counter(
        _open(writing, each)
        for each in writing.described(shown)
        if each.breach is not None and matchers.matched(scope, each.breach.labels)
    )


def _is_shown(episode: Episode, writing: _Writing) -> bool:
    """Whether it fired, or half of what it needs to fire is over; what is measured of what people
    set, as budgets are, is no passing thing from its first moment on.
    """
    if writing.watched.renewed_at is not None:
        return True
    lasted_ms = episode.until_ms - episode.since_ms
    return (
        episode.fired_ms is not None or 2 * lasted_ms >= writing.watch.settings.timing.duration_ms
    )


def _open(writing: _Writing, described: _Described) -> str:
    episode = described.episode
    incident = Incident(rule=writing.rule, subject=episode.subject)
    incident.opened_at = incident.updated_at = writing.now
    incident.is_late = writing.is_late(episode)
    incident.person, incident.team = described.owners
    _put(writing, incident, described)
    incident.save()
    if episode.fired_ms is None or described.breach is None:
        return "pending"
    add_event(incident, "fired", described.breach.title, at=from_ms(episode.fired_ms))
    log.info("incident opened", incident=incident.pk, rule=writing.rule.pk)
    if episode.ended_ms is not None:
        _resolve(incident, episode.reason, writing.now)
    return "opened"


def _keep_all(
    writing: _Writing, incidents: Mapping[str, Incident], kept: Sequence[Episode]
) -> Counter[str]:
    """All of them in two statements, of which there is news and of which there is none: there are
    hundreds, and each goes on with every evaluation. What the rule does not watch any more is over.
    """
    described = _described(writing, incidents, kept)
    every = [(incidents[each.episode.subject], each) for each in described]
    pairs = [pair for pair in every if _is_watched(writing, *pair)]
    did = Counter(_keep(writing, *pair) for pair in pairs)
    rows = [row for row, _ in pairs]
    did["resolved"] += _leave(writing, {row for row, _ in every}.difference(rows))
    _write_all([row for row in rows if row.updated_at == writing.now], KEPT_UP, _KEEP)
    _write_all([row for row in rows if row.updated_at != writing.now], GONE_ON, _GO_ON)
    return did


def _write_all(incidents: Iterable[Incident], names: Sequence[str], statement: str) -> None:
    """These columns of them, in one statement and one text: as parameters of their own the facts
    cost as much as the rest.
    """
    rows = [{name: getattr(each, name) for name in ("id", *names)} for each in incidents]
    if rows:
        execute(statement, {"rows": msgspec.json.encode(rows).decode()})


def _described(
    writing: _Writing, incidents: Mapping[str, Incident], kept: Sequence[Episode]
) -> list[_Described]:
    """Each anew where it says something new, or that is due; the others are what they were."""
    new = [each for each in kept if writing.is_news(each, incidents[each.subject])]
    for each in new:
        incidents[each.subject].updated_at = writing.now
    described = {each.episode.subject: each for each in writing.described(new)}
    return [described.get(each.subject) or _Described(each, None, (None, None)) for each in kept]


def _is_watched(writing: _Writing, incident: Incident, described: _Described) -> bool:
    """By its labels of now; where nothing new is known of it, by those that it had."""
    scope = matchers.stored(writing.rule.matchers)
    if not scope:
        return True
    breach = described.breach
    if breach is None or writing.stale(described.episode):
        breach = stored_breach(incident.facts)
    return matchers.matched(scope, breach.labels)


def _leave(writing: _Writing, incidents: Collection[Incident]) -> int:
    """How many of these, which the rule does not watch any more, fired."""
    fired = [incident for incident in incidents if incident.fired_ms is not None]
    for incident in fired:
        _resolve(incident, UNWATCHED, writing.now)
    passing = [incident.pk for incident in incidents if incident.fired_ms is None]
    Incident.objects.filter(pk__in=passing).delete()
    return len(fired)


def _keep(writing: _Writing, incident: Incident, described: _Described) -> str:
    fires_now = incident.fired_ms is None and described.episode.fired_ms is not None
    _put(writing, incident, described)
    _follow(writing, incident, described)
    incident.is_late = incident.is_late and writing.is_late(described.episode)
    if fires_now and described.breach is not None:
        add_event(incident, "fired", described.breach.title, at=from_ms(incident.fired_ms or 0))
        return "opened"
    return "no_data" if incident.note else "kept"


def _end(writing: _Writing, incident: Incident, described: _Described) -> None:
    _put(writing, incident, described)
    _resolve(incident, described.episode.reason, writing.now)


def _follow(writing: _Writing, incident: Incident, described: _Described) -> None:
    """Whose it is now, as long as it is open: who is told next. Whom it was told is not changed."""
    person, team = described.owners
    if described.breach is None or incident.resolved_at is not None:
        return
    if (person.pk if person else None) != incident.person_id:
        whose = f"it is {PERSON}'s now" if person else "nobody here is known to hold it now"
        add_event(incident, "owner", whose, at=writing.now, person=person)
    incident.person = person
    incident.team = team


def _put(writing: _Writing, incident: Incident, described: _Described) -> None:
    """The incident as the episode has it; what nobody can say any more stays."""
    episode = described.episode
    incident.since_ms = episode.since_ms
    incident.until_ms = episode.until_ms
    incident.fired_ms = episode.fired_ms
    incident.ended_ms = episode.ended_ms
    incident.note = writing.stale(episode)
    if described.breach is not None:
        incident.facts = msgspec.to_builtins(described.breach)
    if episode.fired_ms is None:
        incident.state = State.PENDING
    elif incident.state == State.PENDING:
        incident.state = State.FIRING


def _close_all(rule: Rule, now: datetime) -> Counter[str]:
    """Nothing is watched any more: what fires is resolved, and the rule begins anew when it is
    switched on.
    """
    rule.incidents.filter(OPEN, state=State.PENDING).delete()
    firing = list(rule.incidents.filter(OPEN).select_for_update(of=("self",)))
    for incident in firing:
        _resolve(incident, RULE_OFF, now)
    return Counter(resolved=len(firing))


def _resolve(incident: Incident, reason: str, now: datetime) -> None:
    """The breach is over; who resolved it by hand before keeps the word."""
    incident.ended_ms = incident.ended_ms or incident.until_ms
    incident.updated_at = now
    if incident.resolved_at is None:
        incident.state = State.RESOLVED
        incident.resolved_at = now
        incident.resolution = reason
        incident.snoozed_until = None
        add_event(incident, "resolved", reason, at=now)
    incident.note = ""
    incident.save()
    log.info("incident resolved", incident=incident.pk, rule=incident.rule_id, reason=reason)


def add_event(
    incident: Incident, kind: str, text: str, *, at: datetime, person: User | None = None
) -> None:
    """One more line of its history; `person`: who is named in it."""
    IncidentEvent.objects.create(
        incident=incident, kind=kind, text=text[:400], at=at, person=person
    )


def _not_known(since_ms: int, now: datetime) -> str:
    """Of a subject without telemetry, and of one that begins anew after a gap of it."""
    return f"Not known since {_moment(since_ms, now)} whether it goes on."


def _moment(at_ms: int, now: datetime) -> str:
    return wording.moment(from_ms(at_ms), organisation_zone(), now=now)
