"""A directory of people (LDAP): where it is and how its entries are read, and what an entry says.

What speaks with it is ldap_client.py, which only a hub with a directory loads.
"""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from fleetwatch.lib import env


class DirectoryError(Exception):
    """The directory can't say who somebody is; the text says why, and holds no secret."""


class NoServerError(DirectoryError):
    """None of its servers answers."""


@dataclass(frozen=True, slots=True)
class Directory:
    """How one is asked. The servers are tried in turn; `ldap://` ones are asked for TLS first.

    Without `bind_dn` it is searched as nobody; `user_filter` narrows who may be a person; without
    `group_base` an entry's groups are those that its memberOf names.
    """

    urls: tuple[str, ...]
    user_base: str
    starttls: bool = True
    ca_file: str = ""
    bind_dn: str = ""
    bind_password: str = field(default="", repr=False)
    user_attribute: str = "uid"
    user_filter: str = ""
    unix_attribute: str = "uid"
    mail_attribute: str = "mail"
    group_base: str = ""
    group_attribute: str = "cn"


@dataclass(frozen=True, slots=True)
class Entry:
    """One person of the directory; "" is what the entry does not say."""

    dn: str
    name: str
    unix_name: str
    mail: str
    groups: frozenset[str]


def read_directory() -> Directory | None:
    """The directory that FLEETWATCH_LDAP_* names; None where there is none.

    Raises ConfigurationError for one that can't be asked.
    """
    urls = env.words("FLEETWATCH_LDAP_URL", [])
    if not urls:
        return None
    user_attribute = env.text("FLEETWATCH_LDAP_USER_ATTRIBUTE", "uid")
    directory = Directory(
        urls=tuple(urls),
        starttls=env.boolean("FLEETWATCH_LDAP_STARTTLS", True),
        ca_file=env.text("FLEETWATCH_LDAP_CA"),
        bind_dn=env.text("FLEETWATCH_LDAP_BIND_DN"),
        bind_password=env.text("FLEETWATCH_LDAP_BIND_PASSWORD"),
        user_base=env.text("FLEETWATCH_LDAP_USER_BASE"),
        user_attribute=user_attribute,
        user_filter=env.text("FLEETWATCH_LDAP_USER_FILTER"),
        unix_attribute=env.text("FLEETWATCH_LDAP_UNIX_ATTRIBUTE", user_attribute),
        mail_attribute=env.text("FLEETWATCH_LDAP_MAIL_ATTRIBUTE", "mail"),
        group_base=env.text("FLEETWATCH_LDAP_GROUP_BASE"),
        group_attribute=env.text("FLEETWATCH_LDAP_GROUP_ATTRIBUTE", "cn"),
    )
    _check(directory)
    return directory


def _check(directory: Directory) -> None:
    for url in directory.urls:
        parts = urlsplit(url)
        if parts.scheme not in ("ldap", "ldaps") or not parts.hostname or parts.path.strip("/"):
            raise env.ConfigurationError(
                f"FLEETWATCH_LDAP_URL: expected ldap://HOST or ldaps://HOST, not {url[:100]!r}"
            )
    if not directory.user_base:
        raise env.ConfigurationError("FLEETWATCH_LDAP_USER_BASE: the DN that the people are below")
    if directory.bind_dn and not directory.bind_password:
        # a server takes a bind without a password as one of nobody, and says yes
        raise env.ConfigurationError("FLEETWATCH_LDAP_BIND_PASSWORD: the bind DN needs one")
    if directory.user_filter and not directory.user_filter.startswith("("):
        raise env.ConfigurationError(
            "FLEETWATCH_LDAP_USER_FILTER: expected a filter such as (objectClass=posixAccount)"
        )
    if directory.ca_file and not Path(directory.ca_file).is_file():
        raise env.ConfigurationError(f"FLEETWATCH_LDAP_CA: there is no file {directory.ca_file}")
