"""Who walks through a hub, where, and whose each address is.

Addresses come from Django's own table: a new one is walked by itself, and has to be said whose it
is where it takes a form.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from itertools import product
from json import dumps
from typing import Any
from urllib.parse import urlsplit

from django.db import connection, transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import Resolver404, URLPattern, URLResolver, get_resolver, resolve

from fleetwatch.accounts.models import NameRule, SavedView
from fleetwatch.accounts.permissions import RIGHTS, Right
from fleetwatch.actions.keeping import keep_url
from fleetwatch.actions.models import Policy
from fleetwatch.alerts.incidents import incident_actions
from fleetwatch.alerts.messaging.unsubscribing import unsubscribe_url
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.dashboard.forms import changes
from fleetwatch.dashboard.views import actions, invoices, people, rules, statements
from fleetwatch.diagnosis.findings import deciding
from fleetwatch.notify.models import Delivery
from fleetwatch.reports.models import Report
from tests.accounts import world
from tests.accounts.world import World

EVERYBODY = None  # who is logged in
TRIERS = (Right.FLEET, Right.MONEY)  # who has one of them
# addresses that a stranger may open
OPEN = {
    "account_login", "account_inactive", "invitation", "openid_connect_login", "mfa_login_webauthn",
    "openid_connect_callback", "socialaccount_login_cancelled", "socialaccount_login_error",
    "agent_package", "agent_checksum", "agent_install_script", "healthz", "readyz", "theme",
    "favicon", "unsubscribe", "mail_link", "keep_job", "cli_file", "cli_checksum", "device_code",
    "device_token", "device_end",
}  # fmt: skip
# addresses that take what a machine signed, and nobody's session
SIGNED = {"slack_interactivity"}
# addresses that a command line asks: the code or token in its JSON is judged
OF_MACHINES = {"device_code", "device_token", "device_end"}
# files: that one was taken is an entry of the audit log; a page writes nothing
EXPORTS = {
    "explain_csv",
    "jobs_csv",
    "waste_csv",
    "costs_file",
    "report_file",
    "audit_csv",
    "audit_jsonl",
}
# addresses that not everybody who is logged in may open
READ_BY = {
    "message_mail": Right.FLEET,
    "people": Right.PEOPLE,
    "people_import": Right.PEOPLE,
    "people_template": Right.PEOPLE,
    "name_rules": Right.PEOPLE,
    "person": Right.PEOPLE,
    "jobs_of": Right.PEOPLE,
    "audit": Right.PEOPLE,
    "audit_csv": Right.PEOPLE,
    "audit_jsonl": Right.PEOPLE,
    "mappings_import": Right.MONEY,
    "rates_import": Right.MONEY,
    "mappings_template": Right.MONEY,
    "rates_template": Right.MONEY,
    "invoice_example": Right.MONEY,
    "rates_calculator": Right.MONEY,
    "policy_trial": TRIERS,
}
# addresses that take a form, and whose; what is not here takes none
CHANGED_BY = {
    "device": EVERYBODY,
    "device_code": EVERYBODY,
    "device_token": EVERYBODY,
    "device_end": EVERYBODY,
    "claim": EVERYBODY,
    "drop_name": EVERYBODY,
    "make_token": EVERYBODY,
    "revoke_token": EVERYBODY,
    "theme": EVERYBODY,
    "unsubscribe": EVERYBODY,
    "mail_link": EVERYBODY,
    "keep_job": EVERYBODY,
    "incident_keep": EVERYBODY,  # whose it is: here there is nothing to keep
    "action_policy_add": Right.FLEET,
    "action_policy_change": Right.FLEET,
    "report_compute": Right.MONEY,
    "report_stop": Right.MONEY,
    "policy_try": TRIERS,
    "rule_back_test": EVERYBODY,  # who may open the page that tries it
    "policy_back_test": EVERYBODY,
    "back_test_stop": Right.FLEET,  # and whose it is
    "policy_trial_stop": TRIERS,
    "team_change": Right.MONEY,  # and of leads, for their teams
    "invoice_change": Right.MONEY,
    "budget_set": Right.MONEY,
    "mappings": Right.MONEY,
    "mappings_import": Right.MONEY,
    "rates_import": Right.MONEY,
    "rates_calculator": Right.MONEY,
    "incidents_act": EVERYBODY,
    "findings_act": EVERYBODY,  # each finding is asked for by itself whose it is
    "incident_act": Right.FLEET,  # and whose it is: here nobody's who walks
    "rule_change": Right.FLEET,
    "rule_new": Right.FLEET,
    "silence_add": Right.FLEET,  # and of leads, for their teams
    "silence_end": Right.FLEET,
    "route_set": Right.FLEET,
    "set_notifications": EVERYBODY,
    "view_save": EVERYBODY,
    "view_drop": EVERYBODY,  # whose it is: his, who walks, or an admin's
    "remove-node": Right.FLEET,
    "move-gpu": Right.FLEET,
    "set-idle-power": Right.FLEET,
    "welcome": Right.FLEET,
    "demo_load": Right.FLEET,
    "demo_remove": Right.FLEET,
    "people_import": Right.PEOPLE,
    "name_rules": Right.PEOPLE,
    "drop_name_rule": Right.PEOPLE,
    "name_belongs": Right.PEOPLE,
    "invite": Right.PEOPLE,
    "withdraw": Right.PEOPLE,
    "person_change": Right.PEOPLE,
}
SETTINGS_CHANGED_BY = {
    "rate": Right.MONEY,
    "exchange": Right.MONEY,
    "commitment": Right.MONEY,
    "region": Right.MONEY,
    "month": Right.MONEY,
    "free": Right.MONEY,
    "channel": Right.FLEET,
    "agent": Right.FLEET,
    "elastic": Right.FLEET,
    "link": Right.FLEET,
    "enrollment": Right.FLEET,
    "api": Right.PEOPLE,
    "organisation": Right.PEOPLE,
    "access": Right.PEOPLE,
    "policy": Right.PEOPLE,
}
Whose = Right | tuple[Right, ...] | None
TURNED_AWAY = (401, 403, 404, 405)
METHODS = ("GET", "POST", "PUT", "DELETE")
API = "/api/"


@dataclass(frozen=True, slots=True)
class Address:
    """One address of the table, filled in."""

    path: str
    name: str
    kwargs: dict[str, Any]


def addresses_of(there: World) -> list[Address]:
    """Every address but the API's."""
    known = known_values(there)
    return [
        Address("/" + filled(route, kwargs), pattern.name or "", kwargs)
        for route, pattern in patterns(get_resolver())
        if not route.startswith(API[1:])
        for kwargs in fillings(pattern.name or "", route, known)
    ]


