"""The way to a hub behind the proxies that the environment names: a module of its own, because
urllib is large and most hosts name none.
"""

import ssl
import urllib.error
import urllib.request
from typing import Any, Mapping, Optional

from agent.sending.connection import Answer, NoteDate, read_answer


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token goes nowhere but to the server it was given for."""

    def redirect_request(self, *_: object) -> None:
        return None


class ProxiedConnection:
    """As HubConnection, but a connection for each question."""

    def __init__(
        self, server: str, *, tls: ssl.SSLContext, timeout_s: float, note_date: NoteDate
    ) -> None:
        self._note_date = note_date
        self._server = server
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=tls), _NoRedirect
        )

    def ask(
        self, method: str, path: str, body: Optional[bytes], headers: Mapping[str, str]
    ) -> Answer:
        """As HubConnection.ask."""
        request = urllib.request.Request(
            self._server + path, data=body, headers=dict(headers), method=method
        )
        answer: Any  # an error is an answer too
        try:
            answer = self._opener.open(request, timeout=self._timeout_s)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            self._note_date(answer.headers.get("Date"))
            content = read_answer(answer, within_s=self._timeout_s)
            return Answer(answer.getcode(), answer.headers, content)
