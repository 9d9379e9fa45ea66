import os
import socket
import stat

import pytest

from fleetwatch.stack import folder
from fleetwatch.stack.postgres import StackError


def test_a_second_instance_on_the_same_folder_is_refused_in_one_line(tmp_path):
    with folder.claim(tmp_path / "data"), pytest.raises(StackError, match="FleetWatch already runs on .*; stop it") as refused:
        folder.claim(tmp_path / "data")

    assert "\n" not in str(refused.value)


def test_a_folder_is_free_again_after_its_instance_ended(tmp_path):
    folder.claim(tmp_path).close()

    with folder.claim(tmp_path) as lock:
        assert not lock.closed


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StackError, match="can't be written"):
        folder.claim(tmp_path / "file" / "data")


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
