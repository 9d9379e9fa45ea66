"""An enrolment token becomes this node's own token: exchanged at the first refusal, kept in the
agent's folder.

The token of the install line lets many nodes in; the hub takes batches only with a token that
speaks for one.
"""

import hashlib
import json
import logging
from pathlib import Path
from typing import Mapping

from agent.config import Config, token_in
from agent.errors import ConfigError
from agent.json_parts import object_of
from agent.sending.sender import Outcome, Sender
from agent.sending.store import write_safely

log = logging.getLogger("agent.sending.enrolment")


class EnrollingSender:
    """A Sender that enrols when the hub refuses the given token as an agent's.

    The token that it was exchanged for is kept in the spool's folder. One that was exchanged and
    then revoked is not exchanged again: that takes a new one from the hub's settings. `may_enrol`
    is False where the sender is no node, as an import: an exchange would make one.
    """

    def __init__(self, chosen: Config, *, may_enrol: bool = True) -> None:
        self._chosen = chosen
        self._may_enrol = may_enrol
        self._file = _file(chosen)
        self._kept = _read(self._file)
        self._take(chosen.token)

    @property
    def token(self) -> str:
        """What batches are sent with: the node's own token where the given one was exchanged."""
        return self._kept["token"] if self._is_enrolled else self._given

    def send(self, payload: bytes) -> Outcome:
        """As Sender.send."""
        outcome = self._sender.send(payload)
        if outcome.is_token_refused and self._is_token_new():
            outcome = self._sender.send(payload)
        if outcome.status != 401 or self._is_enrolled or not self._may_enrol:
            return outcome
        token = self._sender.enroll(self._chosen.node, earlier=self._kept.get("token"))
        if token is None:
            return outcome
        self._kept = {"given": _digest(self._given), "token": token}
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_safely(self._file, json.dumps(self._kept).encode(), mode=0o600)
        # it serves this process all the same: the hub gives no second one
        except OSError as error:
            log.error(
                "the node's own token can't be kept: after a restart it must be revoked and"
                " enrolled anew: %s",
                error,
            )
        self._take(self._given)
        return self._sender.send(payload)

    def _take(self, given: str) -> None:
        """Speaks with this given token from now on, or with what it was exchanged for."""
        self._given = given
        self._is_enrolled = self._kept.get("given") == _digest(given)
        self._sender = Sender(self._chosen.server, self.token, ca_file=self._chosen.ca_file)

    def _is_token_new(self) -> bool:
        """True when the file holds another token by now, which is taken then."""
        file = self._chosen.token_file
        if file is None:
            return False
        try:
            token = token_in(file)
        except ConfigError as error:
            log.warning("%s", error)
            return False
        if token == self._given:
            return False
        log.info("a new token is taken file=%s", file)
        self._take(token)
        return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _file(chosen: Config) -> Path:
    """One file for each node on each hub: a replay for another node leaves this host's alone."""
    name = _digest("%s %s" % (chosen.server.rstrip("/"), chosen.node))[:16]
    return chosen.spool / ("enrolled-%s.json" % name)


def _read(path: Path) -> Mapping[str, str]:
    """What an earlier exchange left; empty when there was none or it can't be read."""
    try:
        kept = object_of(path.read_bytes())
    except OSError:
        return {}
    is_whole = all(isinstance(kept.get(name), str) for name in ("token", "given"))
    return kept if is_whole else {}
