"""Everything that is there on that day: a hub of processes whose clock the story moves, eight nodes,
Slack, a real Postfix, a real Alertmanager, a real OpenID Connect provider, and five people.
"""

import contextlib
import copy
import hmac
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from hashlib import sha256
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page

from tests.channels.postfix import PASSWORD, USER, Postfix
from tests.day.clock import Clock
from tests.day.nodes import StoryNode
from tests.identity.provider import NAME, Provider, log_in
from tests.notify.factories import app_config, smtp_config
from tests.notify.fake_slack_api import Conversation, FakeSlackAPI
from tests.notify.post_server import Answer, PostServer, Request
from tests.notify.real_alertmanager import Alertmanager
from tests.notify.slack_payloads import click
from tests.stack.living import ROOT, Living, living_stack

SIGNING_SECRET = app_config("")["signing_secret"]
MAIL_DOMAIN = "example.org"
CALLBACK = "/accounts/oidc/sso/login/callback/"


@dataclass(frozen=True)
class Person:
    """Somebody who logs in by the provider; `slack` is the member's id, "" = reached by mail."""

    name: str
    shown: str
    groups: tuple[str, ...]
    slack: str = ""

    @property
    def claims(self) -> dict[str, object]:
        first, _, last = self.shown.partition(" ")
        return {
            "email": f"{self.name}@{MAIL_DOMAIN}",
            "email_verified": True,
            "preferred_username": self.name,
            "name": self.shown,
            "given_name": first,
            "family_name": last,
            "groups": list(self.groups),
        }

    @property
    def direct(self) -> str:
        """The conversation of the app's direct messages."""
        return self.slack.replace("U", "D", 1)


PEOPLE = {
    each.name: each
    for each in (
        Person("priya", "Priya Nair", ("ml-vision",), "U0PRIYA"),
        Person("jonas", "Jonas Weber", ("ml-nlp",), "U0JONAS"),
        Person("amara", "Amara Obi", ("gpu-leads", "ml-nlp"), "U0AMARA"),
        Person("fiona", "Fiona Marsh", ("finance",)),
        Person("otto", "Otto Lind", ("gpu-operators",)),
    )
}
CHANNELS = {"C0OPS": "gpu-ops", "C0NLP": "nlp-gpus"}
ROLES = "gpu-leads=lead,finance=finance,gpu-operators=operator"
TEAMS = "ml-nlp=nlp,ml-vision=vision"


@dataclass
class Moment:
    """What everybody had received by then."""

    slack: dict[tuple[str, str], dict[str, Any]]
    mails: list[EmailMessage]
    alerts: list[dict[str, Any]]

    def titles(self, place: str) -> list[str]:
        """Of the messages there, the newest last; replies are indented."""
        return [
            ("↳ " if "thread_ts" in each else "") + each["blocks"][0]["text"]["text"]
            for (where, _), each in self.slack.items()
            if where == place
        ]

    def all(self, place: str) -> list[dict[str, Any]]:
        """The messages there, the newest last."""
        return [each for (where, _), each in self.slack.items() if where == place]

    def message(self, place: str, word: str) -> dict[str, Any]:
        """The only one there, not counting replies, with that word in its title."""
        [only] = [
            each
            for (where, _), each in self.slack.items()
            if where == place
            and "thread_ts" not in each
            and word in each["blocks"][0]["text"]["text"]
        ]
        return only


