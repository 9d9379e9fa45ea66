"""An enrolment token becomes this node's own token: exchanged at the first refusal, kept in the
agent's folder.

The token of the install line lets many nodes in; the hub takes batches only with a token that
speaks for one.
"""

import hashlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional

from agent.config import ConfigError, token_in
from agent.sender import Outcome, Sender

log = logging.getLogger("agent.enrolment")


@dataclass(frozen=True)
class Access:
    """Where batches go, as which node, with which given token; `folder` keeps the token that it was
    exchanged for.

    `token_file` is where the given token came from, if it came from a file: an operator may put
    another there.
    """

    server: str
    node: str
    token: str
    folder: Path
    ca_file: Optional[str] = None
    token_file: Optional[Path] = None


class EnrollingSender:
    """A Sender that enrols when the hub refuses the given token as an agent's.

    A token that was exchanged and then revoked is not exchanged again: that takes a new one from
    the hub's settings. `may_enrol` is False where the sender is no node, as an import: an exchange
    would make one.
    """

    def __init__(self, access: Access, *, may_enrol: bool = True) -> None:
        self._access = access
        self._may_enrol = may_enrol
        self._kept = _read(_file(access))
        self._token = access.token
        self._is_enrolled = False
        self._sender = self._with(access.token)
        self._take(access.token)

    @property
    def token(self) -> str:
        """What batches are sent with: the node's own token where the given one was exchanged."""
        return self._kept["token"] if self._is_enrolled else self._token

    def send(self, payload: bytes) -> Outcome:
        """As Sender.send."""
        outcome = self._sender.send(payload)
        if outcome.is_token_refused and self._is_token_new():
            outcome = self._sender.send(payload)
        if outcome.status != 401 or self._is_enrolled or not self._may_enrol:
            return outcome
        token = self._exchange()
        if token is None:
            return outcome
        self._kept = {"given": _digest(self._token), "token": token}
        self._is_enrolled = True
        self._sender = self._with(token)
        self._keep()
        return self._sender.send(payload)

    def _take(self, token: str) -> None:
        """Speaks with this given token from now on, or with what it was exchanged for."""
        self._token = token
        self._is_enrolled = self._kept.get("given") == _digest(token)
        self._sender = self._with(self._kept["token"] if self._is_enrolled else token)

    def _is_token_new(self) -> bool:
        """True when the file holds another token by now, which is taken then."""
        if self._access.token_file is None:
            return False
        try:
            token = token_in(self._access.token_file)
        except ConfigError as error:
            log.warning("%s", error)
            return False
        if token == self._token:
            return False
        log.info("a new token is taken file=%s", self._access.token_file)
        self._take(token)
        return True

    def _exchange(self) -> Optional[str]:
        """The node's own token; the one of an earlier exchange where the hub says that the node has
        one; else None.
        """
        status, answer = self._sender.enroll(self._access.node)
        if status == 409:
            return self._kept.get("token")
        token = answer.get("token")
        return token if status == 201 and isinstance(token, str) else None

    def _keep(self) -> None:
        """A token that can't be kept serves this process all the same: the hub gives no
        second one.
        """
        try:
            _write(_file(self._access), self._kept)
        except OSError as error:
            log.error(
                "the node's own token can't be kept: after a restart it must be revoked and"
                " enrolled anew: %s",
                error,
            )

    def _with(self, token: str) -> Sender:
        return Sender(self._access.server, token, ca_file=self._access.ca_file)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _file(access: Access) -> Path:
    """One file for each node on each hub: a replay for another node leaves this host's alone."""
    return access.folder / (
        "enrolled-%s.json" % _digest("%s %s" % (access.server.rstrip("/"), access.node))[:16]
    )


def _read(path: Path) -> Mapping[str, str]:
    """What an earlier exchange left; empty when there was none or it can't be read."""
    try:
        kept = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    is_whole = (
        isinstance(kept, dict)
        and isinstance(kept.get("token"), str)
        and isinstance(kept.get("given"), str)
    )
    return kept if is_whole else {}


def _write(path: Path, content: Mapping[str, str]) -> None:
    """Readable by its owner only, and there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(
        os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
