"""Questions to the hub: JSON over HTTP, with a deadline and a size, and errors in words."""

import json
import ssl
import urllib.error
import urllib.request
from typing import Any, Dict, Mapping, Optional, Tuple
from urllib.parse import quote, urlencode, urlsplit

from cli.cli_errors import BAD_ARGUMENTS, FAILED, NOT_LOGGED_IN, CommandError

TIMEOUT_S = 60
MAX_BYTES = 32 * 1024 * 1024
LOG_IN = "log in with `fleetwatch login`, or set FLEETWATCH_TOKEN to an API token (My jobs)"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token along, to wherever it leads."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Hub:
    """A hub at an address, asked with a token (None: as a stranger)."""

    def __init__(self, address: str, token: Optional[str] = None) -> None:
        self.address = checked(address)
        self._token = token
        self._opener = urllib.request.build_opener(_NoRedirect)

    def get(self, path: str, query: Optional[Mapping[str, Any]] = None) -> Any:
        """The answer to a question of the API. Raises CommandError."""
        named = {name: value for name, value in (query or {}).items() if value is not None}
        suffix = "?%s" % urlencode(named) if named else ""
        status, answer = self._ask("/api/v1/%s%s" % (quote(path), suffix), None)
        if status == 200:
            return answer
        raise self._refusal(status, answer)

    def seen(self, path: str, query: Mapping[str, Any]) -> Any:
        """As `get`; None for what the reader may not see. Raises CommandError."""
        status, answer = self._ask("/api/v1/%s?%s" % (path, urlencode(query)), None)
        if status == 404:
            return None
        if status == 200:
            return answer
        raise self._refusal(status, answer)

    def post(self, path: str, sent: Mapping[str, Any]) -> Tuple[int, Any]:
        """Status and answer, of 2xx and of 4xx. Raises CommandError where there is none."""
        return self._ask(path, json.dumps(sent).encode())

    def _ask(self, target: str, body: Optional[bytes]) -> Tuple[int, Any]:
        headers = {"Accept": "application/json", "User-Agent": "fleetwatch-cli"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token:
            headers["Authorization"] = "Bearer %s" % self._token
        try:
            request = urllib.request.Request(self.address + target, body, headers)
            with self._opener.open(request, timeout=TIMEOUT_S) as response:
                return response.status, self._read(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, self._read(error, is_error=True)
        except (ssl.SSLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise CommandError("%s does not answer: %s" % (self.address, reason)) from None

    def _read(self, response: Any, is_error: bool = False) -> Any:
        content = response.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise CommandError("the answer is larger than 32 MiB: ask for a shorter period")
        try:
            return json.loads(content)
        except ValueError:
            if is_error:
                return None
            raise CommandError(
                "%s answered, but not as FleetWatch does: is that the hub's address?" % self.address
            ) from None

    def _refusal(self, status: int, answer: Any) -> CommandError:
        facts: Dict[str, Any] = answer if isinstance(answer, dict) else {}
        if status == 401:
            refused = "%s does not take this token: %s" % (self.address, LOG_IN)
            return CommandError(refused, NOT_LOGGED_IN)
        if 300 <= status < 400:
            return CommandError(
                "%s sends elsewhere: name the hub's own address with --server" % self.address
            )
        reason = facts.get("error") or "it answered %d" % status
        field = " (%s)" % facts["field"] if facts.get("field") else ""
        is_asked_wrongly = status == 422
        return CommandError("%s%s" % (reason, field), BAD_ARGUMENTS if is_asked_wrongly else FAILED)


def checked(address: str) -> str:
    """The hub's address without a slash at its end. Raises CommandError for no address."""
    if not address:
        raise CommandError(
            "which hub? Say --server https://…, or set FLEETWATCH_SERVER", BAD_ARGUMENTS
        )
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise CommandError("%s is no address of a hub: https://HOST" % address, BAD_ARGUMENTS)
    return address.rstrip("/")


def logged_in(address: str, token: Optional[str]) -> Hub:
    """The hub, asked with the token. Raises CommandError without one."""
    if not token:
        raise CommandError("nobody is logged in to %s: %s" % (address, LOG_IN), NOT_LOGGED_IN)
    if not token.isascii() or not token.isprintable():
        raise CommandError("this is no API token", BAD_ARGUMENTS)
    return Hub(address, token)
