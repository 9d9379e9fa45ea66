"""Entries of the audit log as sentences. Pure; files keep what was recorded."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs
from zoneinfo import ZoneInfo

from django.template.defaultfilters import filesizeformat
from django.urls import NoReverseMatch, reverse

from fleetwatch.accounts.models import AuditEntry
from fleetwatch.dashboard.audit_facts import facts_in_words, moment_of
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
    "person.join": "added",
    "person.leave": "removed",
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
    "finding.dismiss": "marked finding",
    "finding.snooze": "snoozed finding",
    "finding.assign": "assigned finding",
    "finding.fixed": "marked finding",
    "finding.reopen": "reopened finding",
    "finding.confirm": "marked the diagnosis of finding",
    "finding.reject": "marked the diagnosis of finding",
    "finding.tell_owner": "told the owner of finding",
    "incident.ack": "acknowledged incident",
    "incident.snooze": "snoozed incident",
    "incident.unsnooze": "ended the snooze of incident",
    "incident.resolve": "resolved incident",
    "incident.assign": "assigned incident",
    "incident.not_waste": "marked incident",
    "incident.fixed": "marked incident",
    "rule.set": "changed the rule",
    "rule.copy": "copied a rule to",
    "rule.rename": "renamed a rule to",
    "rule.remove": "removed the rule",
    "silence.add": "added a silence of",
    "silence.end": "ended a silence of",
    "route.set": "set the route of",
    "preference.set": "changed the notifications of",
    "action.add_policy": "added an action about",
    "action.set_policy": "changed the action about",
    "action.remove_policy": "removed the action about",
    "action.keep": "kept",
    "action.result": "noted the result for",
    "policy.set": "set the ledger’s policy to",
    "back_test.start": "tried on history",
    "back_test.stop": "stopped the back-test of",
    "policy.stop": "stopped the trial of the policy",
    "policy.try": "tried the ledger’s policy with",
    "policy.idle_power": "set the idle power of",
    "mapping.add": "added a mapping rule:",
    "mapping.end": "ended a mapping rule:",
    "mapping.withdraw": "withdrew a mapping rule:",
    "name.give": "gave a name to",
    "name.take": "took a name from",
    "name.confirm": "confirmed a name of",
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
    "report.sku": "mapped the SKU",
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
# what there is of exemptions, which pages call so
OF_EXEMPTIONS = {
    "silence.add": "agreed as not waste:",
    "silence.end": "ended what was agreed as not waste:",
}
EXEMPTION = "exemption"
# by action and subject, as pages call that
SUBJECTS = {
    ("route.set", "operators"): "the operators",
    ("route.set", "unowned"): "users without an account here",
}
# parameters that name what an export is of
THINGS = {"job": "job", "gpu": "GPU", "node": "node", "team": "team"}
LONGEST_THING = 60
# by action, what is said behind the name
AFTER = {
    "finding.fixed": "as fixed",
    "finding.dismiss": "as not waste",
    "finding.reject": "as wrong",
    "finding.confirm": "as right",
    "incident.not_waste": "as not waste",
    "incident.fixed": "as fixed",
    "person.join": "to a team",
    "person.leave": "from a team",
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
# between the words of a file's name; within a month or a version it is part of them
_SEPARATOR = re.compile(r"(?<!\d)-|-(?!\d)|\.(?=[a-z])")
GROUPS = ("group_by", "by")  # of the address of an export, by what it is summed


@dataclass(frozen=True, slots=True)
class AuditLine:
    """An entry in words: "marked incident", then what it was done to with its address ("" = none),
    "as fixed", then the facts.
    """

    entry: AuditEntry
    did: str
    what: str
    address: str
    after: str
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
    what = SUBJECTS.get((entry.action, entry.subject), entry.subject)
    if entry.detail.get("kind") == EXEMPTION:
        did = OF_EXEMPTIONS.get(entry.action, did)
    if what == entry.name and did.endswith(" as"):  # "ann logged in", not "as ann"
        did = did.removesuffix(" as")
        what = ""
    after = AFTER.get(entry.action, "")
    facts = ", ".join(facts_in_words(entry.action, entry.detail, zone))
    return AuditLine(entry, did, what, _address(entry), after, facts)


def _of_file(entry: AuditEntry, zone: ZoneInfo) -> AuditLine:
    """ "exported", "costs by team (CSV, 768 B)", "20–27 Nov"."""
    asked = str(entry.detail.get("asked", ""))
    address = f"{entry.subject}?{asked}" if asked else entry.subject
    days = _days(entry.detail, zone)
    return AuditLine(entry, "exported", _file(entry, asked), address, "", days)


def _file(entry: AuditEntry, asked: str) -> str:
    """ "costs by team (CSV, 768 B)", "job slurm/della/4711 (CSV, 14 KB)"."""
    name, _, form = str(entry.detail.get("file", entry.subject)).rpartition(".")
    name = _SEPARATOR.sub(" ", name.removeprefix("fleetwatch-"))
    params = parse_qs(asked)
    by = next((f" by {values[0]}" for key, values in params.items() if key in GROUPS), "")
    by = "" if " by " in name else by
    of = _thing(name, params)
    size = filesizeformat(entry.detail.get("bytes", 0)).replace("\xa0bytes", "\xa0B")
    return f"{name}{by}{of} ({form.upper()}, {size})"


def _thing(name: str, params: Mapping[str, Sequence[str]]) -> str:
    """What the file is of, where its address names one: " slurm/della/4711" of a job's, else
    ", job slurm/della/4711".
    """
    for parameter, kind in THINGS.items():
        if parameter in params:
            thing = params[parameter][0]
            shown = thing if len(thing) <= LONGEST_THING else f"{thing[:LONGEST_THING]}…"
            return f" {shown}" if name == parameter else f", {kind} {shown}"
    return ""


def _days(detail: dict[str, Any], zone: ZoneInfo) -> str:
    start, end = (moment_of(detail.get(name)) for name in ("start", "end"))
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
