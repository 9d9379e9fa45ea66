"""JSON posted to an address, and what the answer means where a service says nothing else of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from fleetwatch.lib import outbound
from fleetwatch.notify.message import one_line
from fleetwatch.notify.transports.base import (
    MessageRefusedError,
    TransportError,
    reaching,
    retry_after_s,
)

TIMEOUT_S = 10
# What is posted to is gone, or may not be used. Redirects are not followed.
GONE = frozenset({301, 302, 303, 307, 308, 401, 403, 404, 405, 410})
REFUSED = frozenset({400, 413, 415, 422})  # this message, not this channel


@dataclass(frozen=True, slots=True)
class Service:
    """Whom we post to: the name that errors say, whether it may be in a private network, and how
    long it may take to answer.
    """

    name: str
    allow_private: bool
    timeout_s: float = TIMEOUT_S

    def post(
        self, url: str, content: Any, *, headers: Mapping[str, str] | None = None
    ) -> outbound.Answer:
        """What was answered to the content as JSON, whatever it means; bytes are JSON already.
        Raises TransportError where nothing was.
        """
        body = content if isinstance(content, bytes) else msgspec.json.encode(content)
        with reaching():
            return outbound.post(
                url,
                body=body,
                headers=headers,
                timeout_s=self.timeout_s,
                allow_private=self.allow_private,
            )

    def accepted(self, answer: outbound.Answer) -> str:
        """The answer in a few words. Raises TransportError for all but 2xx."""
        reply = f"{answer.status} {one_line(answer.text, 100)}".strip()
        if 200 <= answer.status < 300:
            return reply
        if answer.status in GONE:
            raise TransportError(
                f"{self.name} says {reply}: the address is gone or not allowed; enter another",
                permanent=True,
            )
        if answer.status in REFUSED:
            raise MessageRefusedError(f"{self.name} says {reply}: it does not take this message")
        raise TransportError(
            f"{self.name} says {reply}", retry_after_s=retry_after_s(answer.headers)
        )
