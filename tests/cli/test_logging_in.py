"""From a code on a login node to a token that reads, and no further."""

import re
import stat
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.test import Client

from fleetwatch.accounts.log_in import waiting_logins
from fleetwatch.accounts.log_in.throttle import FREE_TRIES
from fleetwatch.accounts.models import ApiToken, AuditEntry, DeviceLogin, User
from tests.dashboard import factories

pytestmark = pytest.mark.usefixtures("plain_static_files")

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.mark.django_db(transaction=True)
def test_somebody_logs_in_by_a_code_reads_and_logs_out(shell):
    waits = shell.begin("login")
    shown = waits.stdout.readline() + waits.stdout.readline()
    code = re.search(r"code (\S+) there", shown)[1]
    assert f"{shell.hub}/device?code={code}" in shown
    browser = Client()
    browser.force_login(User.objects.get(username="ann"))
    page = browser.get("/device", {"code": code}).content.decode()
    assert ">ann</b>" in page
    browser.post("/device", {"code": code, "decision": "confirm", "days": "7"})
    printed, complained = waits.communicate(timeout=30)

    assert (waits.returncode, complained) == (0, "")
    assert "Logged in" in printed
    kept = shell.home / ".config/fleetwatch/tokens.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    token = ApiToken.objects.get()
    assert (token.user.username, token.scope) == ("ann", "read")
    assert token.expires_at - token.created_at == timedelta(days=7)
    assert not DeviceLogin.objects.exists()
    assert shell.run("me").returncode == 0
    kept.chmod(0o640)
    assert "others may read" in shell.run("me").stderr
    kept.chmod(0o600)
    assert "the token is ended" in shell.run("logout").stdout
    assert ApiToken.objects.get().revoked_at is not None
    assert shell.run("me").returncode == 3


@pytest.fixture
def ann(db):
    with time_machine.travel(NOW, tick=False):
        yield factories.user(username="ann", role="engineer")


@pytest.fixture
def login(ann):
    return waiting_logins.begin("login-01\x1b[2J", "192.0.2.7", NOW)


def ask(code: str, seconds: int) -> str:
    return waiting_logins.outcome(code, NOW + timedelta(seconds=seconds))


def test_a_code_is_no_token_until_somebody_confirmed_it_and_one_only_then(ann, login, client):
    bearer = {"Authorization": f"Bearer {login.device_code}"}
    before = client.get("/api/v1/me", headers=bearer).status_code
    waits = DeviceLogin.objects.get()
    pending = ask(login.device_code, 3)
    waiting_logins.confirm(waits.pk, ann, 30, NOW)

    assert (before, pending, ask(login.device_code, 6)) == (401, "authorization_pending", "")
    assert client.get("/api/v1/me", headers=bearer).json()["username"] == "ann"
    change = client.put("/api/v1/preferences", {}, "application/json", headers=bearer)
    assert change.status_code == 403
    with pytest.raises(ValueError, match="does not wait any more"):
        waiting_logins.confirm(waits.pk, ann, 30, NOW)
    entry = AuditEntry.objects.get(action="token.create")
    assert entry.detail["name"] == "command line on login-01[2J"
    assert login.device_code not in str(vars(entry))


def test_a_code_ends_after_ten_minutes_and_when_it_is_refused(ann, login):
    waits = DeviceLogin.objects.get()
    over = NOW + waiting_logins.TTL
    assert waiting_logins.waiting_login(login.user_code, ann, "", over) is None
    with pytest.raises(ValueError, match="does not wait any more"):
        waiting_logins.confirm(waits.pk, ann, 30, over)
    assert ask(login.device_code, 599) == "authorization_pending"
    assert ask(login.device_code, 600) == "expired_token"
    waiting_logins.refuse(waits.pk, ann, NOW)

    assert ask(login.device_code, 5) == "access_denied"
    with pytest.raises(ValueError, match="does not wait any more"):
        waiting_logins.confirm(waits.pk, ann, 30, NOW)
    assert not ApiToken.objects.exists()


def test_who_asks_too_often_is_told_and_who_left_gets_nothing(ann, login):
    answers = [ask(login.device_code, second) for second in (3, 4, 7)]
    waiting_logins.confirm(DeviceLogin.objects.get().pk, ann, 30, NOW)
    User.objects.update(is_active=False)

    assert answers == ["authorization_pending", "slow_down", "authorization_pending"]
    assert ask(login.device_code, 10) == "expired_token"


def test_so_many_wait_from_one_address_and_in_all(ann, monkeypatch):
    for _ in range(waiting_logins.MAX_OF_NETWORK):
        waiting_logins.begin("a", "192.0.2.7", NOW)
    with pytest.raises(waiting_logins.TooManyWaitError):
        waiting_logins.begin("a", "192.0.2.7", NOW)
    waiting_logins.begin("b", "192.0.2.8", NOW)
    monkeypatch.setattr(waiting_logins, "MAX_WAITING", waiting_logins.MAX_OF_NETWORK + 1)
    with pytest.raises(waiting_logins.TooManyWaitError):
        waiting_logins.begin("c", "192.0.2.9", NOW)

    waiting_logins.begin("a", "192.0.2.7", NOW + waiting_logins.TTL)  # the others are over
    assert DeviceLogin.objects.count() == 1


def test_a_stranger_sees_no_code_and_confirms_none(ann, login, client):
    typed = {"code": login.user_code, "decision": "confirm", "days": "30"}
    answers = [client.get("/device", typed), client.post("/device", typed)]

    assert [answer.status_code for answer in answers] == [302, 302]
    assert all(answer["Location"].startswith("/accounts/login/") for answer in answers)
    for path in ("/device/code", "/device/token", "/device/end"):
        for sent in (b"", b"[]", b'{"device_code": 7}', b"{" * 9000, b'{"device_code": "\\u0000"}'):
            answer = client.post(path, sent, content_type="application/json")
            assert answer.status_code in (200, 400, 401)
    assert not ApiToken.objects.exists()


def test_codes_are_guessed_no_faster_than_passwords(ann, login, client):
    client.force_login(ann)
    wrong = [
        client.get("/device", {"code": "BBBB-BBBB"}).status_code for _ in range(FREE_TRIES + 1)
    ]
    right = client.get("/device", {"code": login.user_code})

    assert wrong[:FREE_TRIES] == [422] * FREE_TRIES
    assert 429 in (wrong[-1], right.status_code)


def test_the_form_says_who_asks_and_refuses_other_days(ann, login, client):
    client.force_login(ann)
    typed = f" {login.user_code[:4].lower()} {login.user_code[4:].lower()}"
    with time_machine.travel(NOW, tick=False):
        page = client.get("/device", {"code": typed}).content.decode()
        odd = [
            client.post("/device", {"code": typed, "decision": "confirm", "days": days}).status_code
            for days in ("3650", "9" * 5000, "٧", "")
        ]

    told = " ".join(page.split())
    assert "<b>login-01[2J</b>, at 192.0.2.7 while you are at 127.0.0.1," in told
    assert "whoever else sent you this link or code would read as you" in told
    assert odd == [422] * 4
    assert not ApiToken.objects.exists()
