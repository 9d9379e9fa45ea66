"""Searches of an LDAP directory, over a connection that may, and what their entries say."""

from collections.abc import Iterable, Mapping
from typing import Any

from ldap3 import BASE, DEREF_NEVER, SUBTREE

from fleetwatch.lib.ldap.ldap_directory import DirectoryError

# less than an answer is waited for: a server that takes longer says so itself
LONGEST_S = 4
SUCCESS = 0
SIZE_LIMIT = 4
UNREADABLE = (32, 50)  # noSuchObject, insufficientAccessRights

Row = Mapping[str, Any]


def escaped(text: str) -> str:
    """As a filter has any value: each byte by its number, so none is read as a sign of filters."""
    return "".join(f"\\{byte:02x}" for byte in text.encode("utf-8", "surrogatepass"))


def read_rows(
    connection: Any, base: str, where: str, wanted: Iterable[str], limit: int
) -> list[Row]:
    """The entries below the base; raises DirectoryError where it can't be searched."""
    connection.search(
        base,
        where,
        search_scope=SUBTREE,
        dereference_aliases=DEREF_NEVER,
        attributes=list(wanted),
        size_limit=limit,
        time_limit=LONGEST_S,
    )
    _check(connection, base, (SUCCESS, SIZE_LIMIT))
    return [row for row in _entries(connection) if row["dn"]]


def read_entry(connection: Any, dn: str, wanted: Iterable[str]) -> Row | None:
    """The entry of that DN, "" is the server's own; None where there is none to be read.

    Raises DirectoryError where the server can't say.
    """
    connection.search(
        dn,
        "(objectClass=*)",
        search_scope=BASE,
        dereference_aliases=DEREF_NEVER,
        attributes=list(wanted),
        time_limit=LONGEST_S,
    )
    _check(connection, dn, (SUCCESS, *UNREADABLE))
    return next(iter(_entries(connection)), None)


def _check(connection: Any, base: str, allowed: tuple[int, ...]) -> None:
    result = connection.result
    if result["result"] not in allowed:
        raise DirectoryError(f"{base!r} can't be searched: {result['description']}")


def _entries(connection: Any) -> list[Row]:
    """Without what is said of other servers."""
    return [row for row in connection.response or () if row["type"] == "searchResEntry"]


def values(row: Row, attribute: str) -> list[str]:
    """What the entry says there; attributes have no case."""
    return [
        value.decode("utf-8", "replace")
        for key, raw in row["raw_attributes"].items()
        if key.casefold() == attribute.casefold()
        for value in raw
    ]