@dataclass
class Site:
    """The story's hands on all of it."""

    hub: Living
    clock: Clock
    nodes: list[StoryNode]
    slack: FakeSlackAPI
    postfix: Postfix
    alertmanager: Alertmanager
    out: Path | None  # where pictures go
    browser: Browser
    contexts: dict[str, BrowserContext] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    _hands: "subprocess.Popen[str] | None" = None

    def do(self, what: str, **facts: Any) -> Any:
        """What the hub's hands answer (hands.py)."""
        if self._hands is None:
            environment = {**self.hub.environment, "DJANGO_SETTINGS_MODULE": "fleetwatch.settings"}
            with (self.hub.data.parent / "hands.log").open("w") as log:
                self._hands = subprocess.Popen(
                    [sys.executable, "-m", "tests.day.hands"],
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
        assert self._hands.stdin is not None
        assert self._hands.stdout is not None
        self._hands.stdin.write(json.dumps({"do": what, **facts}) + "\n")
        self._hands.stdin.flush()
        line = self._hands.stdout.readline()
        assert line, (self.hub.data.parent / "hands.log").read_text()[-3000:]
        return json.loads(line)["answer"]

    def move_to(self, *moments: datetime) -> None:
        """At each of them the nodes tell what is new, and the hub does its work."""
        for at in moments:
            self.clock.move_to(at)
            for node in self.nodes:
                node.send(at, server=self.hub.url, token=self.tokens[node.name])
            self.do("work")

    def moment(self) -> Moment:
        return Moment(
            copy.deepcopy(self.slack.workspace.messages),
            self.postfix.everybodys(),
            self.alertmanager.alerts(),
        )

    def page(self, name: str) -> Page:
        """A page of the person's browser, where he is logged in."""
        return self.contexts[name].new_page()

    def click(self, member: str, message: dict[str, Any], action: str) -> int:
        """What the hub answers to the button, as Slack posts its click."""
        [buttons] = [each for each in message["blocks"] if each["type"] == "actions"]
        [button] = [each for each in buttons["elements"] if each["action_id"] == action]
        return self.post_click(member, action, button["value"])

    def post_click(self, member: str, action: str, value: str, secret: str = SIGNING_SECRET) -> int:
        body = click(
            user={"id": member, "username": member, "team_id": "T9TK3CUKW"},
            act={"action_id": action, "value": value},
            response_url=self.slack.response_url,
        )
        at = str(int(self.clock.now().timestamp()))
        signed = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, sha256).hexdigest()
        headers = {"X-Slack-Request-Timestamp": at, "X-Slack-Signature": f"v0={signed}"}
        request = urllib.request.Request(f"{self.hub.url}/slack/interactivity", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def stop(self) -> None:
        """Of the people's windows the browser's end is theirs."""
        if self._hands is not None and self._hands.stdin is not None:
            self._hands.stdin.close()
            self._hands.wait(20)


def shifted(alertmanager: Alertmanager, clock: Clock) -> PostServer:
    """What stands before Alertmanager, whose clock can't be moved (Go asks the kernel): moves the
    times that it is told by as much as the hub's clock is off.
    """

    def pass_on(request: Request) -> Answer:
        off = datetime.now(UTC) - clock.now()
        alerts = json.loads(request.body)
        for alert in alerts:
            for name in ("startsAt", "endsAt"):
                if alert.get(name):
                    alert[name] = (datetime.fromisoformat(alert[name]) + off).isoformat()
        headers = {"Content-Type": "application/json"}
        body = json.dumps(alerts).encode()
        onward = urllib.request.Request(alertmanager.url + request.path, body, headers)
        with urllib.request.urlopen(onward, timeout=10) as answer:
            return answer.status, {}, answer.read().decode()

    return PostServer(pass_on)


@contextlib.contextmanager
def running_site(
    browser: Browser, nodes: list[StoryNode], *, at: datetime, history: datetime
) -> Iterator[Site]:
    """All of it, the fleet's last day before `history` told; at the end nothing of it is left but
    the pictures in $OUT, where it is set.
    """
    out = Path(os.environ["OUT"]) if "OUT" in os.environ else None
    with contextlib.ExitStack() as stack:
        hub = stack.enter_context(living_stack())
        clock = Clock(hub.data.parent, at=at)
        hub.environment |= clock.environment
        provider = Provider(hub.url + CALLBACK, clock.environment)
        provider.start(**{each.name: each.claims for each in PEOPLE.values()})
        stack.callback(provider.stop)
        hub.environment |= {
            "FLEETWATCH_OIDC_NAME": NAME,
            "FLEETWATCH_OIDC_ISSUER": provider.url,
            "FLEETWATCH_OIDC_CLIENT_ID": "fleetwatch",
            "FLEETWATCH_OIDC_CLIENT_SECRET": "between-the-two-of-us",
            "FLEETWATCH_OIDC_USER_CLAIM": "preferred_username",
            "FLEETWATCH_OIDC_ROLES": ROLES,
            "FLEETWATCH_OIDC_TEAMS": TEAMS,
        }
        slack = FakeSlackAPI()
        stack.callback(slack.stop)
        postfix = Postfix(*PEOPLE, "finance", domain=MAIL_DOMAIN)
        stack.callback(postfix.stop)
        postfix.start()
        hub.environment["SSL_CERT_FILE"] = str(postfix.trusted)
        slack.workspace.conversations = [Conversation(*each) for each in CHANNELS.items()]
        slack.workspace.members = {
            each.slack: each.direct for each in PEOPLE.values() if each.slack
        }
        folder = hub.data.parent / "alertmanager"
        folder.mkdir()
        alertmanager = Alertmanager(folder)
        stack.callback(alertmanager.stop)
        before_it = shifted(alertmanager, clock)
        stack.callback(before_it.stop)
        hub.start()
        [beat] = hub.children("beat")
        os.kill(beat, signal.SIGSTOP)  # the story is the clock
        stack.callback(lambda: hub.is_running and os.kill(beat, signal.SIGCONT))
        told = hub.manage("demo_history", "--days", "1", "--until", history.isoformat())
        assert told.returncode == 0, told.stderr
        site = Site(hub, clock, nodes, slack, postfix, alertmanager, out, browser)
        stack.callback(site.stop)
        _prepare(site, alertmanager_url=before_it.url)
        yield site


def _prepare(site: Site, *, alertmanager_url: str) -> None:
    """People log in, then channels, names and routes are what an admin makes of them."""
    for name in PEOPLE:
        site.contexts[name] = site.browser.new_context(viewport={"width": 1280, "height": 900})
        page = site.page(name)
        log_in(page, site.hub.url, name)
        page.close()
    for node in site.nodes:
        site.tokens[node.name] = site.do("token", node=node.name)
    for person in PEOPLE.values():
        if person.slack:
            site.do("slack_name", user=person.name, member=person.slack)
    ops = site.do(
        "channel", kind="slack_app", name="gpu-ops", gets_digest=True,
        config=app_config(site.slack.url, channel="#gpu-ops"),
    )  # fmt: skip
    nlp = site.do(
        "channel", kind="slack_app", name="nlp-gpus",
        config=app_config(site.slack.url, channel="#nlp-gpus"),
    )  # fmt: skip
    mail = site.do(
        "channel", kind="email", name="finance",
        config=smtp_config(
            site.postfix.port, host="localhost", security="starttls",
            username=f"{USER}@{MAIL_DOMAIN}", password=PASSWORD, recipients=f"finance@{MAIL_DOMAIN}",
        ),
    )  # fmt: skip
    pager = site.do(
        "channel", kind="alertmanager", name="alertmanager", config={"url": alertmanager_url}
    )
    site.do("route", kind="operators", channels=[ops])
    site.do("route", kind="team", team="nlp", channels=[nlp])
    site.do("rule", condition="node_silent", channels=[pager])
    site.do("rule", condition="budget_spent", channels=[mail])
    # the story's clock jumps: of each jump this rule would say that nothing was done meanwhile
    site.do("rule", condition="hub_behind", is_enabled=False)
