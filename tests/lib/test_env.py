import json
import os
from pathlib import Path

import pytest

from fleetwatch.lib import env
from fleetwatch.lib.env import ConfigurationError


def test_a_value_may_come_from_a_file(tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("from-file\n")
    monkeypatch.setenv("KEY_FILE", str(tmp_path / "secret"))

    assert env.text("KEY") == "from-file"
    monkeypatch.setenv("KEY", "direct")
    assert env.text("KEY") == "direct"


def test_a_file_that_is_not_there_names_the_variable(monkeypatch):
    monkeypatch.setenv("KEY_FILE", "/nowhere/secret")

    with pytest.raises(ConfigurationError, match="KEY_FILE: can't read /nowhere/secret"):
        env.text("KEY")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("1", True), ("Yes", True), ("off", False), ("false", False), ("", True)],
)
def test_a_boolean_is_read_in_the_usual_spellings(value, expected, monkeypatch):
    monkeypatch.setenv("FLAG", value)

    assert env.boolean("FLAG", True) is expected


def test_a_wrong_boolean_says_what_was_expected(monkeypatch):
    monkeypatch.setenv("FLAG", "maybe")

    with pytest.raises(ConfigurationError, match="FLAG: expected true or false, not 'maybe'"):
        env.boolean("FLAG", True)


@pytest.mark.parametrize(
    ("value", "message"),
    [("x", "a whole number"), ("0", "1 to 9, not 0"), ("10", "1 to 9, not 10")],
)
def test_a_wrong_number_says_what_was_expected(value, message, monkeypatch):
    monkeypatch.setenv("NUMBER", value)

    with pytest.raises(ConfigurationError, match=message):
        env.integer("NUMBER", 5, low=1, high=9)


def test_a_database_url_may_name_a_socket_folder():
    found = env.database("postgresql://fleetwatch:p%40ss@/fleetwatch?host=%2Frun%2Fpg")

    assert (found["HOST"], found["PASSWORD"], found["NAME"]) == ("/run/pg", "p@ss", "fleetwatch")


def test_a_database_url_may_name_host_and_port():
    found = env.database("postgres://ann:secret@db.example:6432/fleet?sslmode=require")

    assert (found["HOST"], found["PORT"], found["OPTIONS"]) == (
        "db.example",
        "6432",
        {"sslmode": "require"},
    )


def test_a_database_url_may_name_several_hosts_one_of_which_is_written_to():
    facts = env.database(
        "postgresql://me:secret@a:5433,b,[::1]:5434/main?target_session_attrs=read-write"
    )

    assert (facts["HOST"], facts["PORT"]) == ("a,b,::1", "5433,,5434")
    assert facts["OPTIONS"] == {"target_session_attrs": "read-write"}


def test_the_password_of_several_hosts_is_known(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:p%40ss@a,[::1]:5434/main")

    assert env.password_of("DATABASE_URL") == "p@ss"


def test_another_database_is_refused():
    with pytest.raises(ConfigurationError, match="DATABASE_URL: expected postgresql://"):
        env.database("mysql://root@localhost/x")


def test_without_a_runtime_file_there_is_no_stack(tmp_path):
    assert env.read_runtime(tmp_path) is None


def test_commands_know_the_address_of_the_stack_that_they_found(tmp_path):
    facts = {"database_url": "postgresql://x/y", "redis_url": "redis://x", "secret_key": "s" * 50}
    (tmp_path / "runtime.json").write_text(
        json.dumps(facts | {"public_url": "https://fleet.example.com"})
    )
    assert env.read_runtime(tmp_path).public_url == "https://fleet.example.com"

    (tmp_path / "runtime.json").write_text(json.dumps(facts))
    assert env.read_runtime(tmp_path).public_url == ""


def test_a_damaged_runtime_file_says_what_to_do(tmp_path):
    (tmp_path / "runtime.json").write_text("{")

    with pytest.raises(ConfigurationError, match="stop FleetWatch and start it again"):
        env.read_runtime(tmp_path)


def test_the_data_folder_is_the_one_named(monkeypatch):
    monkeypatch.setenv("FLEETWATCH_DATA", "/srv/fw")
    assert env.data_dir() == Path("/srv/fw")

    monkeypatch.delenv("FLEETWATCH_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", "/x")
    assert env.data_dir() == (
        Path("/var/lib/fleetwatch/default") if os.geteuid() == 0 else Path("/x/fleetwatch")
    )


@pytest.mark.parametrize("value", ["nourl", "ftp://hub", "https://", "https://hub?x=1", "//hub"])
def test_an_address_that_is_none_is_named(value, monkeypatch):
    monkeypatch.setenv("PUBLIC", value)

    with pytest.raises(
        env.ConfigurationError,
        match="PUBLIC: expected an address like https://fleetwatch.example.com",
    ):
        env.address("PUBLIC", "http://127.0.0.1")


def test_an_address_has_no_slash_at_its_end_and_names_a_host(monkeypatch):
    monkeypatch.setenv("PUBLIC", "https://hub.example.com:8443/")

    address = env.address("PUBLIC", "http://127.0.0.1")

    assert (address, env.host_of(address)) == ("https://hub.example.com:8443", "hub.example.com")
    assert env.host_of("http://[fd00::7]:8000") == "[fd00::7]"
    monkeypatch.delenv("PUBLIC")
    assert env.address("PUBLIC", "http://127.0.0.1") == "http://127.0.0.1"


def test_an_empty_variable_says_nothing(monkeypatch):
    monkeypatch.setenv("NAME", "")

    assert env.text("NAME", "the default") == "the default"


def test_pairs_are_names_with_values_and_a_name_may_hold_what_joins_them(monkeypatch):
    monkeypatch.setenv("MAPPING", "gpu-admins=admin, cn=ops=operator,")

    assert env.pairs("MAPPING") == {"gpu-admins": "admin", "cn=ops": "operator"}


@pytest.mark.parametrize("wrong", ["admin", "=admin", "gpu-admins="])
def test_a_pair_without_a_half_is_refused(monkeypatch, wrong):
    monkeypatch.setenv("MAPPING", wrong)

    with pytest.raises(ConfigurationError, match="MAPPING: expected name=value"):
        env.pairs("MAPPING")
