"""Writes of alerts: rules, and the incidents they open and resolve."""

import math
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

import structlog
from django.conf import settings
from django.db import connection, transaction

from fleetwatch.accounts.selectors import zone as organisation_zone
from fleetwatch.alerts import messages
from fleetwatch.alerts.breach import STALE_MS, Breach, Condition
from fleetwatch.alerts.conditions import breach_of, condition
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.lib.intervals import from_ms, to_ms
from fleetwatch.lib.sql import lock_key
from fleetwatch.notify import wording
from fleetwatch.notify.message import Message
from fleetwatch.notify.models import Channel
from fleetwatch.notify.services import enqueue

RULE_OFF = "the rule was switched off"

log = structlog.get_logger(__name__)


def evaluate(now: datetime) -> dict[str, int]:
    """How many incidents were opened, kept open, left without data and resolved.

    One transaction and one runner at a time (a second waits): an incident and its
    deliveries are there together or not at all, and twice changes nothing.
    """
    did: Counter[str] = Counter(opened=0, kept=0, no_data=0, resolved=0)
    with transaction.atomic():
        _wait_for_turn()
        for rule in Rule.objects.order_by("pk"):
            did.update(_evaluate_rule(rule, now))
    return dict(did)


def set_rule(
    rule: Rule, *, threshold: float, is_enabled: bool, channels: Iterable[Channel]
) -> Rule:
    """The rule with new settings; no channels = every channel.

    Raises ValueError with a sentence for people.
    """
    known = condition(rule.condition)
    if not math.isfinite(threshold) or not known.low <= threshold <= known.high:
        raise ValueError(f"{known.label}: {known.low:g} to {known.high:g} {known.unit}")
    rule.threshold, rule.is_enabled = threshold, is_enabled
    with transaction.atomic():
        rule.save(update_fields=["threshold", "is_enabled"])
        rule.channels.set(channels)
    return rule


def _evaluate_rule(rule: Rule, now: datetime) -> Counter[str]:
    watch = condition(rule.condition)
    open_incidents = {
        incident.subject: incident
        for incident in rule.incidents.filter(resolved_at=None).select_for_update(of=("self",))
    }
    breaches = (
        {breach.subject: breach for breach in watch.breaches(rule.threshold, now)}
        if rule.is_enabled
        else {}
    )
    did: Counter[str] = Counter()
    for subject, breach in breaches.items():
        incident = open_incidents.get(subject)
        if incident is None:
            did["opened"] += 1
            _open(rule, breach, now)
        else:
            did["kept"] += 1
            _update(incident, breach, note=_note(breach, now), now=now)
    for subject, incident in open_incidents.items():
        if subject not in breaches:
            did[_settle(rule, watch, incident, now)] += 1
    return did


def _open(rule: Rule, breach: Breach, now: datetime) -> None:
    note = _note(breach, now)
    incident = Incident.objects.create(
        rule=rule,
        subject=breach.subject,
        opened_at=now,
        updated_at=now,
        facts=breach.to_json(),
        note=note,
    )
    message = messages.opened(
        breach, rule_name=rule.name, note=note, zone=organisation_zone(), now=now, url=_url(breach)
    )
    _tell(rule, incident, message, what="opened", now=now)
    log.info("incident opened", incident=incident.pk, rule=rule.pk, condition=rule.condition)


def _settle(rule: Rule, watch: Condition, incident: Incident, now: datetime) -> str:
    """Resolves an incident whose breach is over; without data it stays open and says so."""
    breach = breach_of(watch, incident.facts)
    if not rule.is_enabled:
        _resolve(rule, incident, breach, reason=RULE_OFF, now=now)
        return "resolved"
    ended = watch.ended(breach, now)
    if ended is None:
        _update(incident, breach, note=_no_data(breach.until_ms, now), now=now)
        return "no_data"
    _resolve(rule, incident, ended.breach, reason=ended.reason, now=now)
    return "resolved"


def _resolve(rule: Rule, incident: Incident, breach: Breach, *, reason: str, now: datetime) -> None:
    incident.resolved_at, incident.updated_at = now, now
    incident.resolution, incident.note, incident.facts = reason, "", breach.to_json()
    incident.save(update_fields=["resolved_at", "updated_at", "resolution", "note", "facts"])
    message = messages.resolved(
        breach,
        rule_name=rule.name,
        reason=reason,
        zone=organisation_zone(),
        now=now,
        url=_url(breach),
    )
    _tell(rule, incident, message, what="resolved", now=now)
    log.info("incident resolved", incident=incident.pk, rule=rule.pk, reason=reason)


def _update(incident: Incident, breach: Breach, *, note: str, now: datetime) -> None:
    incident.facts, incident.note, incident.updated_at = breach.to_json(), note, now
    incident.save(update_fields=["facts", "note", "updated_at"])


def _tell(rule: Rule, incident: Incident, message: Message, *, what: str, now: datetime) -> None:
    enqueue(
        rule.channels.all() or Channel.objects.all(),
        message,
        key=f"incident/{incident.pk}/{what}",
        now=now,
    )


def _note(breach: Breach, now: datetime) -> str:
    is_stale = breach.until_ms < to_ms(now) - STALE_MS
    return _no_data(breach.until_ms, now) if is_stale else ""


def _no_data(since_ms: int, now: datetime) -> str:
    return f"No data since {wording.moment(from_ms(since_ms), organisation_zone(), now=now)}."


def _url(breach: Breach) -> str:
    return f"{settings.PUBLIC_URL}{breach.path}"


def _wait_for_turn() -> None:
    """Returns when no other evaluation runs; the transaction's end frees the next one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key("alerts.evaluate")])
