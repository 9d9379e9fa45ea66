"""Groups in groups of a real LDAP directory (slapd): each counts, and no circle goes on."""

import dataclasses

import pytest

from fleetwatch.lib.ldap import ldap_client, ldap_groups
from fleetwatch.lib.ldap.ldap_directory import Directory, Entry
from tests.identity.slapd import (
    BASE,
    PASSWORD,
    READER,
    READER_PASSWORD,
    Slapd,
    dn,
    group,
    group_dn,
    person,
    unix_group,
)

ANN = person("ann")


@pytest.fixture
def slapd(tmp_path):
    server = Slapd(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def directory(slapd) -> Directory:
    return Directory(
        (slapd.url,),
        f"ou=people,{BASE}",
        starttls=False,
        bind_dn=READER,
        bind_password=READER_PASSWORD,
        group_base=f"ou=groups,{BASE}",
    )


def entered(directory: Directory) -> Entry:
    entry = ldap_client.enter(directory, "ann", PASSWORD)
    assert entry is not None
    return entry


def nested(*names: str) -> str:
    """Ann is in the first, which is in the second, and so on."""
    members = (dn("ann"), *map(group_dn, names))
    return "".join(group(name, member) for name, member in zip(names, members, strict=False))


def test_a_group_that_is_in_groups_counts_as_they_do(directory, slapd):
    slapd.start(ANN, nested("nlp", "research", "gpu-users"), group("others", group_dn("others")))

    assert entered(directory).groups == {"nlp", "research", "gpu-users"}


def test_a_unix_group_is_in_groups_too(directory, slapd):
    slapd.start(ANN, unix_group("nlp", "ann"), group("gpu-users", group_dn("nlp")))

    assert entered(directory).groups == {"nlp", "gpu-users"}


@pytest.mark.parametrize(
    "groups",
    [
        group("a", dn("ann"), group_dn("c"))
        + group("b", group_dn("a"))
        + group("c", group_dn("b")),
        group("a", dn("ann"), group_dn("a"))
        + group("b", group_dn("a"))
        + group("c", group_dn("b")),
    ],
    ids=["of three", "with itself"],
)
def test_a_circle_is_gone_through_once(directory, slapd, groups):
    slapd.start(ANN, groups)

    assert entered(directory).groups == {"a", "b", "c"}


@pytest.mark.parametrize(("most", "groups"), [(1, {"a"}), (2, {"a", "b"}), (3, {"a", "b", "c"})])
def test_it_ends_where_there_are_too_many(directory, slapd, monkeypatch, most, groups):
    monkeypatch.setattr(ldap_groups, "MAX_GROUPS", most)
    slapd.start(ANN, nested("a", "b", "c"))

    assert entered(directory).groups == groups


def test_groups_that_an_entry_names_itself_are_followed_too(directory, slapd):
    directory = dataclasses.replace(directory, group_base="")
    named = f"{ANN}objectClass: extensibleObject\nmemberOf: {group_dn('a')}\n"
    above = f"{group('a', dn('ann'))}objectClass: extensibleObject\nmemberOf: {group_dn('b')}\n"
    circle = (
        f"{group('b', group_dn('a'))}objectClass: extensibleObject\nmemberOf: {group_dn('a')}\n"
    )
    gone = f"memberOf: {group_dn('not there')}\n"
    slapd.start(named + gone, above, circle, more=NAMES_GROUPS)

    assert entered(directory).groups == {"a", "b", "not there"}


# as servers that keep memberOf have it
NAMES_GROUPS = """
attributetype ( 1.2.840.113556.1.2.102 NAME 'memberOf'
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 EQUALITY distinguishedNameMatch )
"""
ACTIVE_DIRECTORY = """
attributetype ( 1.3.6.1.4.1.55555.1 NAME 'supportedCapabilities'
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.38 EQUALITY objectIdentifierMatch )
attributetype ( 1.3.6.1.4.1.55555.2 NAME 'defaultNamingContext'
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.12 EQUALITY distinguishedNameMatch )
rootDSE {folder}/root.ldif
"""
ROOT = f"dn:\nsupportedCapabilities: 1.2.840.113556.1.4.800\ndefaultNamingContext: {BASE}\n"


@pytest.mark.parametrize("base", [f"ou=groups,{BASE}", ""])
def test_a_server_that_says_to_be_active_directory_is_asked_for_all_at_once(
    directory, slapd, tmp_path, base, monkeypatch
):
    """slapd has not that rule, so it knows the Unix group alone: what is sent is what is shown."""
    asked = []
    rows = ldap_groups.read_rows
    monkeypatch.setattr(
        ldap_groups, "read_rows", lambda *given: asked.append(given[1:3]) or rows(*given)
    )
    (tmp_path / "root.ldif").write_text(ROOT)
    groups = nested("a", "b") + unix_group("nlp", "ann")
    slapd.start(ANN, groups, more=ACTIVE_DIRECTORY.format(folder=tmp_path))

    assert entered(dataclasses.replace(directory, group_base=base)).groups == {"nlp"}

    [(where, question)] = asked
    assert where == (base or BASE)
    assert question.startswith(r"(|(member:1.2.840.113556.1.4.1941:=\75\69\64\3d\61\6e\6e")
