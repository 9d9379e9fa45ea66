"""People beside strangers: who is known is served by threads of their own, and passwords by one
that no page waits for.
"""

import re
import socket
import threading
from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from fleetwatch.accounts.log_in import devices
from fleetwatch.accounts.models import User
from fleetwatch.accounts.services import create_api_token
from fleetwatch.front import senders
from fleetwatch.front.database import conninfo
from fleetwatch.ingest.tokens import create_agent_token
from fleetwatch.lib import cache as cache_module
from tests.front.serving import Answer, Server, head, many

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("plain_static_files"),
]

RIGHT = "correct horse battery"
LARGE = 2_300_000
LOGIN = "/accounts/login/"


@pytest.fixture
def server():
    cache.clear()
    with Server() as running:
        yield running


@pytest.fixture
def ada():
    return User.objects.create_user("ada", password=RIGHT)


def session_of(user):
    client = Client()
    client.force_login(user)
    return f"sessionid={client.cookies['sessionid'].value}"


@contextmanager
def held(table):
    """Whoever reads the table waits."""
    with psycopg.connect(conninfo()) as other:
        other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield
        other.rollback()


def form(*, length, **headers):
    return head(
        "POST",
        "/pricing/import",
        content_length=str(length),
        content_type="application/x-www-form-urlencoded",
        **headers,
    )


def sent(server, length=LARGE, **headers):
    with server.connect() as peer:
        peer.sendall(form(length=length, **headers) + b"x" * length)
        return Answer.of(peer)


def log_in_head(server):
    """The head and body of a log-in with a right form and a wrong password."""
    page = server.get(LOGIN)
    token = re.search(r"csrftoken=(\w+)", page.headers["set-cookie"])[1]
    body = b"login=ada&password=wrong"
    return body, {
        "cookie": f"csrftoken={token}",
        "x_csrftoken": token,
        "content_type": "application/x-www-form-urlencoded",
    }


def log_in(server, peer, password=b"wrong", **headers):
    _, given = log_in_head(server)
    body = b"login=ada&password=" + password.replace(b" ", b"+")
    peer.sendall(head("POST", LOGIN, content_length=str(len(body)), **{**given, **headers}) + body)


@contextmanager
def logging_in(server, count):
    """So many wrong passwords at once, each from an address of its own."""
    body, headers = log_in_head(server)
    with ExitStack() as stack:
        peers = [
            stack.enter_context(server.connect(address=f"127.0.{number}.2"))
            for number in range(1, count + 1)
        ]
        for peer in peers:
            peer.sendall(head("POST", LOGIN, content_length=str(len(body)), **headers) + body)
        yield peers


def test_a_live_session_and_a_token_may_send_a_large_body(server, ada):
    token = create_api_token(ada, scope="read", now=timezone.now())

    # read whole: the form has no token of ours
    assert sent(server, cookie=session_of(ada)).status == 403
    assert sent(server, authorization=f"Bearer {token}").status == 403


@pytest.mark.parametrize(
    "cookie", ["x=y", "sessionid=abcdefghijklmnopqrstuvwxyz012345", "sessionid="]
)
def test_any_other_cookie_may_not(server, cookie):
    refused = sent(server, cookie=cookie)

    assert refused.status == 413
    assert "who is logged in" in refused.json()["error"]
    assert server.front.held_bytes == 0


def test_a_body_without_a_length_is_a_strangers_too(server):
    with server.connect() as peer:
        peer.sendall(
            head("POST", "/pricing/import", cookie="x=y", transfer_encoding="chunked")
            + b"%x\r\n" % LARGE
            + b"x" * LARGE
        )

        assert Answer.of(peer).status == 413


def test_a_session_that_ended_may_not(server, ada):
    ended, of_who_left, of_before_the_change = (session_of(ada) for _ in range(3))
    Session.objects.get(session_key=ended.partition("=")[2]).delete()
    assert sent(server, cookie=ended).status == 413

    ada.set_password("another horse battery")
    ada.save()
    assert sent(server, cookie=of_before_the_change).status == 413

    User.objects.update(is_active=False)
    assert sent(server, cookie=of_who_left).status == 413


