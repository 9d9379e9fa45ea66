"""A disk that takes nothing: the queue goes on in memory, and nothing is lost, doubled or out of
order afterwards.
"""

import errno
import logging
import os
from functools import partial

import pytest

from agent import wire
from agent.batch import entry as entry_of
from agent.sending import split, store
from agent.sending.payloads import batch_of
from agent.sending.spool import JUMP, SpoolError
from agent.sending.store import Entry
from tests.agent.factories import START, mapping
from tests.agent.test_spool import drain, open_spool, put

TROUBLES = [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO]


class Disk:
    """Fails every write with `error` while it is set; reading goes on."""

    def __init__(self, monkeypatch):
        self.error = None
        for name in ("fsync", "replace", "unlink", "truncate", "mkdir"):
            monkeypatch.setattr(os, name, self._failing(getattr(os, name)))

    def _failing(self, real):
        def call(*arguments, **options):
            if self.error is not None:
                raise OSError(self.error, os.strerror(self.error))
            return real(*arguments, **options)

        return call


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_disk_that_takes_nothing_for_a_while_costs_no_batch_and_no_order(
    tmp_path, disk, trouble, caplog
):
    caplog.set_level(logging.INFO)
    spool = open_spool(tmp_path)
    put(spool, "a")

    disk.error = trouble
    put(spool, "b")
    put(spool, "c")
    assert spool.waiting == 3
    disk.error = None
    put(spool, "d")
    spool.close()

    again = open_spool(tmp_path)
    assert drain(again) == ["a", "b", "c", "d"]
    assert again.dropped_windows == 0
    said = [record.message for record in caplog.records if record.levelno >= logging.ERROR]
    assert said == [
        "the disk can't be written, batches wait in memory folder=%s: %s"
        % (tmp_path, os.strerror(trouble))
    ]
    assert caplog.text.count("the disk takes batches again") == 1


def test_what_waits_in_memory_is_sent_while_the_disk_takes_nothing(tmp_path, disk):
    spool = open_spool(tmp_path)
    put(spool, "a")

    disk.error = errno.EROFS
    put(spool, "b")

    assert drain(spool) == ["a", "b"]
    assert spool.waiting == 0


def test_what_a_read_only_disk_could_not_let_go_of_is_sent_again_by_the_next_process(
    tmp_path, disk
):
    spool = open_spool(tmp_path)
    put(spool, "a")
    disk.error = errno.EROFS
    assert drain(spool) == ["a"]
    disk.error = None
    spool._lock_file.close()  # killed

    assert open_spool(tmp_path).peek() == Entry(0, 1, b"a")  # by the same name, which the hub knows


def test_a_number_that_was_given_in_memory_is_not_given_again_by_a_process_that_can_not_know(
    tmp_path, disk
):
    spool = open_spool(tmp_path)
    put(spool, "a")
    disk.error = errno.EROFS
    in_memory = [put(spool, "b"), put(spool, "c")]
    drain(spool)
    spool._lock_file.close()  # killed
    disk.error = None

    again = open_spool(tmp_path)
    assert put(again, "d") == 1
    assert JUMP[0] < in_memory[0] < JUMP[1] + 2
    assert in_memory[1] == in_memory[0] + 1


def test_the_last_number_on_disk_is_not_given_again_though_more_waits_in_memory(tmp_path, disk):
    spool = open_spool(tmp_path)
    put(spool, "a")
    disk.error = errno.ENOSPC
    put(spool, "b")
    disk.error = None
    spool.ack(0)
    spool._lock_file.close()  # killed

    assert put(open_spool(tmp_path), "c") > 0


