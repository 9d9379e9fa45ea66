"""Writes of alerts: rules, and the incidents they open and resolve."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial

import msgspec
import structlog
from django.conf import settings
from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.selectors import zone as organisation_zone
from fleetwatch.alerts import messages
from fleetwatch.alerts.breach import STALE_MS, Breach, Condition, Ended
from fleetwatch.alerts.conditions import breach_of, condition
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.lib.intervals import from_ms, to_ms
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.lib.sql import wait_for_lock
from fleetwatch.notify import wording
from fleetwatch.notify.message import Message
from fleetwatch.notify.models import Channel
from fleetwatch.notify.services import Recipient, enqueue

RULE_OFF = "the rule was switched off"

log = structlog.get_logger(__name__)


def evaluate(now: datetime) -> dict[str, int]:
    """How many incidents were opened, kept open, left without data and resolved.

    One transaction and one runner at a time (a second waits): an incident and its
    deliveries are there together or not at all, and twice changes nothing.
    """
    did: Counter[str] = Counter(opened=0, kept=0, no_data=0, resolved=0)
    with transaction.atomic():
        wait_for_lock("alerts.evaluate")  # until no other evaluation runs
        for rule in Rule.objects.order_by("pk"):
            did.update(_evaluate_rule(rule, now))
    return dict(did)


def set_rule(
    rule: Rule, *, threshold: float, is_enabled: bool, channels: Iterable[Channel]
) -> Rule:
    """The rule with new settings; no channels = every channel.

    Raises RefusedFieldError.
    """
    watched = condition(rule.condition)
    if not math.isfinite(threshold) or not watched.low <= threshold <= watched.high:
        raise RefusedFieldError(
            f"{watched.label}: {watched.low:g} to {watched.high:g} {watched.unit}",
            field="threshold",
        )
    rule.threshold = threshold
    rule.is_enabled = is_enabled
    with transaction.atomic():
        rule.save(update_fields=["threshold", "is_enabled"])
        rule.channels.set(channels)
        record("rule.set", rule.name, threshold=threshold, is_enabled=is_enabled)
    return rule


def _evaluate_rule(rule: Rule, now: datetime) -> Counter[str]:
    watch = condition(rule.condition)
    open_incidents = {
        incident.subject: incident
        for incident in rule.incidents.filter(resolved_at=None).select_for_update(of=("self",))
    }
    did: Counter[str] = Counter()
    for breach in watch.breaches(rule.threshold, now) if rule.is_enabled else ():
        incident = open_incidents.pop(breach.subject, None)
        if incident is None:
            _open(rule, breach, now)
            did["opened"] += 1
        else:
            _update(incident, breach, note=_note(breach, now), now=now)
            did["kept"] += 1
    for incident in open_incidents.values():
        did[_settle(rule, watch, incident, now)] += 1
    return did


def _open(rule: Rule, breach: Breach, now: datetime) -> None:
    note = _note(breach, now)
    incident = Incident.objects.create(
        rule=rule,
        subject=breach.subject,
        opened_at=now,
        updated_at=now,
        facts=msgspec.to_builtins(breach),
        note=note,
    )
    _tell(incident, breach, partial(messages.opened, note=note), what="opened", now=now)
    log.info("incident opened", incident=incident.pk, rule=rule.pk, condition=rule.condition)


def _settle(rule: Rule, watch: Condition, incident: Incident, now: datetime) -> str:
    """Resolves an incident whose breach is over; without data it stays open and says so."""
    breach = breach_of(watch, incident.facts)
    ended = watch.ended(breach, now) if rule.is_enabled else Ended(RULE_OFF, breach)
    if ended is None:
        _update(incident, breach, note=_no_data(breach.until_ms, now), now=now)
        return "no_data"
    _resolve(incident, ended, now)
    return "resolved"


def _resolve(incident: Incident, ended: Ended, now: datetime) -> None:
    incident.resolved_at = now
    incident.resolution = ended.reason
    _update(incident, ended.breach, note="", now=now)
    message = partial(messages.resolved, reason=ended.reason)
    _tell(incident, ended.breach, message, what="resolved", now=now)
    log.info("incident resolved", incident=incident.pk, rule=incident.rule_id, reason=ended.reason)


def _update(incident: Incident, breach: Breach, *, note: str, now: datetime) -> None:
    incident.facts = msgspec.to_builtins(breach)
    incident.note = note
    incident.updated_at = now
    incident.save(update_fields=["facts", "note", "updated_at", "resolved_at", "resolution"])


def _tell(
    incident: Incident,
    breach: Breach,
    message_of: Callable[..., Message],
    *,
    what: str,
    now: datetime,
) -> None:
    message = message_of(
        breach,
        rule_name=incident.rule.name,
        zone=organisation_zone(),
        now=now,
        url=f"{settings.PUBLIC_URL}{breach.path}",
    )
    channels = incident.rule.channels.all() or Channel.objects.all()
    recipients = [Recipient(channel) for channel in channels]
    thread = f"incident/{incident.pk}"
    enqueue(recipients, message, key=f"{thread}/{what}", thread=thread, now=now)


def _note(breach: Breach, now: datetime) -> str:
    is_stale = breach.until_ms < to_ms(now) - STALE_MS
    return _no_data(breach.until_ms, now) if is_stale else ""


def _no_data(since_ms: int, now: datetime) -> str:
    return f"No data since {wording.moment(from_ms(since_ms), organisation_zone(), now=now)}."
