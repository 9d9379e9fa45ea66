"""`fleetwatch login` and `logout`: a token of one's own without a password at the shell."""

import socket
import sys
import time
from argparse import Namespace
from typing import Any
from urllib.parse import urlsplit

from cli.cli_errors import CommandError
from cli.hub_client import Hub, checked
from cli.own_tokens import read_tokens, write_tokens
from cli.terminal_text import clean, paint

SLOWER_S = 5  # RFC 8628, section 3.5
OURS = ("127.0.0.1", "localhost", "::1")


def login(asked: Namespace) -> None:
    """Shows a code, and waits until a person confirmed it in a browser. Raises CommandError."""
    hub = Hub(checked(asked.server))
    _warn_of_clear_text(hub.address)
    status, begun = hub.post("/device/code", {"host": socket.gethostname()})
    if status != 200 or not isinstance(begun, dict) or "device_code" not in begun:
        raise CommandError(_why(hub, status))
    print("Open   %s" % paint(clean(begun["verification_uri_complete"]), "bold"))
    print("and confirm the code %s there." % paint(clean(begun["user_code"]), "bold"))
    sys.stdout.flush()
    token = _wait(hub, begun)
    path = write_tokens({**read_tokens(asked.environment), hub.address: token}, asked.environment)
    print("Logged in. The token is in %s; `fleetwatch logout` ends it." % path)


def _warn_of_clear_text(address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme == "http" and parts.hostname not in OURS:
        print("fleetwatch: %s is not https: others can read the token" % address, file=sys.stderr)


def _why(hub: Hub, status: int) -> str:
    if status == 429:
        return "too many log-ins wait from here: try again in a minute"
    if status == 404:
        return "%s has no log-in for command lines: set FLEETWATCH_TOKEN" % hub.address
    return "%s can't begin a log-in: it answered %d" % (hub.address, status)


def _wait(hub: Hub, begun: Any) -> str:
    """The token. Raises CommandError where it was refused, or nobody confirmed in time."""
    interval = float(begun.get("interval", SLOWER_S))
    until = time.monotonic() + float(begun["expires_in"])
    while time.monotonic() < until:
        time.sleep(interval)
        status, answer = hub.post("/device/token", {"device_code": begun["device_code"]})
        answer = answer if isinstance(answer, dict) else {}
        if status == 200 and answer.get("access_token"):
            return str(answer["access_token"])
        error = answer.get("error")
        if error == "access_denied":
            raise CommandError("it was refused in the browser")
        if error == "expired_token":
            break
        if error == "slow_down" or status in (429, 503):
            interval += SLOWER_S
    raise CommandError("nobody confirmed the code in time: begin again")


def logout(asked: Namespace) -> None:
    """Ends the token at the hub, and forgets it here. Raises CommandError."""
    address = checked(asked.server)
    tokens = read_tokens(asked.environment)
    token = tokens.pop(address, None)
    if token is None:
        print("Nobody is logged in to %s." % address)
        return
    status, _ = Hub(address).post("/device/end", {"token": token})
    if status not in (200, 401):
        raise CommandError("%s did not end the token: it answered %d" % (address, status))
    write_tokens(tokens, asked.environment)
    print("Logged out of %s: the token is ended." % address)
