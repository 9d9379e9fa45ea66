"""Incidents in words: one message when it opens, one when it is over. Pure."""

from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from fleetwatch.alerts.breach import Breach, Line, named
from fleetwatch.lib.intervals import from_ms
from fleetwatch.notify import wording
from fleetwatch.notify.message import Message, one_line

HOURS_PER_MONTH = 730  # 8760 / 12


def opened(
    breach: Breach, *, rule_name: str, note: str, zone: ZoneInfo, now: datetime, url: str
) -> Message:
    """The message that something is wrong: who, where, since when, what it costs, what to do."""
    since = wording.moment(from_ms(breach.since_ms), zone, now=now)
    length = _length(breach)
    texts = (note, _example_note(breach), *breach.actions)
    return Message(
        title=f"{breach.title} · since {since} ({length})",
        summary=f"{breach.what} for {length}. Owner: {_owner(breach)}.",
        fields=(
            *_about(breach),
            (f"{breach.word.capitalize()} since", f"{since} ({length})"),
            *breach.lines,
            ("So far", wording.usd(breach.cost_usd)),
            ("Burning", _burning(breach.usd_per_hour)),
            _rule(breach, rule_name),
        ),
        url=url,
        severity="warning",
        text="\n".join(text for text in texts if text),
    )


def resolved(
    breach: Breach, *, rule_name: str, reason: str, zone: ZoneInfo, now: datetime, url: str
) -> Message:
    """The message that it is over, why, how long it took and what it cost."""
    cost = wording.usd(breach.cost_usd)
    length = _length(breach)
    begin, end = (
        wording.moment(from_ms(at_ms), zone, now=now)
        for at_ms in (breach.since_ms, breach.until_ms)
    )
    subject = f"{breach.kind.capitalize()} {named(breach.subject, breach.name)}"
    return Message(
        title=f"resolved · {breach.where} · {breach.word} for {length}, cost {cost}",
        summary=f"{subject}: {reason}. {breach.had} for {length}.",
        fields=(
            *_about(breach),
            (breach.word.capitalize(), f"{begin} to {end}"),
            ("Cost", cost),
            _rule(breach, rule_name),
        ),
        url=url,
        severity="resolved",
        text=_example_note(breach),
    )


def _about(breach: Breach) -> tuple[Line, ...]:
    return ("Owner", _owner(breach)), (breach.kind.capitalize(), named(breach.subject, breach.name))


def _owner(breach: Breach) -> str:
    return one_line(breach.owner, 80) or "nobody known"


def _length(breach: Breach) -> str:
    return wording.duration(breach.until_ms - breach.since_ms)


def _rule(breach: Breach, rule_name: str) -> Line:
    return "Rule", f"{one_line(rule_name, 80)}: {breach.limit}"


def _burning(usd_per_hour: Decimal | None) -> str:
    if usd_per_hour is None:
        return wording.UNKNOWN
    month = wording.usd(usd_per_hour * HOURS_PER_MONTH)
    return f"{wording.usd(usd_per_hour)}/h, ≈ {month}/month if left"


def _example_note(breach: Breach) -> str:
    if not breach.has_example_rates:
        return ""
    return "Dollars rest on an example list price: set your own under settings."
