"""How often a password may be guessed. Everybody waits for the own guesses: nobody locks a name out
for others.

An address has five tries at a name; then it waits a minute, two, four, up to a quarter of an hour.
While a name is guessed from many addresses, an address that was wrong once waits too, a second for
each guess beyond twenty in the hour. The first try from an address waits for nothing, and a browser
that the name logged in with before (devices.py) counts for itself, wherever it is.

Redis counts, so that of tries at the same moment each is counted; what it loses is forgotten.
"""

import hashlib
import time
from contextlib import suppress
from dataclasses import dataclass

from django.core.cache import cache

from fleetwatch.accounts.clients import network_of

FREE_TRIES = 5
FIRST_WAIT_S = 60
LONGEST_WAIT_S = 900
FREE_GUESSES = 20  # of a name in an hour, from anywhere
LONGEST_CROWD_WAIT_S = 300
WINDOW_S = 3600  # wrong tries count for an hour from the first on
IPV6_BITS = 64  # who has one address of such a network has them all


class TooManyTriesError(Exception):
    """Whoever this is has to wait before the next try at this name: `wait_s` seconds."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"wait {wait_s} s")
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Guess:
    """One try of a password for a name, by the names of what is counted of it."""

    tries: str
    gate: str
    guesses: str


def one_name(typed: str) -> str:
    """One name however it is written: none of its spellings has tries of its own."""
    return typed.strip().casefold()


def begin(name: str, address: str, *, device: str | None = None) -> Guess:
    """A try that counts as wrong until `succeed`.

    Raises TooManyTriesError; such a try is not counted.
    """
    guess = _guess(name, device or network_of(address, ipv4=32, ipv6=IPV6_BITS))
    tries = _counted(guess.tries)
    guesses = _counted(guess.guesses)
    wait = wait_s(tries, 0 if device else guesses)
    if wait and not cache.add(guess.gate, time.time() + wait, wait):
        _uncount(guess.tries)
        _uncount(guess.guesses)
        opens_at = cache.get(guess.gate, 0)
        raise TooManyTriesError(max(1, round(opens_at - time.time())))
    return guess


def succeed(guess: Guess) -> None:
    """The password was right: what this address or browser guessed wrong is forgotten."""
    cache.delete_many([guess.tries, guess.gate])
    _uncount(guess.guesses)


def wait_s(tries: int, guesses: int) -> int:
    """Seconds until the next try, after `tries` wrong ones from here and `guesses` from
    everywhere.
    """
    own = 0 if tries < FREE_TRIES else min(FIRST_WAIT_S * 2 ** (tries - FREE_TRIES), LONGEST_WAIT_S)
    crowd = min(max(0, guesses - FREE_GUESSES), LONGEST_CROWD_WAIT_S)
    return max(own, crowd)


def _guess(name: str, who: str) -> Guess:
    person = _digest(name)
    pair = _digest(f"{person} {who}")
    return Guess(f"login-tries-{pair}", f"login-gate-{pair}", f"login-guesses-{person}")


def _digest(text: str) -> str:
    """Names are typed by anybody, passwords among them by mistake: no cache key shows one."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _counted(key: str) -> int:
    cache.add(key, 0, WINDOW_S)
    try:
        return cache.incr(key)
    except ValueError:  # its hour ended in between
        cache.set(key, 1, WINDOW_S)
        return 1


def _uncount(key: str) -> None:
    with suppress(ValueError):  # its hour ended
        cache.decr(key)