def patterns(resolver: URLResolver, before: str = "") -> Iterator[tuple[str, URLPattern]]:
    for pattern in resolver.url_patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from patterns(pattern, route)
        else:
            yield re.sub(r"\^|\\Z|\$", "", re.sub(r"\(\?P(<\w+>)[^)]*\)", r"\1", route)), pattern


def filled(route: str, kwargs: dict[str, Any]) -> str:
    return re.sub(r"<(?:\w+:)?(\w+)>", lambda field: str(kwargs[field[1]]), route)


def fillings(name: str, route: str, known: dict[Any, list[Any]]) -> Iterator[dict[str, Any]]:
    """What the address is asked for with: of each of its fields something that there is."""
    fields = re.findall(r"<(?:\w+:)?(\w+)>", route)
    for chosen in product(*(values(name, each, known) for each in fields)):
        yield dict(zip(fields, chosen, strict=True))


def values(name: str, field: str, known: dict[Any, list[Any]]) -> list[Any]:
    """Raises KeyError for a field that is new here: say what there is of it."""
    if (name, field) in known:
        return known[name, field]
    return known["report" if field == "pk" and name.startswith("report") else field]


def known_values(there: World) -> dict[Any, list[Any]]:
    """What there is of each field: by the name of an address and the field, or by the field."""
    numbers = list(Incident.objects.values_list("pk", flat=True))
    rule = Rule.objects.get(condition="job_idle").pk
    of_address: dict[Any, list[Any]] = {
        ("finding", "pk"): [there.finding.pk, there.others.pk],
        ("finding_around", "pk"): [there.finding.pk, there.others.pk],
        ("finding_decide", "pk"): [there.finding.pk, there.others.pk],
        ("finding_decide", "action"): list(deciding.KINDS),
        ("invoice_change", "action"): list(invoices._CHANGES),
        ("person_change", "action"): list(people._CHANGES),
        ("settings_change", "action"): list(changes.CHANGES),
        ("withdraw", "pk"): [1],
        ("policy_trial", "pk"): [there.trial.pk],
        ("policy_trial_stop", "pk"): [there.trial.pk],
        ("rule_back_test", "pk"): [rule],
        ("policy_back_test", "pk"): [there.policy.pk],
        ("back_test_stop", "pk"): [there.back_test.pk],
        ("drop_name_rule", "pk"): list(NameRule.objects.values_list("pk", flat=True)),
        ("silence_end", "pk"): [there.silence.pk],
        ("rule", "pk"): [rule],
        ("rule_change", "pk"): [rule],
        ("rule_change", "action"): list(rules.CHANGES),
        ("incident_act", "pk"): numbers,
        ("incident_act", "action"): list(incident_actions.KINDS),
        ("mail_link", "token"): [],  # of an incident; here is none
        ("incident_keep", "pk"): numbers,
        ("action_policy", "pk"): [there.policy.pk, Policy.objects.get(kind="drain_node").pk],
        ("action_policy_change", "pk"): [there.policy.pk],
        ("action_policy_change", "action"): list(actions.CHANGES),
        ("keep_job", "token"): [
            keep_url(there.policy.actions.get(state="ended"), there.users["lead"]).rpartition("/")[
                2
            ]
        ],
        ("incident", "pk"): numbers,
        ("view", "slug"): [view.slug for view in SavedView.objects.all()],
        ("view_drop", "pk"): list(SavedView.objects.values_list("pk", flat=True)),
        ("node", "name"): ["node-001"],
        ("agent", "name"): ["node-001"],
        ("remove-node", "name"): ["node-001"],
        ("chart", "name"): ["spend", "costs", "fleet", "capacity"],
        ("report_file", "name"): ["csv"],
        ("digest_mail", "pk"): [],  # the world has no digest
        ("message_mail", "pk"): list(Delivery.objects.values_list("pk", flat=True)[:1]),
        ("costs_file", "form"): ["csv"],
        ("budget", "slug"): ["nlp-research"],
        ("team", "slug"): ["nlp-research"],
        ("team_statement", "slug"): ["nlp-research"],
        ("team_change", "slug"): ["vision"],
        ("team_change", "action"): list(statements.CHANGES),
    }
    of_field: dict[Any, list[Any]] = {
        "uuid": ["GPU-node-001-0"],
        "key": ["slurm/della/1000"],
        "code": ["idle_held"],
        "month": [world.MONTH],
        "secret": [there.invitation],
        "token": [unsubscribe_url(there.users["lead"], "digest").rpartition("/")[2]],
        "provider_id": ["sso"],
        "report": [Report.objects.latest("pk").pk],
        "pk": [there.users["lead"].pk],
    }
    return of_address | of_field


