"""The facts of audit entries in words, as recorded at any time. Pure."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django.template.defaultfilters import filesizeformat

from fleetwatch.notify.transports import TRANSPORTS

# how a fact is told that is no "name value": by action and name, else by its name
FACTS = {
    "token.create.name": "“{}”",
    "rate.exchange.usd_per_unit": "{} dollars a unit",
    "rate.exchange_withdraw.usd_per_unit": "{} dollars a unit",
    "amount": "{}",
    "cost_usd": "{}",
    "month": "{}",
    "note": "“{}”",
    "reason": "“{}”",
    "text": "“{}”",
    "kind": "{}",
    "watts": "{} W",
    "email": "e-mail {}",
    "gpus": "GPUs: {}",
    "gpu_model": "{}",
    "rows": "rows: {}",
    "lines": "lines: {}",
    "issuer": "by {}",
    "valid_from": "from {}",
    "valid_to": "until {}",
    "ends_at": "until {}",
    "bytes": "{}",
}
# what a yes and a no mean, by the fact's name
FLAGS = {
    "is_enabled": ("switched on", "switched off"),
    "shared": ("for everybody", "for oneself"),
    "added": ("added", "removed"),
    "required": ("required", "not required"),
    "gets_digest": ("with the digest", "without the digest"),
}
# numbers that no page shows, and what the words before say already; files have them
UNTOLD = ("ladder", "silence.add.kind", "silence.end.kind")
CHANNELS = {each.kind: each.label for each in TRANSPORTS}
LAST = ("valid_to", "ends_at", "note", "reason", "text")
INCIDENT = "incident."
_AMOUNT = re.compile(r"^(-?)(\d+(?:\.\d+)?) ([A-Z]{3})\b")
_MONTH = re.compile(r"^\d{4}-(0[1-9]|1[0-2])$")
# as it is written, and as entries have it that are older
_UNTIL = re.compile(r"\buntil (\d{1,2} [A-Z][a-z]{2} \d{4}, \d\d:\d\d) ([^\s:]+)")
_FORMER_UNTIL = re.compile(r"\buntil (\d{4}-\d\d-\d\d \d\d:\d\d) (\S+)")
_WHOM = re.compile(r"^given (to .+) by ")


def facts_in_words(action: str, detail: Mapping[str, Any], zone: ZoneInfo) -> list[str]:
    """Each fact that says something, why it was done last; times in the zone."""
    facts = _told(action, detail)
    names = sorted(facts, key=lambda name: LAST.index(name) if name in LAST else -1)
    return [_fact(action, name, facts[name], zone) for name in names]


def _told(action: str, detail: Mapping[str, Any]) -> dict[str, Any]:
    """Without what says nothing; an amount and its currency, and the sentence of an incident, as
    what they are.
    """
    facts = dict(detail)
    if action.startswith(INCIDENT) and "text" in facts:
        facts = _of_incident(str(facts.pop("text"))) | facts
    if facts.get("amount") and "currency" in facts:
        facts["amount"] = f"{facts['amount']} {facts.pop('currency')}"
    if "cost_usd" in facts:
        facts["cost_usd"] = f"{facts['cost_usd']} USD"
    return {
        name: fact
        for name, fact in facts.items()
        if fact not in ("", None, []) and not {name, f"{action}.{name}"} & set(UNTOLD)
    }


def _of_incident(text: str) -> dict[str, Any]:
    """Of "snoozed until 2026-11-29 17:29 UTC by otto: the owner moves it" what the entry does not
    say besides: to whom, until when and why.
    """
    did, _, reason = text.partition(": ")
    facts: dict[str, Any] = {"note": reason}
    if whom := _WHOM.search(did):
        facts["to"] = whom[1].removeprefix("to ")
    if until := _UNTIL.search(did):
        facts["ends_at"] = f"{until[1]} {until[2]}"
    elif until := _FORMER_UNTIL.search(did):
        moment = datetime.fromisoformat(f"{until[1]}+00:00")  # its zone is named beside it
        facts["ends_at"] = f"{_written(moment)} {until[2]}"
    return facts


def _fact(action: str, name: str, fact: object, zone: ZoneInfo) -> str:
    if isinstance(fact, bool) and name in FLAGS:
        return FLAGS[name][not fact]
    form = FACTS.get(f"{action}.{name}") or FACTS.get(name)
    if name == "bytes":
        return filesizeformat(str(fact))
    words = in_words(fact, zone)
    if action == "channel.create" and name == "kind":
        words = CHANNELS.get(words, words)
    if form is None:
        return f"{name.replace('_', ' ').replace('usd', 'dollars')} {words}"
    return form.format(words)


def in_words(fact: object, zone: ZoneInfo) -> str:
    """A fact as people read it: a moment in the zone to the minute, a day where it is its
    midnight; a month; $6,420 or 6,420 EUR; a list with "and".
    """
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    if isinstance(fact, list):
        return " and ".join(map(str, fact))
    moment = moment_of(fact)
    if moment is not None:
        return _written(moment.astimezone(zone))
    if _MONTH.match(str(fact)):
        return f"{date.fromisoformat(f'{fact}-01'):%b %Y}"
    return _AMOUNT.sub(_money, str(fact))


def _money(amount: re.Match[str]) -> str:
    """To the cent, without cents where there are none."""
    sign, number, currency = amount.groups()
    size = Decimal(number)
    written = f"{size:,.0f}" if size == size.to_integral_value() else f"{size:,.2f}"
    sign = "−" if sign else ""
    return f"{sign}${written}" if currency == "USD" else f"{sign}{written} {currency}"


def _written(moment: datetime) -> str:
    return (
        f"{moment:%-d %b %Y}"
        if moment.time() == moment.min.time()
        else f"{moment:%-d %b %Y, %H:%M}"
    )


def moment_of(fact: object) -> datetime | None:
    """The moment that the fact names with its zone; None of all else."""
    if not isinstance(fact, str) or "T" not in fact:
        return None
    try:
        moment = datetime.fromisoformat(fact)
    except ValueError:
        return None
    return moment if moment.tzinfo else None
