import errno
import os
import pwd
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from fleetwatch.lib.env import ConfigurationError, folder_trouble, read_runtime
from fleetwatch.stack import folder
from fleetwatch.stack.folder import StackError


def test_a_second_instance_on_the_same_folder_is_refused_in_one_line(tmp_path):
    with (
        folder.claim(tmp_path / "data"),
        pytest.raises(StackError, match="FleetWatch already runs on .*; stop it") as refused,
    ):
        folder.claim(tmp_path / "data")

    assert "\n" not in str(refused.value)


def test_a_folder_is_free_again_after_its_instance_ended(tmp_path):
    folder.claim(tmp_path).close()

    with folder.claim(tmp_path) as lock:
        assert not lock.closed


@pytest.mark.parametrize("below", ["", "data", "data/deeper"])
def test_a_file_in_the_way_is_named(tmp_path, below):
    file = tmp_path / "file"
    file.write_text("in the way")

    with pytest.raises(
        StackError,
        match=(
            f"no data folder at {file / below}: {file} is no folder; FLEETWATCH_DATA or --data"
            " names another"
        ),
    ):
        folder.claim(file / below)
    with pytest.raises(ConfigurationError, match=f"FLEETWATCH_DATA: {file} is no folder$"):
        read_runtime(file / below)


def test_missing_parents_are_made(tmp_path):
    folder.claim(tmp_path / "a" / "b" / "data").close()

    assert (tmp_path / "a" / "b" / "data" / "VERSION").exists()


@pytest.fixture
def ordinary_user():
    """The test goes on as an account that is not root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    yield pwd.getpwuid(os.geteuid()).pw_name
    os.seteuid(before)


@pytest.mark.parametrize("mode", [0o000, 0o500])
@pytest.mark.parametrize("below", ["", "a/data"])
def test_a_folder_that_the_user_may_not_use_is_named_with_the_user(
    mode, below, tmp_path_factory, request
):
    closed = Path(tempfile.mkdtemp(prefix="fleetwatch-closed-", dir="/var/tmp"))
    request.addfinalizer(closed.rmdir)
    closed.chmod(mode)
    user = request.getfixturevalue("ordinary_user")

    with pytest.raises(
        StackError,
        match=(
            f"no data folder at .*: the user {user} may not use {closed}: run as the user to whom"
            " it belongs"
        ),
    ):
        folder.claim(closed / below)


def test_a_read_only_disk_is_said(tmp_path):
    error = OSError(errno.EROFS, os.strerror(errno.EROFS))

    assert (
        folder_trouble(tmp_path / "data", error)
        == f"{tmp_path} can't be written: Read-only file system"
    )


def test_data_of_another_version_is_refused(tmp_path):
    (tmp_path / "VERSION").write_text("0\n")

    with pytest.raises(StackError, match="has data of version '0', this FleetWatch needs '1'"):
        folder.claim(tmp_path)


def test_a_taken_port_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(StackError, match=f"port {port} on 127.0.0.1 can't be used"):
            folder.check_port("127.0.0.1", port)


def test_a_secret_is_made_once_and_private(tmp_path):
    first = folder.secret(tmp_path / "secret_key")

    assert len(first) >= 64
    assert folder.secret(tmp_path / "secret_key") == first
    assert stat.S_IMODE(os.stat(tmp_path / "secret_key").st_mode) == 0o600


def test_a_private_file_is_replaced_whole(tmp_path):
    folder.write_private(tmp_path / "runtime.json", "one")
    folder.write_private(tmp_path / "runtime.json", "two")

    assert (tmp_path / "runtime.json").read_text() == "two"
    assert stat.S_IMODE(os.stat(tmp_path / "runtime.json").st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "runtime.json"]