def test_what_one_user_may_have_under_way_is_bounded_and_others_send_theirs(server, ada):
    of_ada, of_ben = session_of(ada), session_of(User.objects.create_user("ben"))
    with many(8, server.connect) as peers:
        for peer in peers[:7]:
            # 16 MiB hold seven of them
            peer.sendall(form(length=8_000_000, cookie=of_ada) + b"x" * LARGE)
        server.wait_until(lambda: server.front.held_bytes == 7 * LARGE)
        peers[7].sendall(form(length=8_000_000, cookie=of_ada) + b"x" * LARGE)
        refused = Answer.of(peers[7])

        assert (refused.status, refused.headers["retry-after"]) == (503, "10")
        assert sent(server, 60_000, cookie=of_ada).status == 403
        assert sent(server, cookie=of_ben).status == 403

    server.wait_until(lambda: server.front.held_bytes == 0)


def test_wrong_passwords_that_wait_hold_up_no_page_and_the_right_one_is_next(server, ada):
    with ExitStack() as stack:
        with held("accounts_user"):
            stack.enter_context(logging_in(server, 30))

            assert [server.get(LOGIN).status for _ in range(5)] == [200] * 5
            assert server.get("/readyz").status in (200, 503)
            honest = stack.enter_context(server.connect(address="127.9.9.9"))
            log_in(server, honest, RIGHT.encode())
        answer = Answer.of(honest)

    assert (answer.status, answer.headers["location"]) == (302, "/")


def test_of_more_passwords_than_can_wait_the_rest_is_told_to_come_again(server):
    with held("accounts_user"), logging_in(server, 66) as peers:  # one is looked at, 64 wait
        refused = Answer.of(peers[65])

    assert (refused.status, refused.headers["retry-after"]) == (429, "5")
    assert b"Too many are waiting" in refused.body


def test_strangers_who_wait_hold_up_nobody_who_is_known(server, ada):
    bearer = f"Bearer {create_api_token(ada, scope='read', now=timezone.now())}"
    assert server.get("/api/v1/nodes", authorization=bearer).status == 200
    response = HttpResponse()
    devices.remember(response, "ada")
    browser = f"fleetwatch_device={response.cookies['fleetwatch_device'].value}"

    with held("django_session"), many(40, server.connect) as peers:
        for peer in peers:
            peer.sendall(head("GET", "/", cookie="sessionid=abcdefghijklmnopqrstuvwxyz012345"))

        assert server.get(LOGIN, cookie=browser).status == 200
        assert server.get("/api/v1/nodes", authorization=bearer).status == 200


@pytest.mark.parametrize(
    "cookie",
    [
        "fleetwatch_device=forged",
        "fleetwatch_device=WyJhZG1pbiIsIngiXQ:1vMOKt:forged",
        "x=fleetwatch_device",
    ],
)
def test_a_forged_cookie_makes_nobody_known(cookie):
    assert senders.KnownSenders().sender({b"cookie": cookie.encode()}) is None


def test_a_token_that_was_refused_is_not_known():
    known = senders.KnownSenders()
    headers = {b"authorization": b"Bearer fw_nonsense"}
    known.note(headers, path="/api/v1/nodes", status=401)
    known.note(headers, path="/accounts/login/", status=200)
    assert known.sender(headers) is None

    known.note(headers, path="/api/v1/nodes", status=200)
    assert known.sender(headers) is not None


@contextmanager
def redis_at(settings, address):
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": f"unix://{address}"}}
    with Server() as server:
        yield server


def refused_log_in(server):
    with logging_in(server, 8) as peers:
        return [Answer.of(peer) for peer in peers]


@pytest.mark.parametrize("is_frozen", [True, False])
def test_without_redis_log_ins_are_told_so_and_all_else_goes_on(
    settings, tmp_path, monkeypatch, is_frozen
):
    monkeypatch.setattr(cache_module, "TIMEOUT_S", 0.2)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "redis.sock"))
        if is_frozen:
            silent.listen(64)  # connections are taken, and nothing is ever answered
        with redis_at(settings, tmp_path / "redis.sock") as server:
            at_once = refused_log_in(server)
            server.wait_until(lambda: server.front.cache.is_away)
            later = refused_log_in(server)

            assert server.get(LOGIN).status == 200
            assert server.get("/healthz").status == 200

    assert {answer.status for answer in at_once + later} == {503}
    assert {answer.headers["retry-after"] for answer in at_once + later} == {"10"}
    assert all(b"Redis does not answer" in answer.body for answer in at_once + later)