def whose(address: Address) -> Whose:
    """Whose form the address takes. Raises KeyError for one that takes none."""
    if address.name == "settings_change":
        return SETTINGS_CHANGED_BY[address.kwargs["action"].partition("-")[0]]
    return CHANGED_BY[address.name]


def may(role: str, right: Whose) -> bool:
    if right is None:
        return True
    wanted = right if isinstance(right, tuple) else (right,)
    return not RIGHTS.get(role, frozenset()).isdisjoint(wanted)


def decides(role: str, address: Address, there: World) -> bool:
    """Whether the role's walker decides there: operators everywhere, who owns the job or leads its
    team about it, and everybody says whether a diagnosis is right.
    """
    is_own = address.kwargs["pk"] == there.finding.pk and role in ("engineer", "lead")
    says = address.kwargs["action"] in deciding.SAYS
    return says or is_own or Right.FLEET in RIGHTS.get(role, ())


def takes_form(role: str, address: Address, there: World) -> bool:
    """Whether the role's walker may send what the address takes."""
    if address.name == "finding_decide":
        return decides(role, address, there)
    try:
        return may(role, whose(address))
    except KeyError:
        return False


def written() -> int:
    """How many rows this transaction wrote, but for sessions; what was taken back counts too."""
    with connection.cursor() as cursor:
        cursor.execute(
            # what pg_stat_xact_user_tables says, without its joins: it is asked for at each address
            "SELECT sum(pg_stat_get_xact_tuples_inserted(oid) + pg_stat_get_xact_tuples_updated(oid)"
            " + pg_stat_get_xact_tuples_deleted(oid)) FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = 'public'::regnamespace AND relname <> 'django_session'"
        )
        return int(cursor.fetchone()[0])


