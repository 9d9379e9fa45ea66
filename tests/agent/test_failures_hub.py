"""What the hub and the network do to the agent; the list is in test_failures."""

import contextlib
import gzip
import itertools
import socket
import ssl
import subprocess
import threading
import time

import pytest

from agent import wire
from agent.sending.payloads import batch_of
from agent.sending.sender import TIMEOUT_S, Outcome, Pump, Sender, Verdict
from agent.sending.spool import Identity, Spool
from agent.sending.store import Entry
from tests.agent.daemon import ACCEPTED, Daemon
from tests.agent.factories import START, enrolling, mapping

PAYLOAD = wire.compress(wire.encode(wire.parse(mapping())))


def test_a_hub_that_is_down_for_a_day_costs_nothing_and_is_asked_with_patience(tmp_path):
    now, asked, arrived = [0.0], [], []

    def send(payload):
        if now[0] < 86_400:
            asked.append(now[0])
            return Outcome(Verdict.RETRY, "the hub can't be reached")
        arrived.append(batch_of(payload))
        return ACCEPTED

    with_day = Daemon(tmp_path, send=send, flush_s=300)
    next_call = 0.0
    for second in range(10, 86_410, 10):
        with_day.loop.close(START + second * 1000, now_ms=START + second * 1000)
        now[0] = float(second)
        while next_call is not None and next_call <= now[0]:
            delay = with_day.pump.step()
            next_call = now[0] if delay is None else max(now[0], next_call) + delay
            if delay is None:
                break
    with_day.loop.flush()
    with_day.pump.drain(deadline=time.monotonic() + 60)

    host_starts = [one.sequence for one in arrived]
    assert host_starts == list(range(288))  # 86,400 s in batches of 300 s
    assert with_day.spool.waiting == 0
    gaps = [later - earlier for earlier, later in itertools.pairwise(asked[10:])]
    assert 20 <= min(gaps) <= max(gaps) <= 70  # half a minute to a minute apart, at steps of 10 s
    with_day.spool.close()


def test_a_hub_that_answers_within_its_time_is_waited_for():
    assert TIMEOUT_S > 20