@pytest.mark.parametrize("path", ["/theme", "/api/v1/batches"])
def test_what_was_on_its_way_when_the_database_left_is_told_so(path):
    bearer = create_agent_token("n1", timezone.now())
    is_gone = threading.Event()

    def ask():
        if is_gone.is_set():
            raise ConnectionError

    with Server(ask_database=ask) as server, server.connect() as peer:
        peer.sendall(
            head(
                "POST",
                path,
                content_length="10",
                expect="100-continue",
                authorization=f"Bearer {bearer}",
            )
        )
        assert peer.recv(100).startswith(b"HTTP/1.1 100")
        is_gone.set()
        server.wait_until(lambda: server.front.database.is_away)
        peer.sendall(b"a" * 10)

        assert Answer.of(peer).status == 503


@pytest.mark.parametrize("charset", ["utf-7", "zlib_codec", "idna", "nonsense"])
@pytest.mark.parametrize("path", [LOGIN, "/api/v1/nodes", "/healthz"])
def test_what_is_not_utf_8_is_told_so(server, path, charset):
    with server.connect() as peer:
        peer.sendall(
            head(
                "POST",
                path,
                content_length="3",
                content_type=f"application/x-www-form-urlencoded; charset={charset}",
            )
            + b"a=b"
        )
        refused = Answer.of(peer)

    assert refused.status == 415
    assert "UTF-8" in refused.json()["error"]


def test_a_content_type_that_is_too_long_is_told_so_and_not_that_its_charset_is_wrong(server):
    refused = server.get(LOGIN, content_type="a" * 257)

    assert (refused.status, refused.json()["error"]) == (
        415,
        "send a Content-Type of at most 256 characters",
    )


@pytest.mark.parametrize(("length", "status"), [(256, 200), (257, 415)])
def test_a_content_type_is_short(server, length, status):
    content_type = 'text/plain; a="'

    assert (
        server.get(LOGIN, content_type=content_type + ";" * (length - len(content_type))).status
        == status
    )


def test_an_escaped_cookie_is_not_unescaped(server, ada):
    """Python before 3.11.10 takes seconds for 30,000 escapes."""
    key = session_of(ada).removeprefix("sessionid=")

    assert sent(server, cookie=f'sessionid="{key}"').status == 403  # read whole, as of somebody
    assert sent(server, cookie=f'sessionid="\\{ord(key[0]):03o}{key[1:]}"').status == 413


@pytest.fixture
def script(settings, tmp_path):
    """The address of a static file of the servers that are made after it."""
    (tmp_path / "a.js").write_bytes(b"x")
    settings.STATIC_ROOT = tmp_path
    return "/static/a.js"


def test_static_files_wait_for_no_database(script, server):
    with held("django_session"), ExitStack() as stack:
        for _ in range(4):
            peer = stack.enter_context(server.connect())
            peer.sendall(head("GET", "/", cookie="sessionid=abcdefghijklmnopqrstuvwxyz012345"))

        assert server.get(script).status == 200


def test_what_is_sent_to_a_static_file_is_no_question_for_one(script):
    def ask():
        raise ConnectionError

    with Server(ask_database=ask) as server, server.connect() as peer:
        server.wait_until(lambda: server.front.database.is_away)
        peer.sendall(head("POST", script, content_length="70000"))

        assert Answer.of(peer).status == 503
        assert server.get(script).status == 200


def test_a_charset_that_can_t_be_read_is_told_so_and_utf_8_is_read(server):
    assert server.get(LOGIN, content_type="text/plain; charset*=nonsense''x").status == 415
    assert server.get(LOGIN, content_type='text/plain; charset="UTF-8"').status == 200


@pytest.mark.parametrize(
    "key",
    [
        '"aaaaaaaaaaaaaaaa\\000b"',
        "abcdefghijklmnopqrstuvwxyz01234_",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345",
    ],
)
def test_a_key_that_no_session_can_have_is_none(server, key, capfd):
    answer = server.get("/", cookie=f"sessionid={key}")

    assert (answer.status, answer.headers["location"]) == (302, "/accounts/login/?next=/")
    assert "Traceback" not in capfd.readouterr().err
