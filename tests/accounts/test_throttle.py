"""Guessing is slowed down, and nobody can lock a name out for others."""

from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest
import redis
from django.conf import settings as django_settings
from django.contrib.auth.hashers import MD5PasswordHasher
from django.core import signing
from django.core.cache import cache
from django.test import Client

from fleetwatch.accounts.log_in import throttle
from fleetwatch.accounts.models import User

LOGIN = "/accounts/login/"
RIGHT = "correct horse battery"


@pytest.fixture
def admin(db):
    return User.objects.create_user("admin", password=RIGHT)


def log_in(
    address: str,
    password: str,
    *,
    name: str = "admin",
    client: Client | None = None,
    **headers: str,
):
    return (client or Client()).post(
        LOGIN, {"login": name, "password": password}, REMOTE_ADDR=address, headers=headers
    )


def is_in(answer) -> bool:
    return "_auth_user_id" in answer.client.session


@pytest.mark.usefixtures("admin")
def test_an_address_that_guesses_is_refused_and_every_other_one_gets_in():
    guesses = [log_in("127.0.0.1", f"wrong {number}").status_code for number in range(14)]

    assert guesses[:5] == [200] * 5
    assert set(guesses[5:]) == {429}
    assert is_in(log_in("127.0.2.1", RIGHT))


@pytest.mark.usefixtures("admin")
def test_an_address_that_guessed_is_refused_with_the_right_password_too_and_told_how_long():
    for number in range(5):
        log_in("127.0.0.1", f"wrong {number}")

    refused = log_in("127.0.0.1", RIGHT)

    assert not is_in(refused)
    assert refused.status_code == 429
    assert 55 <= int(refused["Retry-After"]) <= 60
    assert f"try again in {refused['Retry-After']} seconds" in refused.content.decode()


@pytest.mark.usefixtures("admin")
def test_one_name_has_one_count_however_it_is_written():
    for number, name in enumerate(["admin", "Admin", " admin", "ADMIN", "admin "]):
        log_in("127.0.0.1", f"wrong {number}", name=name)

    assert log_in("127.0.0.1", RIGHT).status_code == 429


@pytest.mark.usefixtures("admin")
def test_an_address_that_tries_one_password_at_many_names_is_refused():
    guesses = [
        log_in("127.0.0.1", "Spring2026", name=f"user{number}").status_code for number in range(11)
    ]

    assert guesses == [200] * 10 + [429]


@pytest.mark.usefixtures("admin")
def test_addresses_that_a_stranger_claims_are_not_believed():
    guesses = [
        log_in("127.0.0.1", f"wrong {number}", X_Forwarded_For=f"10.0.0.{number}").status_code
        for number in range(8)
    ]

    assert guesses == [200] * 5 + [429] * 3


@pytest.mark.usefixtures("admin")
def test_behind_a_trusted_proxy_the_address_counts_that_the_proxy_saw(settings):
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    guesses = [
        log_in(
            "127.0.0.1", f"wrong {number}", X_Forwarded_For=f"10.0.0.{number}, 198.51.100.7"
        ).status_code
        for number in range(8)
    ]

    assert guesses == [200] * 5 + [429] * 3
    assert is_in(log_in("127.0.0.1", RIGHT, X_Forwarded_For="198.51.100.8"))


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize("forwarded", ["", "not an address", "10.0.0.1"])
def test_a_forwarded_header_that_does_not_fit_breaks_no_log_in(forwarded, settings):
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 2

    assert is_in(log_in("127.0.0.1", RIGHT, X_Forwarded_For=forwarded))


@pytest.mark.usefixtures("admin")
def test_a_name_that_many_addresses_guess_slows_each_down_and_shuts_nobody_out():
    for number in range(60):
        log_in(f"10.0.{number}.1", "wrong")

    assert is_in(log_in("192.0.2.1", RIGHT))
    again = [log_in("192.0.2.2", password).status_code for password in ("mistyped", RIGHT)]
    assert again == [200, 429]


@pytest.mark.usefixtures("admin")
def test_a_browser_that_was_in_before_gets_in_beside_somebody_who_guesses_from_the_same_address():
    browser = Client()
    log_in("127.0.0.1", RIGHT, client=browser)
    browser.post("/accounts/logout/")
    for number in range(30):
        log_in("127.0.0.1", f"wrong {number}")

    assert log_in("127.0.0.1", RIGHT).status_code == 429
    assert is_in(log_in("127.0.0.1", RIGHT, client=browser))