@pytest.fixture
def raw_hub():
    """A server that answers each connection as told: with bytes, one by one where there are
    pauses.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    said = {"answer": b"", "pause_s": 0.0}

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                try:
                    for byte in (
                        [said["answer"]]
                        if not said["pause_s"]
                        else [bytes([one]) for one in said["answer"]]
                    ):
                        time.sleep(said["pause_s"])
                        connection.sendall(byte)
                except OSError:
                    continue

    threading.Thread(target=serve, daemon=True).start()
    said["url"] = "http://127.0.0.1:%d" % listener.getsockname()[1]
    yield said
    listener.close()


def test_a_hub_that_answers_too_late_keeps_the_batch_here(raw_hub):
    raw_hub.update(answer=b"HTTP/1.1 200 OK\r\n\r\n", pause_s=0.2)

    outcome = Sender(raw_hub["url"], "t", timeout_s=0.05).send(PAYLOAD)

    assert outcome.verdict is Verdict.RETRY
    assert outcome.text.endswith("can't be reached: timed out")


def test_a_hub_that_drips_its_answer_does_not_hold_the_agent(raw_hub):
    raw_hub.update(answer=b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 5000, pause_s=0.002)
    began = time.monotonic()

    outcome = Sender(raw_hub["url"], "t", timeout_s=0.1).send(PAYLOAD)

    assert outcome.verdict is Verdict.RETRY
    assert time.monotonic() - began < 3  # the whole answer would take ten


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x00\xff" * 500,
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 30_000,
        b'HTTP/1.1 200 OK\r\n\r\n{"stored": ' + b"9" * 10_000 + b"}",
        b"HTTP/1.1 503 No\r\nRetry-After: \xb2\r\n\r\n",
        b"HTTP/1.1 429 No\r\nRetry-After: Sat, 99 Nov 99999 99:99:99 GMT\r\n\r\n",
        b"HTTP/1.1 500 No\r\n\r\n" + b'{"error": "' + b"\\u001b[31m\\n" * 3000 + b'"}',
    ],
)
def test_an_answer_that_is_garbage_keeps_the_batch_and_is_one_short_line(raw_hub, answer):
    raw_hub["answer"] = answer

    outcome = Sender(raw_hub["url"], "t", timeout_s=2).send(PAYLOAD)

    assert outcome.verdict is Verdict.RETRY
    assert outcome.text.isprintable()
    assert len(outcome.text) < 350


def test_poison_is_kept_where_an_operator_finds_it_and_is_not_hoarded(hub, tmp_path, caplog):
    hub.answers = [(422, {}, {"error": "no"})] * 120
    spool = Spool(tmp_path, identity=lambda _: Identity("boot", START))
    for _ in range(120):
        spool.append(lambda sequence: Entry(sequence, 1, PAYLOAD))
    pump = Pump(spool, Sender(hub.url, "t").send, flush_s=30)

    while pump.step() is not None:
        pass

    assert len(list((tmp_path / "set-aside").iterdir())) == 100
    assert "file=%s" % (tmp_path / "set-aside" / "119-422.json.gz") in caplog.text
    assert spool.dropped_windows == 120
    spool.close()


def test_a_batch_too_large_and_damaged_is_set_aside_and_the_pump_goes_on(hub, tmp_path):
    hub.answers = [(413, {}, {"error": "too large"})]
    spool = Spool(tmp_path, identity=lambda _: Identity("boot", START))
    spool.append(lambda sequence: Entry(sequence, 1, gzip.compress(b"no JSON")))
    spool.append(lambda sequence: Entry(sequence, 1, PAYLOAD))
    pump = Pump(spool, Sender(hub.url, "t").send, flush_s=30)

    while pump.step() is not None:
        pass

    assert len(hub.batches) == 1
    spool.close()


@pytest.mark.parametrize("status", [401, 403])
def test_a_new_token_in_its_file_ends_a_refusal_without_a_restart(hub, tmp_path, status):
    file = tmp_path / "token"
    file.write_text("fw_old\n")
    sender = enrolling(hub, tmp_path, token="fw_old", token_file=file)
    refused = (status, {}, {"error": "revoked"})
    # an enrolment is tried once after a 401
    hub.answers = [refused, refused] if status == 401 else [refused]
    assert sender.send(PAYLOAD).is_token_refused

    file.write_text("fw_new\n")
    hub.answers = [refused]
    outcome = sender.send(PAYLOAD)

    assert outcome.verdict is Verdict.ACCEPTED
    assert hub.requests[-1][1]["Authorization"] == "Bearer fw_new"


@pytest.mark.parametrize("content", [None, "", "no token\n", "x" * 513])
def test_a_token_file_that_holds_none_changes_nothing(hub, tmp_path, content):
    file = tmp_path / "token"
    sender = enrolling(hub, tmp_path, token="fw_old", token_file=file)
    if content is not None:
        file.write_text(content)
    hub.answers = [(403, {}, {"error": "no"})]

    assert sender.send(PAYLOAD).is_token_refused
    assert len(hub.requests) == 1


def test_a_node_token_that_can_not_be_kept_still_serves(hub, tmp_path, caplog):
    (tmp_path / "state").write_text("a file where the folder should be")
    sender = enrolling(hub, tmp_path, token="fw_enrol")
    hub.answers = [(401, {}, {}), (201, {}, {"node": "gpu-07", "token": "fw_own"})]

    assert sender.send(PAYLOAD).verdict is Verdict.ACCEPTED
    assert sender.send(PAYLOAD).verdict is Verdict.ACCEPTED
    assert "can't be kept" in caplog.text
    assert "fw_own" not in caplog.text


@pytest.fixture
def tls_hub(tmp_path):
    """(address, file of its certificate) of a hub that nobody vouches for."""
    made = (
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=hub",
    )
    files = (
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        tmp_path / "key.pem",
        "-out",
        tmp_path / "cert.pem",
    )
    subprocess.run([*made, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    listener = context.wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True)

    def answer(connection):
        # the whole of it: closing over unread bytes resets the connection, and the answer with it
        with connection, connection.makefile("rb") as request:
            headers = dict(
                line.split(b": ", 1) for line in iter(request.readline, b"\r\n") if b": " in line
            )
            request.read(int(headers.get(b"Content-Length", 0)))
            connection.sendall(b'HTTP/1.1 200 OK\r\n\r\n{"stored": 1}')

    def serve():
        with contextlib.suppress(OSError):
            for _ in range(2):  # its clock is asked before
                answer(listener.accept()[0])

    threading.Thread(target=serve, daemon=True).start()
    yield "https://127.0.0.1:%d" % listener.getsockname()[1], str(tmp_path / "cert.pem")
    listener.close()


def test_a_certificate_that_nobody_vouches_for_is_one_clear_line(tls_hub):
    url, _ = tls_hub

    outcome = Sender(url, "t").send(PAYLOAD)

    assert outcome.verdict is Verdict.RETRY
    assert (
        outcome.text
        == "the hub at %s/api/v1/batches has a certificate that is not trusted (self-signed"
        " certificate); its authority can be given as --ca-file" % url
    )


def test_a_certificate_that_is_given_is_trusted(tls_hub):
    url, certificate = tls_hub

    assert Sender(url, "t", ca_file=certificate).send(PAYLOAD).verdict is Verdict.ACCEPTED
