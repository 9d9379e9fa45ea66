"""Asks an LDAP directory who somebody is: the entry is searched for, then its DN is bound with the
typed password. https://www.rfc-editor.org/rfc/rfc4511

Nothing that was typed is believed: names are escaped, and an empty password never leaves here,
because servers take a bind without one as a bind of nobody, and say yes (RFC 4513, 5.1.2).
"""

import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import structlog
from ldap3 import ANONYMOUS, DEREF_NEVER, NONE, SIMPLE, SUBTREE, Connection, Server, Tls
from ldap3.core.exceptions import LDAPException
from ldap3.utils.dn import parse_dn

from fleetwatch.lib.ldap_directory import Directory, DirectoryError, Entry, NoServerError

TIMEOUT_S = 5  # of each step: people wait for it at the log-in
MAX_GROUPS = 1_000
SUCCESS = 0
SIZE_LIMIT = 4
# operationsError, busy, unavailable, other: of the server, not of the password
UNABLE = (1, 51, 52, 80)
MEMBER = "(|(member={dn})(uniqueMember={dn})(memberUid={name}))"

log = structlog.get_logger(__name__)


class _VerifiedTls(Tls):  # type: ignore[misc]
    """TLS as Python does it by default: ldap3's own does not look at the server's name by the rules
    of today.
    """

    def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
        context = ssl.create_default_context(cafile=self.ca_certs_file)
        connection.socket = context.wrap_socket(
            connection.socket, server_hostname=connection.server.host
        )


def enter(directory: Directory, name: str, password: str) -> Entry | None:
    """The entry of that name, where the password is its own.

    None for a wrong password, and for a name that nobody or more than one has. Raises
    DirectoryError.
    """
    if not name or not password:
        return None
    try:
        with _reader(directory) as (connection, url):
            row = _search(connection, directory, name)
            if row is None or not _opens(directory, url, row["dn"], password):
                return None
            return _entry(connection, directory, row)
    except (LDAPException, OSError) as error:
        raise DirectoryError(str(error)) from error


@contextmanager
def _reader(directory: Directory) -> Iterator[tuple[Any, str]]:
    """A connection that may search, to the first server that answers, and that server.

    Raises NoServerError where none does.
    """
    reasons = []
    for url in directory.urls:
        connection = _connection(directory, url, directory.bind_dn, directory.bind_password)
        try:
            _open(directory, connection)
            if connection.bind():
                break
            reasons.append(f"{url}: {connection.result['description']} (as {directory.bind_dn!r})")
            connection.unbind()
        except (LDAPException, OSError) as error:
            reasons.append(f"{url}: {error}")
    else:
        raise NoServerError("; ".join(reasons))
    try:
        yield connection, url
    finally:
        connection.unbind()


def _connection(directory: Directory, url: str, dn: str, password: str) -> Any:
    """Not opened yet; without a DN it is nobody's."""
    tls = _VerifiedTls(validate=ssl.CERT_REQUIRED, ca_certs_file=directory.ca_file or None)
    return Connection(
        Server(url, tls=tls, get_info=NONE, connect_timeout=TIMEOUT_S),
        user=dn or None,
        # as bytes: ldap3 would prepare a text, and of one of soft hyphens nothing would be left
        password=password.encode("utf-8", "surrogatepass") if dn else None,
        authentication=SIMPLE if dn else ANONYMOUS,
        receive_timeout=TIMEOUT_S,
        auto_referrals=False,
        read_only=True,
    )


def _open(directory: Directory, connection: Any) -> None:
    connection.open()
    if directory.starttls and not connection.server.ssl:
        connection.start_tls()


def _search(connection: Any, directory: Directory, name: str) -> Mapping[str, Any] | None:
    """The one entry that has the name; None for none, and for several.

    A directory is laxer about spelling than people are counted by
    (accounts/log_in/throttle.py): what it takes for the name too is not the name.
    """
    where = f"({directory.user_attribute}={_escaped(name)})"
    if directory.user_filter:
        where = f"(&{where}{directory.user_filter})"
    wanted = (directory.user_attribute, directory.unix_attribute, directory.mail_attribute)
    rows = _rows(connection, directory.user_base, where, {*wanted, "memberOf"}, limit=2)
    if len(rows) != 1:
        if rows:
            log.warning("several entries have one name", attribute=directory.user_attribute)
        return None
    names = _values(rows[0], directory.user_attribute)
    return rows[0] if name.casefold() in map(str.casefold, names) else None


def _escaped(text: str) -> str:
    """As a filter has any value: each byte by its number, so none is read as a sign of filters."""
    return "".join(f"\\{byte:02x}" for byte in text.encode("utf-8", "surrogatepass"))


def _rows(
    connection: Any, base: str, where: str, wanted: Iterable[str], limit: int
) -> list[Mapping[str, Any]]:
    """The entries below the base; raises DirectoryError where it can't be searched."""
    connection.search(
        base,
        where,
        search_scope=SUBTREE,
        dereference_aliases=DEREF_NEVER,
        attributes=list(wanted),
        size_limit=limit,
        time_limit=TIMEOUT_S,
    )
    result = connection.result
    if result["result"] not in (SUCCESS, SIZE_LIMIT):
        raise DirectoryError(f"{base!r} can't be searched: {result['description']}")
    return [row for row in connection.response if row["type"] == "searchResEntry" and row["dn"]]


def _values(row: Mapping[str, Any], attribute: str) -> list[str]:
    """What the entry says there; attributes have no case."""
    return [
        value.decode("utf-8", "replace")
        for key, values in row["raw_attributes"].items()
        if key.casefold() == attribute.casefold()
        for value in values
    ]


def _opens(directory: Directory, url: str, dn: str, password: str) -> bool:
    """Whether the password is the entry's; raises DirectoryError where the server can't say."""
    connection = _connection(directory, url, dn, password)
    _open(directory, connection)
    try:
        if connection.bind():
            return True
        result = connection.result
    finally:
        connection.unbind()
    if result["result"] in UNABLE:
        raise DirectoryError(f"{url}: {result['description']}")
    return False


def _entry(connection: Any, directory: Directory, row: Mapping[str, Any]) -> Entry:
    # sorted: of several values always the same one
    names, units, mails = (
        sorted(_values(row, attribute))
        for attribute in (
            directory.user_attribute,
            directory.unix_attribute,
            directory.mail_attribute,
        )
    )
    unix_name = units[0] if units else ""
    return Entry(
        dn=row["dn"],
        name=names[0],
        unix_name=unix_name,
        mail=mails[0] if mails else "",
        groups=frozenset(_groups(connection, directory, row, unix_name)),
    )


def _groups(
    connection: Any, directory: Directory, row: Mapping[str, Any], unix_name: str
) -> Iterator[str]:
    """The names of the groups that the entry is in, those of groups in groups not."""
    if not directory.group_base:
        for dn in _values(row, "memberOf"):
            yield parse_dn(dn)[0][1]
        return
    where = MEMBER.format(dn=_escaped(row["dn"]), name=_escaped(unix_name or row["dn"]))
    wanted = [directory.group_attribute]
    for group in _rows(connection, directory.group_base, where, wanted, MAX_GROUPS):
        yield from _values(group, directory.group_attribute)