@pytest.mark.usefixtures("admin")
def test_a_known_browser_counts_its_own_guesses_and_is_known_for_its_name_alone():
    User.objects.create_user("ben", password=RIGHT)
    browser = Client()
    log_in("127.0.0.1", RIGHT, client=browser, name="ben")
    browser.post("/accounts/logout/")

    guesses = [
        log_in(f"10.0.0.{number}", f"wrong {number}", client=browser, name="ben").status_code
        for number in range(8)
    ]

    assert guesses == [200] * 5 + [429] * 3
    assert browser.cookies["fleetwatch_device"]["httponly"]
    assert browser.cookies["fleetwatch_device"]["samesite"] == "Lax"
    assert [
        log_in("127.0.0.9", f"wrong {number}", client=browser).status_code for number in range(7)
    ] == [200] * 5 + [429] * 2


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize("cookie", ["", "forged", "WyJhZG1pbiIsIngiXQ:1vMOKt:forged"])
def test_a_forged_cookie_is_no_known_browser(cookie):
    for number in range(5):
        log_in("127.0.0.1", f"wrong {number}")
    browser = Client()
    browser.cookies["fleetwatch_device"] = cookie

    assert log_in("127.0.0.1", RIGHT, client=browser).status_code == 429


@pytest.mark.usefixtures("admin")
@pytest.mark.parametrize(("is_older", "status"), [(True, 429), (False, 302)])
def test_a_cookie_that_an_older_key_signed_is_no_known_browser(is_older, status, settings):
    old, settings.SECRET_KEY = settings.SECRET_KEY, "the key of tomorrow, 32 characters long"
    settings.SECRET_KEY_FALLBACKS = [old]
    for number in range(5):
        log_in("127.0.0.1", f"wrong {number}")
    browser = Client()
    key = old if is_older else settings.SECRET_KEY
    browser.cookies["fleetwatch_device"] = signing.dumps(
        ["admin", "id"], key=key, salt="fleetwatch_device"
    )

    assert log_in("127.0.0.1", RIGHT, client=browser).status_code == status


class CountingHasher(MD5PasswordHasher):
    """Notes each password that it hashes."""

    hashed: ClassVar[list[str]] = []

    def encode(self, password, salt):
        self.hashed.append(password)
        return super().encode(password, salt)


@pytest.mark.parametrize("name", ["admin", "nobody"])
def test_a_wrong_password_is_hashed_once(name, settings, admin, monkeypatch):
    monkeypatch.setattr(CountingHasher, "hashed", [])
    settings.PASSWORD_HASHERS = [f"{__name__}.CountingHasher"]

    log_in("127.0.0.1", "wrong", name=name)

    assert CountingHasher.hashed == ["wrong"]


@pytest.mark.parametrize(
    ("tries", "guesses", "wait_s"),
    [
        (1, 1, 0),
        (4, 4, 0),
        (5, 5, 60),
        (6, 6, 120),
        (8, 8, 480),
        (9, 9, 900),
        (10_000, 0, 900),
        (1, 20, 0),
        (1, 21, 1),
        (1, 320, 300),
        (1, 1_000_000, 300),
        (5, 100, 80),
    ],
)
def test_waits_grow_fast_with_ones_own_guesses_and_slowly_with_those_of_others(
    tries, guesses, wait_s
):
    assert throttle.wait_s(tries, guesses) == wait_s


def begun(address: str) -> bool:
    try:
        throttle.begin("admin", address)
    except throttle.TooManyTriesError:
        return False
    return True


def test_of_forty_tries_at_the_same_moment_five_reach_the_password():
    with ThreadPoolExecutor(max_workers=40) as pool:
        reached = list(pool.map(begun, ["127.0.0.1"] * 40))

    assert reached.count(True) == 5


@pytest.mark.parametrize(
    ("address", "is_reached"), [("2001:db8:0:1:ffff::2", False), ("2001:db8:0:2::1", True)]
)
def test_an_ipv6_network_of_one_owner_is_one_address(address, is_reached):
    for host in range(5):
        throttle.begin("admin", f"2001:db8:0:1::{host:x}")

    assert begun(address) is is_reached


def test_a_right_password_forgets_what_was_mistyped_from_there():
    for _ in range(4):
        throttle.begin("admin", "127.0.0.1")
    throttle.succeed(throttle.begin("admin", "127.0.0.1"))

    assert [begun("127.0.0.1") for _ in range(7)] == [True] * 5 + [False] * 2


def test_a_gate_opens_after_its_wait_and_a_count_ends_after_an_hour():
    for _ in range(5):
        guess = throttle.begin("admin", "127.0.0.1")
    server = redis.Redis.from_url(django_settings.REDIS_URL)

    assert 55 <= server.ttl(cache.make_key(guess.gate)) <= 60
    assert 3590 <= server.ttl(cache.make_key(guess.tries)) <= 3600
    assert 3590 <= server.ttl(cache.make_key(guess.guesses)) <= 3600
