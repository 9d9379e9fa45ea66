"""Entries of the audit log as sentences. Pure; files keep what was recorded."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs
from zoneinfo import ZoneInfo

from django.template.defaultfilters import filesizeformat
from django.urls import NoReverseMatch, reverse

from fleetwatch.accounts.models import AuditEntry
from fleetwatch.dashboard.machine_pages import days_in_words
from fleetwatch.lib import actor

# by action, what was done and, before its name, to what; others are told by their parts
DID = {
    "login.enter": "logged in as",
    "login.leave": "logged out as",
    "login.fail": "failed to log in as",
    "login.join": "linked single sign-on to",
    "login.password": "changed the password of",
    "login.code_fail": "gave a wrong code for",
    "login.factor_add": "added a second factor to",
    "login.factor_remove": "removed a second factor of",
    "login.factor_reset": "reset a second factor of",
    "login.factor_drop": "removed every second factor of",
    "person.create": "created the account",
    "person.invite": "invited",
    "person.accept": "accepted the invitation of",
    "person.withdraw": "withdrew the invitation of",
    "person.activate": "activated",
    "person.deactivate": "deactivated",
    "person.role": "changed the role of",
    "person.email": "changed the e-mail address of",
    "person.password": "set the password of",
    "person.join": "put into a team:",
    "person.leave": "recorded the leaving of",
    "person.leave_directory": "recorded as gone from the directory",
    "person.sign_out": "logged out everywhere",
    "person.first_admin": "became the first admin:",
    "organisation.set": "changed the organisation",
    "organisation.second_factor": "changed whether a second factor is required",
    "access.others_shown": "changed what others see to",
    "agent.token": "created an agent token for",
    "agent.token_revoke": "revoked an agent token of",
    "agent.token_rights": "changed the rights of the agent of",
    "agent.enrollment": "created the enrolment token",
    "agent.enrollment_revoke": "revoked the enrolment token",
    "agent.elastic": "added an elastic rule:",
    "agent.elastic_remove": "removed an elastic rule:",
    "agent.remove_node": "removed the node",
    "agent.move_gpu": "moved the GPU",
    "channel.create": "created the channel",
    "channel.update": "changed the channel",
    "channel.remove": "removed the channel",
    "channel.switch": "switched the channel",
    "channel.rotate_secrets": "encrypted the channels’ secrets anew",
    "token.create": "created the",
    "token.revoke": "revoked the",
    "token.refuse": "refused the",
    "finding.accept": "accepted finding",
    "finding.dismiss": "dismissed finding",
    "finding.snooze": "snoozed finding",
    "finding.assign": "assigned finding",
    "finding.fixed": "marked as fixed finding",
    "finding.reopen": "reopened finding",
    "finding.confirm": "confirmed finding",
    "finding.reject": "said wrong is finding",
    "finding.tell_owner": "told the owner of finding",
    "incident.ack": "acknowledged incident",
    "incident.snooze": "snoozed incident",
    "incident.unsnooze": "ended the snooze of incident",
    "incident.resolve": "resolved incident",
    "incident.assign": "assigned incident",
    "incident.not_waste": "said not waste is incident",
    "incident.fixed": "resolved incident",
    "rule.set": "changed the rule",
    "rule.copy": "copied a rule to",
    "rule.rename": "renamed a rule to",
    "rule.remove": "removed the rule",
    "silence.add": "added a silence of",
    "silence.end": "ended a silence of",
    "route.set": "set the route of",
    "preference.set": "changed how to hear of things:",
    "action.add_policy": "added an action about",
    "action.set_policy": "changed the action about",
    "action.remove_policy": "removed the action about",
    "action.keep": "kept",
    "action.result": "heard what became of",
    "policy.set": "set the ledger’s policy to",
    "policy.stop": "stopped the trial of the policy",
    "policy.try": "tried the ledger’s policy with",
    "policy.idle_power": "set the idle power of",
    "mapping.add": "added a mapping rule:",
    "mapping.end": "ended a mapping rule:",
    "mapping.withdraw": "withdrew a mapping rule:",
    "name.give": "gave a name:",
    "name.take": "took a name:",
    "name.confirm": "confirmed a name:",
    "name.rule_set": "set a rule of names:",
    "name.rule_drop": "removed a rule of names:",
    "link.set": "set the job link",
    "link.remove": "removed the job link",
    "rate.set": "set the rate of",
    "rate.withdraw": "withdrew the rate of",
    "rate.exchange": "set the exchange rate of",
    "rate.exchange_withdraw": "withdrew the exchange rate of",
    "rate.region": "set the facts of the region",
    "rate.region_withdraw": "withdrew the facts of the region",
    "commitment.make": "recorded the commitment",
    "commitment.end": "ended the commitment",
    "commitment.withdraw": "withdrew the commitment",
    "budget.set": "set the budget of",
    "month.close": "closed the month",
    "report.compute": "computed the month",
    "report.stop": "stopped the computation of",
    "report.approve": "approved the statement",
    "report.send": "sent the statement",
    "report.recipient": "changed the recipients of",
    "report.free_capacity": "changed who bears free capacity to",
    "report.invoice": "imported the invoice of",
    "report.invoice_remove": "removed the invoice of",
    "report.sku": "said what is the SKU",
    "report.book": "booked lines in",
    "report.book_withdraw": "withdrew a booking of",
    "view.save": "saved the view",
    "view.drop": "deleted the view",
    "export.windows": "exported windows to",
    "export.backup": "made the backup",
    "export.report": "exported the report",
    "demo.load": "loaded the demo",
    "demo.remove": "removed the demo",
}
# by action, or what actions begin with, the page of its subject, and whether that is an argument
PAGES = {
    "finding": ("finding", True),
    "incident": ("incident", True),
    "agent.token": ("agent", True),
    "agent.token_rights": ("agent", True),
    "agent.move_gpu": ("gpu", True),
    "policy.idle_power": ("gpu", True),
    "channel": ("settings_channels", False),
    "rule": ("rules", False),
    "silence": ("silences", False),
    "route": ("routes", False),
    "action": ("actions", False),
    "rate": ("settings_pricing", False),
    "mapping": ("mappings", False),
    "name": ("name_rules", False),
    "month": ("settings_months", False),
    "budget": ("budgets", False),
    "view": ("views", False),
    "policy": ("settings_policy", False),
    "link": ("settings_links", False),
}
# how it was done, by AuditEntry.via
VIA = {
    actor.PAGE: "in a browser",
    actor.API: "by the API",
    actor.SLACK: "in Slack",
    actor.MAIL: "by a link in mail",
    actor.COMMAND: "by a command",
    actor.HUB: "by itself",
}
# facts that are no "name value", by their name
FACTS = {
    "amount": "{}",
    "month": "of {}",
    "note": "“{}”",
    "reason": "“{}”",
    "gpus": "GPUs: {}",
    "gpu_model": "{}",
    "rows": "rows: {}",
    "lines": "lines: {}",
    "issuer": "by {}",
    "valid_from": "from {}",
    "valid_to": "until {}",
}
# between the words of a file's name; within a month or a version it is part of them
_SEPARATOR = re.compile(r"(?<!\d)-|-(?!\d)|\.(?=[a-z])")
GROUPS = ("group_by", "by")  # of the address of an export, by what it is summed


@dataclass(frozen=True, slots=True)
class AuditLine:
    """An entry in words: "accepted", then what it was done to with its address ("" = none), then
    the facts.
    """

    entry: AuditEntry
    did: str
    what: str
    address: str
    facts: str

    @property
    def via(self) -> str:
        """How it was done, in words."""
        return VIA.get(self.entry.via, self.entry.via)


def audit_lines(entries: Iterable[AuditEntry], zone: ZoneInfo) -> list[AuditLine]:
    """Each entry as a sentence, its times in the zone."""
    return [_line(entry, zone) for entry in entries]


def _line(entry: AuditEntry, zone: ZoneInfo) -> AuditLine:
    if entry.action == "export.file":
        return _of_file(entry, zone)
    kind, _, verb = entry.action.partition(".")
    did = DID.get(entry.action) or f"{kind}: {verb.replace('_', ' ')}"
    facts = [
        FACTS.get(name, f"{name.replace('_', ' ')} {{}}").format(in_words(fact, zone))
        for name, fact in _with_currency(entry.detail).items()
        if fact not in ("", None)
    ]
    what = entry.subject
    if what == entry.name and did.endswith(" as"):  # "ann logged in", not "as ann"
        did = did.removesuffix(" as")
        what = ""
    return AuditLine(entry, did, what, _address(entry), ", ".join(facts))


def _with_currency(detail: dict[str, Any]) -> dict[str, Any]:
    """The detail, an amount and its currency as one fact."""
    if not {"amount", "currency"} <= detail.keys() or detail["amount"] in ("", None):
        return detail
    without = {name: fact for name, fact in detail.items() if name != "currency"}
    return without | {"amount": f"{detail['amount']} {detail['currency']}"}


def _of_file(entry: AuditEntry, zone: ZoneInfo) -> AuditLine:
    """ "exported", "costs by team (CSV, 768 B)", "20–27 Nov"."""
    asked = str(entry.detail.get("asked", ""))
    address = f"{entry.subject}?{asked}" if asked else entry.subject
    return AuditLine(entry, "exported", _file(entry, asked), address, _days(entry.detail, zone))


def _file(entry: AuditEntry, asked: str) -> str:
    """ "costs by team (CSV, 768 B)"."""
    name, _, form = str(entry.detail.get("file", entry.subject)).rpartition(".")
    name = _SEPARATOR.sub(" ", name.removeprefix("fleetwatch-"))
    by = next((f" by {values[0]}" for key, values in parse_qs(asked).items() if key in GROUPS), "")
    by = "" if " by " in name else by
    size = filesizeformat(entry.detail.get("bytes", 0)).replace("\xa0bytes", "\xa0B")
    return f"{name}{by} ({form.upper()}, {size})"


def _days(detail: dict[str, Any], zone: ZoneInfo) -> str:
    start, end = (_moment(detail.get(name)) for name in ("start", "end"))
    if start is None or end is None:
        return ""
    last = end - timedelta(microseconds=1)
    return days_in_words(start.astimezone(zone), last.astimezone(zone))


def _address(entry: AuditEntry) -> str:
    """The page of what it was done to; "" where there is none."""
    kind = entry.action.partition(".")[0]
    name, is_argument = PAGES.get(entry.action) or PAGES.get(kind) or ("", False)
    try:
        return reverse(name, args=[entry.subject] if is_argument else []) if name else ""
    except NoReverseMatch:
        return ""


def in_words(fact: object, zone: ZoneInfo) -> str:
    """A fact as people read it: a moment in the zone to the minute, a list with "and"."""
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    if isinstance(fact, list):
        return " and ".join(map(str, fact))
    moment = _moment(fact)
    return str(fact) if moment is None else f"{moment.astimezone(zone):%-d %b %Y, %H:%M}"


def _moment(fact: object) -> datetime | None:
    """The moment that the fact names with its zone; None of all else."""
    if not isinstance(fact, str) or "T" not in fact:
        return None
    try:
        moment = datetime.fromisoformat(fact)
    except ValueError:
        return None
    return moment if moment.tzinfo else None
