"""Which groups an entry of a directory is in, by itself and by groups that are in groups."""

from collections.abc import Iterable, Mapping
from typing import Any

import structlog
from ldap3.utils.dn import parse_dn

from fleetwatch.lib.ldap.ldap_directory import Directory, DirectoryError
from fleetwatch.lib.ldap.ldap_search import Row, escaped, read_entry, read_rows, values

MAX_GROUPS = 1_000
MEMBER_OF = "memberOf"
CAPABILITIES = "supportedCapabilities"
DOMAIN = "defaultNamingContext"
# what Active Directory says of itself, and how it follows groups in groups (MS-ADTS 3.1.1.3.4.3.1
# and 3.1.1.3.4.4.3)
ACTIVE_DIRECTORY = "1.2.840.113556.1.4.800"
IN_CHAIN = "(member:1.2.840.113556.1.4.1941:={dn})"

Groups = Mapping[str, list[str]]  # names by DN

log = structlog.get_logger(__name__)


def groups_of(connection: Any, directory: Directory, row: Row, unix_name: str) -> frozenset[str]:
    """Their names. Active Directory is asked for all at once; of another server each group is
    looked at once, whatever circles they are in, until there are MAX_GROUPS.
    """
    of_user = f"(memberUid={escaped(unix_name or row['dn'])})"
    domain = _domain(connection)
    if domain:
        where = f"(|{IN_CHAIN.format(dn=escaped(row['dn']))}{of_user})"
        try:
            return _names(_search(connection, directory, where, directory.group_base or domain))
        except DirectoryError as error:  # of a large one that may take too long
            log.warning("groups are followed one by one", reason=str(error))
    if directory.group_base:
        direct = _search(connection, directory, f"(|{_has_member(row['dn'])}{of_user})")
    else:
        direct = _named([row])
    return _names(_with_above(connection, directory, direct))


def _with_above(connection: Any, directory: Directory, direct: Groups) -> Groups:
    """These groups and those that they are in."""
    level = direct
    every = dict(direct)
    while level and len(every) < MAX_GROUPS:
        above = _above(connection, directory, level)
        level = {group: names for group, names in above.items() if group not in every}
        every |= level
    return every


def _domain(connection: Any) -> str:
    """The DN that all of an Active Directory is below; "" of another server."""
    root = read_entry(connection, "", [CAPABILITIES, DOMAIN])
    if root is None or ACTIVE_DIRECTORY not in values(root, CAPABILITIES):
        return ""
    return next(iter(values(root, DOMAIN)), "")


def _above(connection: Any, directory: Directory, groups: Iterable[str]) -> Groups:
    """The groups that one of these is in itself."""
    if directory.group_base:
        members = "".join(_has_member(dn) for dn in groups)
        return _search(connection, directory, f"(|{members})")
    rows = [read_entry(connection, dn, [MEMBER_OF]) for dn in groups]
    return _named(row for row in rows if row is not None)


def _has_member(dn: str) -> str:
    return f"(member={escaped(dn)})(uniqueMember={escaped(dn)})"


def _search(connection: Any, directory: Directory, where: str, base: str = "") -> Groups:
    """Those below the base, or where groups are."""
    wanted = [directory.group_attribute]
    rows = read_rows(connection, base or directory.group_base, where, wanted, MAX_GROUPS)
    return {row["dn"]: values(row, directory.group_attribute) for row in rows}


def _named(rows: Iterable[Row]) -> Groups:
    """Those that the entries name."""
    return {dn: [parse_dn(dn)[0][1]] for row in rows for dn in values(row, MEMBER_OF)}


def _names(groups: Groups) -> frozenset[str]:
    return frozenset(name for names in groups.values() for name in names)
