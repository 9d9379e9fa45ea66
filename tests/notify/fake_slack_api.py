"""Slack's Web API over HTTP as its reference describes it; nothing of it is the real one.

https://docs.slack.dev/apis/web-api (bearer token, JSON, `ok`), /reference/methods/chat.postMessage,
chat.update and views.open, /apis/web-api/rate-limits (429 with Retry-After),
/reference/block-kit/blocks (limits). Slack's own client talks to it in test_slack_app.py.
"""

import json
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from tests.notify.fakes import MAX_BLOCKS_TEXT, is_within_limits

TOKEN = "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzqqgy"
BOT = "U0LAN0Z89"
MAX_TEXT = 40_000
Answer = tuple[int, dict[str, str], dict[str, Any]]


@dataclass
class Conversation:
    """A channel, or a member's direct messages with the app."""

    id: str
    name: str = ""
    is_member: bool = True
    is_archived: bool = False


@dataclass
class Workspace:
    """What the fake knows, and what happens next."""

    conversations: list[Conversation] = field(
        default_factory=lambda: [Conversation("C024BE91L", "gpu-alerts")]
    )
    members: dict[str, str] = field(default_factory=lambda: {"U2147483697": "D0G9QPY56"})
    messages: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)  # instead of doing what is asked
    lost_answers: int = 0  # done, and the connection is gone before the answer
    is_revoked: bool = False
    triggers: list[str] = field(default_factory=list)  # clicks of the last 3 s
    views: list[dict[str, Any]] = field(default_factory=list)  # windows that were opened
    whispers: list[dict[str, Any]] = field(default_factory=list)  # said to who clicked alone
    slow_s: float = 0.0  # before each answer

    def standing(self) -> list[tuple[str, str]]:
        """The conversation and title of each message that is no reply, oldest first."""
        return [
            (place, message["blocks"][0]["text"]["text"])
            for (place, _), message in self.messages.items()
            if "thread_ts" not in message
        ]

    def replies(self, ts: str) -> list[str]:
        """The titles of what stands below a message."""
        return [
            message["blocks"][0]["text"]["text"]
            for message in self.messages.values()
            if message.get("thread_ts") == ts
        ]


class FakeSlackAPI:
    """One workspace with one app, whose token is TOKEN."""

    def __init__(self) -> None:
        self.workspace = workspace = Workspace()
        self.gone = threading.Event()
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                method = self.path.removeprefix("/api/")
                sent = api.read(self.headers["Content-Type"], body)
                workspace.calls.append((method, sent))
                api.gone.wait(workspace.slow_s)
                is_ours = self.headers["Authorization"] == f"Bearer {TOKEN}"
                status, headers, content = api.answer(method, sent, is_ours=is_ours)
                if workspace.lost_answers:
                    workspace.lost_answers -= 1
                    self.close_connection = True
                    return
                text = json.dumps(content).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json; charset=utf-8")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/api"
        self.response_url = self.url.replace("/api", "/actions/T9TK3CUKW/1232321423432/D09sSas")

    def stop(self) -> None:
        self.gone.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)

    def read(self, content_type: str, body: bytes) -> dict[str, Any]:
        """JSON, or a form whose structured fields are JSON in it."""
        if content_type.startswith("application/json"):
            return json.loads(body)
        fields = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        return fields | {"blocks": json.loads(fields.get("blocks", "[]"))}

    def answer(self, method: str, sent: dict[str, Any], *, is_ours: bool) -> Answer:
        workspace = self.workspace
        if workspace.answers:
            return workspace.answers.pop(0)
        if method.startswith("/actions/"):  # a response_url is its own secret
            workspace.whispers.append(sent)
            return yes()
        if not is_ours:
            return no("invalid_auth")
        if workspace.is_revoked:
            return no("token_revoked")
        methods = {
            "chat.postMessage": self.post,
            "chat.update": self.update,
            "views.open": self.open_view,
        }
        return methods[method](sent) if method in methods else no("unknown_method")

    def post(self, sent: dict[str, Any]) -> Answer:
        place = self.place(sent["channel"])
        error = refusal(place) or misfit(sent)
        if error or place is None:
            return no(error)
        thread_ts = sent.get("thread_ts")
        if thread_ts and (place.id, thread_ts) not in self.workspace.messages:
            return no("thread_not_found")
        ts = f"1503435956.{len(self.workspace.messages) + 1:06}"
        message = {"user": BOT, "text": sent["text"], "blocks": sent.get("blocks", []), "ts": ts}
        message |= {"thread_ts": thread_ts} if thread_ts else {}
        self.workspace.messages[place.id, ts] = message
        return yes(channel=place.id, ts=ts, message=message)

    def update(self, sent: dict[str, Any]) -> Answer:
        # ids only, and of a direct message its own (D...), never the member's
        by_id = [each for each in self.places() if each.id == sent["channel"]]
        place = by_id[0] if by_id else None
        error = refusal(place) or misfit(sent)
        if error or place is None:
            return no(error)
        message = self.workspace.messages.get((place.id, sent["ts"]))
        if message is None:
            return no("message_not_found")
        message |= {"text": sent["text"], "edited": {"user": BOT, "ts": "1503436000.000000"}}
        if "blocks" in sent:  # what is not given stays
            message["blocks"] = sent["blocks"]
        return yes(channel=place.id, ts=sent["ts"], text=sent["text"], message=message)

    def open_view(self, sent: dict[str, Any]) -> Answer:
        if sent["trigger_id"] not in self.workspace.triggers:
            return no("expired_trigger_id")
        self.workspace.triggers.remove(sent["trigger_id"])  # of one use
        view = sent["view"]
        fits = len(view["title"]["text"]) <= 24 and len(view["private_metadata"]) <= 3000
        if not fits:
            return no("invalid_arguments")
        self.workspace.views.append(view)
        return yes(view=view)

    def places(self) -> list[Conversation]:
        direct = [Conversation(place) for place in self.workspace.members.values()]
        return [*self.workspace.conversations, *direct]

    def place(self, asked: str) -> Conversation | None:
        """By id, by name, or a member's direct messages by the member's id."""
        wanted = self.workspace.members.get(asked, asked)
        for each in self.places():
            if wanted in (each.id, f"#{each.name}"):
                return each
        return None


def refusal(place: Conversation | None) -> str:
    if place is None:
        return "channel_not_found"
    if place.is_archived:
        return "is_archived"
    return "" if place.is_member else "not_in_channel"


def misfit(sent: dict[str, Any]) -> str:
    if not sent.get("text") and not sent.get("blocks"):
        return "no_text"
    if len(sent.get("text", "")) > MAX_TEXT:
        return "msg_too_long"
    if len(json.dumps(sent.get("blocks", []), ensure_ascii=False)) > MAX_BLOCKS_TEXT:
        return "msg_blocks_too_long"
    return "" if is_within_limits(sent) else "invalid_blocks"


def no(error: str, status: int = 200, **headers: str) -> Answer:
    """Slack answers 200 to what it refuses."""
    return status, headers, {"ok": False, "error": error}


def slow_down(seconds: int) -> Answer:
    return 429, {"Retry-After": str(seconds)}, {"ok": False, "error": "ratelimited"}


def yes(**content: Any) -> Answer:
    return 200, {}, {"ok": True, **content}
