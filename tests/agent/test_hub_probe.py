import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agent.check import hub_probe
from agent.check.hub_probe import Hub

GOOD, ENROLMENT = "agent-token", "enrolment-token"


class Door:
    """A hub's door, as contract.md has it, that stores what it should never be asked to store."""

    def __init__(self):
        self.ready = (200, {"ready": True, "missing": []})
        self.asked, self.date = [], None
        door = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer(*door.ready)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                door.asked.append((self.path, body))
                token = self.headers["Authorization"].partition(" ")[2]
                known = GOOD if self.path == "/api/v1/batches" else ENROLMENT
                self.answer(
                    *(
                        (422, {"error": "version is required"})
                        if token == known
                        else (401, {"error": "unknown token"})
                    )
                )

            def answer(self, status, content):
                self.send_response(status)
                body = json.dumps(content).encode()
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def date_time_string(self, timestamp=None):
                return door.date or super().date_time_string(timestamp)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def door():
    door = Door()
    yield door
    door.close()


def look(door, token=GOOD):
    return {finding.name: (finding.state, finding.text) for finding in Hub(door.url, token).look()}


def test_a_hub_that_is_well_and_takes_the_token(door):
    assert look(door) == {
        "hub": ("ok", "%s is ready" % door.url),
        "clock": ("ok", "agrees with the hub's"),
        "token": ("ok", "the hub takes it"),
    }
    assert door.asked == [("/api/v1/batches", b"{}")]  # nothing that could be stored


def test_without_a_token_the_door_is_not_tried(door):
    assert "token" not in look(door, "")
    assert door.asked == []


def test_an_enrolment_token_is_known_and_not_used_up(door):
    assert look(door, ENROLMENT)["token"] == (
        "ok",
        "an enrolment token: the first start exchanges it for this node's own",
    )
    assert door.asked[-1] == ("/api/v1/enroll", b"{}")  # names no node: nobody is enrolled


def test_a_refused_token_says_how_to_get_one(door):
    (token,) = [finding for finding in Hub(door.url, "old").look() if finding.name == "token"]

    assert (token.state, token.text) == ("no", "the hub refuses it: unknown token")
    assert "create_agent_token" in token.advice
    assert "old" not in token.text + token.advice


def test_a_hub_that_misses_something_says_what(door):
    door.ready = (503, {"ready": False, "missing": ["worker", "redis"]})

    assert look(door)["hub"] == ("warn", "%s is up, but misses: worker, redis" % door.url)


@pytest.mark.parametrize("answer", [(200, {}), (404, {"ready": True}), (302, {}), (200, [1])])
def test_something_else_at_the_address_is_said(door, answer):
    door.ready = answer

    assert look(door)["hub"] == (
        "no",
        "%s answers %d: is it a FleetWatch hub?" % (door.url, answer[0]),
    )


def test_nobody_at_the_address_is_one_finding(door):
    door.close()

    assert look(door) == {"hub": ("no", "%s can't be reached: Connection refused" % door.url)}


@pytest.mark.parametrize(
    ("date", "state", "said"),
    [
        ("Sat, 14 Nov 2026 12:00:03 GMT", "warn", "-3 s against the hub's"),
        ("Sat, 14 Nov 2026 12:00:02 GMT", "ok", "-2 s against the hub's"),
        # its second was not over yet
        ("Sat, 14 Nov 2026 11:59:57 GMT", "ok", "+2 s against the hub's"),
        ("Sat, 14 Nov 2026 11:59:56 GMT", "warn", "+3 s against the hub's"),
        ("Sat, 14 Nov 2026 11:50:00 GMT", "warn", "+599 s against the hub's"),
        ("Sat, 14 Nov 2026 12:00:00 GMT", "ok", "agrees with the hub's"),
        ("Sat, 14 Nov 2026 11:59:59 GMT", "ok", "agrees with the hub's"),
        ("yesterday", "-", "the hub does not tell its time"),
    ],
)
def test_a_clock_that_is_off_is_said(door, monkeypatch, date, state, said):
    door.date = date
    monkeypatch.setattr(hub_probe.time, "time", lambda: 1794657600.0)  # 2026-11-14 12:00:00 UTC

    assert look(door)["clock"] == (state, said)


@pytest.mark.parametrize(
    ("date", "state", "said"),
    [
        ("Sat, 14 Nov 2026 12:00:00 GMT", "ok", "agrees with the hub's"),
        ("Sat, 14 Nov 2026 12:00:08 GMT", "ok", "agrees with the hub's"),
        ("Sat, 14 Nov 2026 12:00:10 GMT", "ok", "-2 s against the hub's"),
        ("Sat, 14 Nov 2026 12:00:11 GMT", "warn", "-3 s against the hub's"),
    ],
)
def test_an_answer_that_took_eight_seconds_is_no_clock_that_is_off(
    door, monkeypatch, date, state, said
):
    door.date = date
    times = iter([1794657600.0, 1794657608.0])
    monkeypatch.setattr(hub_probe.time, "time", lambda: next(times, 1794657608.0))

    assert look(door)["clock"] == (state, said)


def test_https_where_the_hub_speaks_http_is_told_apart(door):
    found = Hub(door.url.replace("http:", "https:"), GOOD).look()

    assert [(finding.name, finding.state) for finding in found] == [("hub", "no")]
    assert "does not speak TLS" in found[0].text
    assert found[0].text.endswith("is it http://?")
