"""Servers of ours that behave as the real ones do: Slack's webhook endpoint and an SMTP server."""

import base64
import email
import json
import socketserver
import ssl
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# of all blocks as JSON; documented nowhere: https://github.com/slackapi/bolt-js/issues/2509
MAX_BLOCKS_TEXT = 13_172


@dataclass
class SlackScript:
    """What the fake answers next, and what it was sent. Without a script: 200 ok."""

    answers: list[tuple[int, dict[str, str], str]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    slow_s: float = 0.0


class FakeSlack:
    """https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks/: plain-text
    answers; limits are enforced.
    """

    def __init__(self) -> None:
        self.script = script = SlackScript()
        self.gone = threading.Event()
        stop = self.gone

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                script.paths.append(self.path)
                script.headers.append(dict(self.headers))
                if script.slow_s:
                    stop.wait(script.slow_s)
                status, headers, text = self.judged(body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                with suppress(OSError):  # the sender of a slow answer is gone
                    self.wfile.write(text.encode())

            def judged(self, body: bytes) -> tuple[int, dict[str, str], str]:
                try:
                    message = json.loads(body)
                except ValueError:
                    return 400, {}, "invalid_payload"
                script.requests.append(message)
                if script.answers:
                    return script.answers.pop(0)
                return (200, {}, "ok") if is_within_limits(message) else (400, {}, "invalid_blocks")

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/services/T000/B000/s3cr3t"

    def stop(self) -> None:
        self.gone.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)


def is_within_limits(message: dict[str, Any]) -> bool:
    """https://docs.slack.dev/reference/block-kit/blocks/"""
    blocks = message.get("blocks", [])
    return (
        bool(message.get("text"))
        and len(blocks) <= 50
        and len(json.dumps(blocks, ensure_ascii=False)) <= MAX_BLOCKS_TEXT
        and all(_block_fits(block) for block in blocks)
    )


def _block_fits(block: dict[str, Any]) -> bool:
    if block["type"] == "header":
        return 0 < len(block["text"]["text"]) <= 150 and block["text"]["type"] == "plain_text"
    if block["type"] == "section":
        fields = block.get("fields", [])
        text_fits = "text" not in block or 0 < len(block["text"]["text"]) <= 3000
        return (
            text_fits
            and ("text" in block or "fields" in block)
            and len(fields) <= 10
            and all(0 < len(each["text"]) <= 2000 for each in fields)
        )
    if block["type"] == "actions":
        ids = [each["action_id"] for each in block["elements"]]
        return (
            0 < len(ids) <= 25
            and len(set(ids)) == len(ids)
            and all(_button_fits(each) for each in block["elements"])
        )
    return False


def _button_fits(button: dict[str, Any]) -> bool:
    """https://docs.slack.dev/reference/block-kit/block-elements/button-element"""
    return (
        0 < len(button["text"]["text"]) <= 75
        and button["text"]["type"] == "plain_text"
        and 0 < len(button["action_id"]) <= 255
        and len(button.get("value", "")) <= 2000
        and len(button.get("url", "")) <= 3000
        and button.get("style", "primary") in ("primary", "danger")
    )


@dataclass
class SMTPScript:
    """How the fake behaves: an answer per command or per recipient replaces the usual one."""

    # "MAIL", "DATA", "." or a recipient's address -> answer
    answers: dict[str, str] = field(default_factory=dict)
    login: tuple[str, str] | None = None  # user name and password; None = no AUTH offered
    mails: list[EmailMessage] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    senders: list[str] = field(default_factory=list)


class FakeSMTP:
    """RFC 5321 as far as a submission goes: EHLO, STARTTLS, AUTH PLAIN and LOGIN, MAIL, RCPT, DATA,
    RSET, QUIT.

    `tls`: the server's side of TLS, spoken from the start, or after STARTTLS where `is_later`.
    """

    def __init__(
        self,
        address: str = "127.0.0.1",
        port: int = 0,
        *,
        tls: ssl.SSLContext | None = None,
        is_later: bool = False,
    ) -> None:
        self.script = script = SMTPScript()

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                # a client that expected TLS, or another name in it, hangs up
                with suppress(ConnectionError, ssl.SSLError):
                    if tls is None:
                        _Dialogue(script, self.rfile, self.wfile).run()
                        return
                    if is_later:
                        _Dialogue(script, self.rfile, self.wfile, offers=["STARTTLS"]).run()
                    with (
                        tls.wrap_socket(self.request, server_side=True) as secured,
                        secured.makefile("rwb", 0) as wire,
                    ):
                        _Dialogue(script, wire, wire, is_greeting=not is_later).run()

        self.server = socketserver.ThreadingTCPServer((address, port), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self.thread.start()
        self.port = self.server.server_address[1]

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)


class _Dialogue:
    def __init__(
        self,
        script: SMTPScript,
        lines_in: Any,
        out: Any,
        *,
        offers: Sequence[str] = (),
        is_greeting: bool = True,
    ) -> None:
        self.script, self.lines_in, self.out = script, lines_in, out
        self.offers, self.is_greeting = offers, is_greeting
        self.is_known = script.login is None
        self.to: list[str] = []

    def say(self, text: str) -> None:
        self.out.write(text.encode() + b"\r\n")

    def hear(self) -> str:
        return self.lines_in.readline(4096).decode("utf-8", "replace").rstrip("\r\n")

    def run(self) -> None:
        if self.is_greeting:
            self.say(self.script.answers.get("CONNECT", "220 fake ESMTP"))
        while line := self.hear():
            verb, _, rest = line.partition(" ")
            if verb.upper() == "QUIT":
                self.say("221 bye")
                return
            if verb.upper() == "STARTTLS" and self.offers:
                self.say("220 go on")
                return
            self.command(verb.upper(), rest)

    def command(self, verb: str, rest: str) -> None:
        if verb == "EHLO":
            offers = ["fake", "SIZE 10000000", "8BITMIME", *self.offers] + (
                ["AUTH PLAIN LOGIN"] if self.script.login else []
            )
            for offer in offers[:-1]:
                self.say(f"250-{offer}")
            self.say(f"250 {offers[-1]}")
        elif verb == "AUTH":
            self.authenticate(rest)
        elif verb == "MAIL":
            self.to = []
            self.script.senders.append(rest)
            self.say(
                self.script.answers.get("MAIL", "250 ok")
                if self.is_known
                else "530 5.7.0 authentication required"
            )
        elif verb == "RCPT":
            address = rest.partition("<")[2].partition(">")[0]
            answer = self.script.answers.get(address, "250 ok")
            self.to += [address] if answer.startswith("250") else []
            self.say(answer)
        elif verb == "DATA":
            self.data()
        elif verb == "RSET":
            self.say("250 ok")
        else:
            self.say("502 5.5.1 unknown command")

    def authenticate(self, rest: str) -> None:
        method, _, first = rest.partition(" ")
        if method.upper() == "PLAIN":
            _, user, password = base64.b64decode(first).decode().split("\0")
        else:
            user = base64.b64decode(first).decode()
            self.say("334 UGFzc3dvcmQ6")
            password = base64.b64decode(self.hear()).decode()
        self.is_known = (user, password) == self.script.login
        self.say(
            self.script.answers.get("AUTH")
            or ("235 2.7.0 welcome" if self.is_known else "535 5.7.8 bad user name or password")
        )

    def data(self) -> None:
        answer = self.script.answers.get("DATA", "354 go on")
        self.say(answer)
        if not answer.startswith("354"):
            return
        lines = []
        while (line := self.lines_in.readline()) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b".") else line)
        answer = self.script.answers.get(".", "250 2.0.0 queued")
        if answer.startswith("250"):
            raw = b"".join(lines)
            self.script.raw.append(raw)
            self.script.mails.append(email.message_from_bytes(raw, policy=default))  # type: ignore[arg-type]
            self.script.recipients.append(self.to)
        self.say(answer)


class Stopwatch:
    """A monotonic clock that jumps by `step_s` each time it is read."""

    def __init__(self, step_s: float) -> None:
        self.at, self.step_s = time.monotonic(), step_s

    def __call__(self) -> float:
        self.at += self.step_s
        return self.at
