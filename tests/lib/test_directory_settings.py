"""The directory as the environment names it."""

import pytest

from fleetwatch.lib.env import ConfigurationError
from fleetwatch.lib.ldap.ldap_directory import Directory, read_directory

NEEDED = {"URL": "ldaps://ldap.example.org", "USER_BASE": "ou=people,dc=example"}


@pytest.fixture
def environment(monkeypatch):
    def put(**values: str) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"FLEETWATCH_LDAP_{name}", value)

    return put


def test_without_an_address_there_is_none(environment):
    environment(USER_BASE="ou=people,dc=example")

    assert read_directory() is None


def test_with_the_least_that_is_needed_it_is_a_unix_sites(environment):
    environment(**NEEDED, USER_ATTRIBUTE="", STARTTLS="", GROUP_ATTRIBUTE="", MAIL_ATTRIBUTE="")

    assert read_directory() == Directory(
        urls=("ldaps://ldap.example.org",), user_base="ou=people,dc=example"
    )
    assert read_directory().starttls


def test_of_active_directory_the_unix_name_is_what_is_typed_unless_it_is_named(environment):
    environment(**NEEDED, USER_ATTRIBUTE="sAMAccountName")
    assert read_directory().unix_attribute == "sAMAccountName"

    environment(UNIX_ATTRIBUTE="uid")
    assert read_directory().unix_attribute == "uid"


def test_several_servers_and_a_password_from_a_file(environment, tmp_path):
    (tmp_path / "secret").write_text("of the reader\n")
    environment(**NEEDED | {"URL": "ldap://a:3890, ldaps://[::1]"}, BIND_DN="cn=reader")
    environment(BIND_PASSWORD_FILE=str(tmp_path / "secret"), STARTTLS="false")

    directory = read_directory()

    assert directory.urls == ("ldap://a:3890", "ldaps://[::1]")
    assert (directory.bind_password, directory.starttls) == ("of the reader", False)
    assert "of the reader" not in repr(directory)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"URL": "https://ldap.example.org"}, "LDAP_URL: expected ldap://HOST"),
        ({"URL": "ldap.example.org"}, "LDAP_URL: expected ldap://HOST"),
        ({"URL": "ldap://"}, "LDAP_URL: expected ldap://HOST"),
        ({"URL": "ldap://host/dc=example"}, "LDAP_URL: expected ldap://HOST"),
        ({"USER_BASE": ""}, "LDAP_USER_BASE: the DN"),
        ({"BIND_DN": "cn=reader"}, "LDAP_BIND_PASSWORD: the bind DN needs one"),
        ({"USER_FILTER": "mail=*"}, "LDAP_USER_FILTER: expected a filter"),
        ({"CA": "/nowhere/ca.pem"}, "LDAP_CA: there is no file /nowhere/ca.pem"),
        ({"STARTTLS": "maybe"}, "LDAP_STARTTLS: expected true or false"),
    ],
)
def test_one_that_can_not_be_asked_stops_the_start(environment, wrong, sentence):
    environment(**NEEDED | wrong)

    with pytest.raises(ConfigurationError, match=sentence):
        read_directory()