def test_the_memory_is_bounded_the_oldest_there_go_and_are_counted(tmp_path, disk, monkeypatch):
    # a header of 24 bytes and ten of payload, three times
    monkeypatch.setattr(store, "MEMORY_BYTES", 3 * 34)
    spool = open_spool(tmp_path)
    put(spool, "%010d" % 0)
    disk.error = errno.ENOSPC

    for number in range(1, 6):
        put(spool, "%010d" % number, windows=6)

    assert spool.dropped_windows == 12
    assert [int(text) for text in drain(spool)] == [0, 3, 4, 5]  # what is on disk stays


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_disk_that_takes_nothing_at_the_start_does_not_stop_it(tmp_path, disk, trouble, caplog):
    disk.error = trouble

    spool = open_spool(tmp_path / "spool")

    put(spool, "a")
    assert drain(spool) == ["a"]
    assert "batches wait in memory" in caplog.text


def test_a_disk_that_is_read_only_at_the_start_still_gives_what_waits_on_it(tmp_path, disk):
    spool = open_spool(tmp_path)
    put(spool, "a")
    spool.close()
    disk.error = errno.EROFS

    again = open_spool(tmp_path)

    put(again, "b")
    assert again.identity == spool.identity
    assert drain(again) == ["a", "b"]


def test_what_the_operator_set_wrong_still_stops_the_start(tmp_path, disk):
    disk.error = errno.EACCES

    with pytest.raises(SpoolError, match="can't be used: Permission denied"):
        open_spool(tmp_path / "spool")


def test_a_batch_is_split_though_the_disk_takes_nothing(tmp_path, disk):
    windows = {"gpu": [0, 0], "start_ms": [START, START + 10_000], "observed_ms": [0, 0]}
    spool = open_spool(tmp_path)
    spool.append(partial(entry_of, wire.parse(mapping(windows=windows))))
    disk.error = errno.ENOSPC

    spool.replace(0, split.split(spool.peek()))

    sent = []
    while (entry := spool.peek()) is not None:
        sent.append(batch_of(entry.payload).windows["start_ms"])
        spool.ack(entry.sequence)
    assert sent == [[START], [START + 10_000]]


def test_half_a_file_does_not_keep_a_full_disk_full(tmp_path, monkeypatch):
    spool = open_spool(tmp_path)

    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    put(spool, "a")

    assert list(tmp_path.glob("*.tmp")) == []


def test_a_file_that_somebody_deleted_or_the_disk_lost_is_passed_over(tmp_path, caplog):
    spool = open_spool(tmp_path)
    for text in ("a", "b", "c"):
        put(spool, text)
    (tmp_path / ("%020d.batch" % 0)).unlink()

    assert drain(spool) == ["b", "c"]
    assert caplog.text.count("passed over") == 1


def test_a_folder_that_somebody_deleted_does_not_stop_the_agent(tmp_path):
    spool = open_spool(tmp_path / "spool")
    for file in (tmp_path / "spool").iterdir():
        file.unlink()
    (tmp_path / "spool").rmdir()

    put(spool, "a")
    put(spool, "b")
    spool.close()

    assert drain(open_spool(tmp_path / "spool")) == ["a", "b"]


def test_a_long_queue_is_emptied_without_looking_at_all_of_it_each_time(tmp_path):
    shelf = store.Store(tmp_path)
    for number in range(100_000):
        shelf.count(str(number), 3000)

    for number in range(100_000):
        assert shelf.first() == str(number)
        shelf.forget(str(number))

    assert (len(shelf), shelf.size_bytes) == (0, 0)


def test_the_folder_is_not_listed_again_though_every_batch_drops_another(tmp_path, monkeypatch):
    spool = open_spool(tmp_path, max_bytes=3 * 34)
    listed = []
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, noted(getattr(os, name), listed))

    for number in range(6):
        put(spool, "%010d" % number)

    # a folder of a hundred thousand batches would be read each time
    assert [path for path in listed if path.startswith(str(tmp_path))] == []
    assert spool.dropped_windows == 3
    monkeypatch.undo()
    assert len(drain(spool)) == 3
    assert not list(tmp_path.glob("*.done"))


def noted(read, listed):
    """The same reading of folders, which notes what it read: other threads read theirs."""

    def read_and_note(path="."):
        listed.append(str(path))
        return read(path)

    return read_and_note