class Entries:
    """Counts what is written, once for each thing that is asked."""

    def __init__(self) -> None:
        self.so_far = written()

    def new(self) -> int:
        """Rows written since it was asked last."""
        before, self.so_far = self.so_far, written()
        return self.so_far - before


class Walker(Client):
    """Asks, and takes back what that changed: each request meets the same world."""

    def ask(
        self, method: str, path: str, sent: Any = None, *, json: Any = None, **headers: str
    ) -> HttpResponse:
        """The answer; `sent` is a form, `json` the body of a call."""
        cookies = self.cookies.output()
        text = dumps(json) if json is not None else ""
        kind = "application/octet-stream" if json is None else "application/json"
        with transaction.atomic():
            if sent is not None:
                answer = self.post(path, sent, headers=headers)
            else:
                answer = self.generic(method, path, text, kind, headers=headers)
            transaction.set_rollback(True)
        if self.cookies.output() != cookies:
            self.cookies.clear()
            self.cookies.load(cookies.replace("Set-Cookie: ", ""))
        return answer


def walker(user) -> Walker:
    client = Walker(raise_request_exception=False)
    client.force_login(user)
    return client


def is_turned_away(answer: HttpResponse) -> bool:
    to_log_in = answer.get("Location", "").startswith("/accounts/login/")
    return answer.status_code in TURNED_AWAY or to_log_in


def body(answer: HttpResponse) -> str:
    return b"".join(answer).decode("utf-8", "replace")


# what a page is asked for is read some thousand times: by html.parser that takes as long as the
# pages themselves
TAG = re.compile(
    r"<(/?)(a|form|button|input|textarea|select|option)\b((?:[^>\"]|\"[^\"]*\")*)>", re.IGNORECASE
)
ATTRIBUTE = re.compile(r"([^\s=\"/]+)(?:=\"([^\"]*)\")?")


class Page:
    """The forms that change something, with what a click sends, and the links of a page."""

    def __init__(self, text: str) -> None:
        self.forms: list[tuple[str, dict[str, str]]] = []
        self.links: set[str] = set()
        self._action = ""
        self._sent: dict[str, str] = {}
        self._select = ""
        self._buttons: list[tuple[str, dict[str, str]]] = []
        for is_end, tag, attributes in TAG.findall(text):
            if is_end:
                self._end(tag)
            else:
                given = ATTRIBUTE.findall(attributes)
                self._start(tag, {name: unescape(value) for name, value in given})

    def _start(self, tag: str, given: dict[str, str]) -> None:
        if tag == "a":
            self.links.add(given.get("href", ""))
        elif tag == "form":
            self._action = given.get("action", "") if given.get("method") == "post" else ""
            self._sent, self._buttons = {}, []
        elif (
            tag == "button" and given.get("type", "submit") == "submit" and "disabled" not in given
        ):
            pressed = {given["name"]: given.get("value", "")} if given.get("name") else {}
            self._buttons.append((given.get("formaction") or self._action, pressed))
        elif tag in ("input", "textarea") and given.get("name"):
            self._sent[given["name"]] = given.get("value") or "x"
        elif tag == "select":
            self._select = given.get("name", "")
        elif tag == "option" and self._select:
            self._sent.setdefault(self._select, given.get("value", ""))

    def _end(self, tag: str) -> None:
        if tag == "form" and self._action:
            # without a button it is sent by Enter
            buttons = self._buttons or [(self._action, {})]
            self.forms += [(action, self._sent | pressed) for action, pressed in buttons]
            self._action = ""


