"""Asks an LDAP directory who somebody is: the entry is searched for, then its DN is bound with the
typed password. https://www.rfc-editor.org/rfc/rfc4511

Nothing that was typed is believed: names are escaped, and an empty password never leaves here,
because servers take a bind without one as a bind of nobody, and say yes (RFC 4513, 5.1.2).
"""

import secrets
import ssl
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from ldap3 import ANONYMOUS, NONE, SIMPLE, Connection, Server, Tls
from ldap3.core.exceptions import LDAPException

from fleetwatch.lib.ldap.ldap_directory import Directory, DirectoryError, Entry, NoServerError
from fleetwatch.lib.ldap.ldap_groups import MEMBER_OF, groups_of
from fleetwatch.lib.ldap.ldap_search import Row, escaped, read_rows, values

TIMEOUT_S = 5  # of each step: people wait for it at the log-in
# operationsError, busy, unavailable, other: of the server, not of the password
UNABLE = (1, 51, 52, 80)

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

    None for a wrong password, and for a name that nobody or more than one has; that takes as many
    steps, so that how long they take tells no names. Raises DirectoryError.
    """
    if not name or not password:
        return None
    try:
        with _reader(directory) as (connection, url):
            row = _search(connection, directory, name)
            if row is None:
                nonce = secrets.token_hex(16)
                nobody = f"{directory.user_attribute}={nonce},{directory.user_base}"
                _opens(directory, url, nobody, nonce)
                return None
            if not _opens(directory, url, row["dn"], password):
                return None
            return _entry(connection, directory, row)
    except (LDAPException, OSError) as error:
        raise DirectoryError(str(error)) from error


def missing(directory: Directory, names: Collection[str]) -> set[str]:
    """Those of the names that no entry has.

    Raises DirectoryError where that is not believed: it does not answer, shows nobody at all, or
    none of several. Then it is asked wrongly, or who searches has lost the right to.
    """
    try:
        with _reader(directory) as (connection, _):
            is_empty = not _people(connection, directory, "*")
            absent = {name for name in names if not _people(connection, directory, escaped(name))}
    except (LDAPException, OSError) as error:
        raise DirectoryError(str(error)) from error
    if is_empty or (len(names) > 1 and absent == set(names)):
        raise DirectoryError(f"it shows none of {len(names)} people below {directory.user_base!r}")
    return absent


def _people(connection: Any, directory: Directory, value: str) -> list[Row]:
    """One whose name is that, as a filter says it, and one more where there are several."""
    where = f"({directory.user_attribute}={value})"
    if directory.user_filter:
        where = f"(&{where}{directory.user_filter})"
    wanted = (directory.user_attribute, directory.unix_attribute, directory.mail_attribute)
    return read_rows(connection, directory.user_base, where, {*wanted, MEMBER_OF}, limit=2)


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


def _search(connection: Any, directory: Directory, name: str) -> Row | None:
    """The one entry that has the name; None for none, and for several.

    A directory is laxer about spelling than people are counted by
    (accounts/log_in/throttle.py): what it takes for the name too is not the name.
    """
    rows = _people(connection, directory, escaped(name))
    if len(rows) != 1:
        if rows:
            log.warning("several entries have one name", attribute=directory.user_attribute)
        return None
    names = values(rows[0], directory.user_attribute)
    return rows[0] if name.casefold() in map(str.casefold, names) else None


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


def _entry(connection: Any, directory: Directory, row: Row) -> Entry:
    # sorted: of several values always the same one
    names, units, mails = (
        sorted(values(row, attribute))
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
        groups=groups_of(connection, directory, row, unix_name),
    )
