"""Who a request comes from, as far as it shows without a question to the database: somebody known,
or an address.
"""

from collections import OrderedDict
from collections.abc import Mapping
from http import HTTPStatus

from fleetwatch.accounts.log_in import devices
from fleetwatch.accounts.services import digest
from fleetwatch.front.thread_lanes import Sender
from fleetwatch.lib.addresses import site_of

Headers = Mapping[bytes, bytes]

# What is answered with a success at these addresses is answered to who has a token or a session.
ANSWERED_TO_KNOWN = ("/api/", "/metrics")
MOST_TOKENS = 1024


def stranger(address: str) -> Sender:
    """Whoever has the address, and beside it the network in which it could have others."""
    return site_of(address), address


class KnownSenders:
    """Browsers that somebody logged in with, by the cookie that we signed, and tokens that had an
    answer lately.

    That is no permission: it says who waits beside whom, and what it was given for may have been
    taken back since.
    """

    def __init__(self) -> None:
        self._tokens: OrderedDict[str, None] = OrderedDict()

    def sender(self, headers: Headers) -> Sender | None:
        """Who it is; None for strangers."""
        token = _token(headers)
        if token in self._tokens:
            return (("token", token),)
        name = devices.name_of(headers.get(b"cookie", b"").decode("latin-1"))
        return None if name is None else (("name", name),)

    def note(self, headers: Headers, *, path: str, status: int) -> None:
        """Remembers the token, where the answer shows that it is one."""
        token = _token(headers)
        if token is None or status != HTTPStatus.OK or not path.startswith(ANSWERED_TO_KNOWN):
            return
        self._tokens[token] = None
        self._tokens.move_to_end(token)
        if len(self._tokens) > MOST_TOKENS:
            self._tokens.popitem(last=False)


def _token(headers: Headers) -> str | None:
    """The Authorization header's digest: what is kept opens nothing."""
    authorization = headers.get(b"authorization")
    return None if authorization is None else digest(authorization.decode("latin-1"))