# The draft: windows that were closed and not yet put in


def draft(spool, text, windows=1):
    spool.draft(lambda sequence: Entry(sequence, windows, text.encode()))


def killed(spool):
    spool._lock_file.close()


def test_a_draft_of_a_killed_agent_becomes_batches_before_anything_new(tmp_path):
    spool = open_spool(tmp_path)
    put(spool, "a")
    draft(spool, "b")
    draft(spool, "c")
    killed(spool)

    again = open_spool(tmp_path)

    assert put(again, "d") == 3
    assert [again.peek().sequence, drain(again)] == [0, ["a", "b", "c", "d"]]


def test_a_draft_that_became_a_batch_is_not_sent_twice(tmp_path):
    spool = open_spool(tmp_path)
    draft(spool, "b")
    draft(spool, "c")
    noted = (tmp_path / "draft").read_bytes()
    put(spool, "bc")
    assert not (tmp_path / "draft").exists()
    (tmp_path / "draft").write_bytes(noted)  # as if killed before it was gone
    killed(spool)

    assert drain(open_spool(tmp_path)) == ["bc"]


def test_a_draft_is_not_taken_up_twice_though_the_agent_is_killed_again_at_once(tmp_path):
    spool = open_spool(tmp_path)
    draft(spool, "b")
    draft(spool, "c")
    noted = (tmp_path / "draft").read_bytes()
    killed(spool)
    again = open_spool(tmp_path)
    (tmp_path / "draft").write_bytes(noted)
    killed(again)

    third = open_spool(tmp_path)

    assert put(third, "d") == 2
    assert drain(third) == ["b", "c", "d"]


@pytest.mark.parametrize(("cut", "expected"), [(1, ["b"]), (26, ["b"]), (27, [])])
def test_a_torn_draft_gives_what_is_whole(tmp_path, cut, expected):
    spool = open_spool(tmp_path)
    draft(spool, "b")
    draft(spool, "c")  # a header of 24 bytes and one of payload, twice
    killed(spool)
    content = (tmp_path / "draft").read_bytes()
    (tmp_path / "draft").write_bytes(content[:-cut] if cut != 26 else content[:25] + b"\x00" * 25)

    assert drain(open_spool(tmp_path)) == expected


def test_a_draft_after_a_reboot_keeps_the_name_it_was_made_with(tmp_path):
    spool = open_spool(tmp_path)
    draft(spool, spool.identity.boot_id)
    killed(spool)

    again = open_spool(tmp_path, boot="next")

    assert drain(again) == [spool.identity.boot_id]
    assert again.identity.boot_id != spool.identity.boot_id


def test_a_draft_that_the_disk_does_not_take_is_no_trouble(tmp_path, disk, monkeypatch):
    spool = open_spool(tmp_path)
    monkeypatch.setattr(
        "builtins.open", lambda *_, **__: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full"))
    )

    draft(spool, "b")

    monkeypatch.undo()
    put(spool, "b")
    assert drain(spool) == ["b"]


def test_a_draft_that_can_not_become_a_file_is_sent_and_stays_for_the_next_process(tmp_path, disk):
    spool = open_spool(tmp_path)
    draft(spool, "b")
    killed(spool)
    disk.error = errno.ENOSPC

    again = open_spool(tmp_path)
    assert again.peek() == Entry(0, 1, b"b")
    killed(again)
    disk.error = None

    assert open_spool(tmp_path).peek() == Entry(0, 1, b"b")  # by the same name, which the hub knows


def test_batches_from_memory_that_reached_the_disk_are_found_in_order_after_a_kill(tmp_path, disk):
    spool = open_spool(tmp_path)
    put(spool, "a")
    disk.error = errno.ENOSPC
    put(spool, "b")
    disk.error = None
    number = put(spool, "c")
    killed(spool)

    again = open_spool(tmp_path)
    assert put(again, "d") == number + 1
    assert drain(again) == ["a", "b", "c", "d"]