def is_allauths(address: Address) -> bool:
    """Whether its form is allauth's, about the asker's own log-in."""
    return address.path.startswith("/accounts/")


@dataclass
class Walk:
    """What the walker of a role met; `wrong` is what should not be."""

    role: str
    there: World
    wrong: list[tuple[Any, ...]] = field(default_factory=list)
    tried: set[tuple[Any, ...]] = field(default_factory=set)
    entries: Entries = field(default_factory=Entries)

    @property
    def hidden(self) -> tuple[str, ...]:
        """What the role is not shown."""
        for_admins = (world.OTHERS_ADDRESS, world.INVITED_ADDRESS, world.AUDITED)
        return self.there.secrets + (() if may(self.role, Right.PEOPLE) else for_admins)

    def open(self, by: Walker, address: Address) -> None:
        """The address, and what the buttons and links of its page lead to."""
        answer = by.ask("GET", address.path)
        status = answer.status_code
        entries = self.entries.new()
        if not may(self.role, READ_BY.get(address.name)):
            self.expect(status == 403 and entries == 0, "GET", address.path, status)
        elif is_allauths(address) or address.name == "readyz":
            self.expect(status < 500 or status == 503, "GET", address.path, status)
        else:
            takes = address.name in SIGNED or takes_form("admin", address, self.there)
            is_form = status == 405 and takes
            self.expect(status in (200, 302) or is_form, "GET", address.path, status)
            self.expect(entries == (address.name in EXPORTS), "GET", address.path, "wrote", entries)
        if status == 200:
            self.read(by, address, body(answer))

    def read(self, by: Walker, address: Address, text: str) -> None:
        page = Page(text)
        for secret in self.hidden if address.name != "invitation" else ():
            self.expect(secret not in text, address.path, "shows", secret)
        for link in page.links:
            self.expect(leads_on(self.role, link), address.path, "links to", link)
        for action, sent in page.forms:
            self.click(by, urlsplit(action).path or address.path, sent, of=address)

    def click(self, by: Walker, path: str, sent: dict[str, str], *, of: Address) -> None:
        """Each kind of button once."""
        kind = kind_of(path)
        if kind in self.tried or path.startswith("/accounts/"):
            return
        self.tried.add(kind)
        status = by.ask("POST", path, sent).status_code
        self.entries.new()
        self.expect(status in (200, 302, 422), of.path, "has a button to", path, status)

    def send(self, by: Walker, address: Address) -> None:
        """A form that is empty, where no page has a button to it."""
        if is_allauths(address) or kind_of(address.path) in self.tried:
            return
        status = by.ask("POST", address.path, {}).status_code
        entries = self.entries.new()
        if takes_form(self.role, address, self.there):
            is_refused = status in (400, 401) and address.name in OF_MACHINES
            is_right = is_refused or status in (200, 302, 404, 422)
        elif takes_form("admin", address, self.there):
            # a decision that says too little is refused before it is asked whose it is
            is_right = status in (403, 422) and entries == 0
        else:
            refusal = 401 if address.name in SIGNED else 405
            is_right = status == refusal and entries == 0
        self.expect(is_right, "POST", address.path, status)

    def expect(self, is_right: bool, *what: Any) -> None:
        self.wrong += [] if is_right else [what]


def leads_on(role: str, link: str) -> bool:
    """Whether the link of a page leads where the role may be."""
    parts = urlsplit(link)
    if parts.netloc or not parts.path.startswith("/") or parts.path.startswith("/static/"):
        return True
    try:
        return may(role, READ_BY.get(resolve(parts.path).url_name or ""))
    except Resolver404:
        return False


def kind_of(path: str) -> tuple[Any, ...]:
    """What the address does; a decision is about a finding too."""
    target = resolve(path)
    which = target.kwargs.get("pk") if target.url_name == "finding_decide" else None
    return target.url_name, target.kwargs.get("action"), which
