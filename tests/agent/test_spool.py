import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.sending.spool import Identity, Spool, SpoolError
from agent.sending.store import Entry
from tests.agent.hub import Hub

ROOT = Path(__file__).resolve().parents[2]


def open_spool(folder, *, boot="boot", start_ms=1000, **options):
    return Spool(
        folder, identity=lambda spool_id: Identity("%s-%s" % (boot, spool_id), start_ms), **options
    )


def put(spool, text, windows=1):
    return spool.append(lambda sequence: Entry(sequence, windows, text.encode()))


def drain(spool):
    found = []
    while True:
        entry = spool.peek()
        if entry is None:
            return found
        found.append(entry.payload.decode())
        spool.ack(entry.sequence)


def test_batches_come_out_in_the_order_they_went_in(tmp_path):
    spool = open_spool(tmp_path)

    assert [put(spool, text) for text in ("a", "b", "c")] == [0, 1, 2]

    assert drain(spool) == ["a", "b", "c"]


def test_a_batch_stays_until_it_is_acknowledged(tmp_path):
    spool = open_spool(tmp_path)
    put(spool, "a")

    assert spool.peek() == spool.peek() == Entry(0, 1, b"a")

    spool.ack(0)
    assert spool.peek() is None


def test_acknowledging_what_is_not_the_oldest_changes_nothing(tmp_path):
    spool = open_spool(tmp_path)
    put(spool, "a")
    put(spool, "b")

    spool.ack(1)

    assert drain(spool) == ["a", "b"]


def test_everything_survives_a_restart(tmp_path):
    spool = open_spool(tmp_path)
    for text in ("a", "b"):
        put(spool, text)
    spool.ack(0)
    identity = spool.identity
    spool.close()

    again = open_spool(tmp_path)

    assert again.identity == identity
    assert put(again, "c") == 2
    assert drain(again) == ["b", "c"]


def test_a_sequence_is_never_given_twice_though_nothing_waits_and_the_agent_was_killed(tmp_path):
    spool = open_spool(tmp_path)
    put(spool, "a")
    drain(spool)
    spool._lock_file.close()

    assert put(open_spool(tmp_path), "b") == 1


def test_a_sequence_is_never_given_twice_though_the_state_could_not_be_saved(tmp_path):
    spool = open_spool(tmp_path)
    before = (tmp_path / "state.json").read_bytes()
    put(spool, "a")
    drain(spool)
    spool.close()
    (tmp_path / "state.json").write_bytes(before)
    (tmp_path / ("%020d.done" % 0)).touch()

    assert put(open_spool(tmp_path), "b") == 1


def test_a_lost_spool_begins_another_life(tmp_path):
    first = open_spool(tmp_path / "first").identity
    second = open_spool(tmp_path / "second").identity

    assert first.boot_id != second.boot_id


def test_a_clock_that_was_set_is_no_reboot(tmp_path):
    spool = open_spool(tmp_path, start_ms=1000)
    spool.close()

    assert open_spool(tmp_path, start_ms=5000).identity.boot_start_ms == 1000


def test_a_reboot_has_its_own_start(tmp_path):
    spool = open_spool(tmp_path, start_ms=1000)
    spool.close()

    assert open_spool(tmp_path, boot="next", start_ms=5000).identity.boot_start_ms == 5000


def test_a_torn_file_of_a_killed_writer_is_no_batch(tmp_path):
    spool = open_spool(tmp_path)
    put(spool, "a")
    spool.close()
    (tmp_path / ("%020d.batch.tmp" % 1)).write_bytes(b"FWB1 half")

    again = open_spool(tmp_path)

    assert drain(again) == ["a"]
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(
    "damage",
    [lambda content: content[:-1], lambda content: b"", lambda content: content[:-1] + b"!"],
)
def test_a_file_that_the_disk_damaged_is_set_aside(tmp_path, damage):
    spool = open_spool(tmp_path)
    put(spool, "a")
    put(spool, "b")
    file = tmp_path / ("%020d.batch" % 0)
    file.write_bytes(damage(file.read_bytes()))

    assert drain(spool) == ["b"]
    assert [path.name for path in (tmp_path / "set-aside").iterdir()] == ["%020d.batch.damaged" % 0]


def test_at_the_cap_the_oldest_are_dropped_and_counted(tmp_path):
    # a header of 24 bytes and ten of payload, three times
    spool = open_spool(tmp_path, max_bytes=3 * 34)
    for number in range(5):
        put(spool, "%010d" % number, windows=6)

    assert spool.dropped_windows == 12
    assert spool.size_bytes == 3 * 34
    spool.close()
    again = open_spool(tmp_path)
    assert again.dropped_windows == 12
    assert [int(text) for text in drain(again)] == [2, 3, 4]


def test_parts_take_their_batchs_place_at_once(tmp_path):
    spool = open_spool(tmp_path)
    put(spool, "ab")
    put(spool, "c")

    spool.replace(0, [Entry(2 << 40, 1, b"a"), Entry(3 << 40, 1, b"b")])
    spool.close()

    again = open_spool(tmp_path)
    assert again.peek() == Entry(2 << 40, 1, b"a")
    assert put(again, "d") == 2
    assert drain(again) == ["a", "b", "c", "d"]


def test_a_batch_that_can_never_be_accepted_is_kept_for_people_and_counted(tmp_path):
    spool = open_spool(tmp_path)
    put(spool, "poison", windows=7)
    put(spool, "b")

    spool.set_aside(0, reason="422")

    assert (tmp_path / "set-aside" / "0-422.json.gz").read_bytes() == b"poison"
    assert spool.dropped_windows == 7
    assert drain(spool) == ["b"]


def test_two_agents_can_not_share_a_spool(tmp_path):
    spool = open_spool(tmp_path)

    with pytest.raises(SpoolError, match="another agent uses the spool"):
        open_spool(tmp_path)
    spool.close()


def test_a_folder_that_can_not_be_written_is_one_clear_line(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(SpoolError, match="can't be used: "):
        open_spool(tmp_path / "file")


operations = st.lists(st.sampled_from(["put", "ack", "restart", "split"]), max_size=40)


@given(operations)
@settings(max_examples=60, deadline=None)
def test_any_sequence_of_events_loses_doubles_and_reorders_nothing(steps):
    folder = Path(tempfile.mkdtemp())
    spool, expected, out, number = open_spool(folder), [], [], 0
    try:
        for step in steps:
            if step == "put":
                assert put(spool, str(number)) == number
                expected.append(str(number))
                number += 1
            elif step == "restart":
                spool.close()
                spool = open_spool(folder)
            elif (entry := spool.peek()) is not None:
                if step == "split" and "." not in entry.payload.decode():
                    halves = [
                        Entry(entry.sequence | place << 40, 1, b"%s.%d" % (entry.payload, place))
                        for place in (2, 3)
                    ]
                    spool.replace(entry.sequence, halves)
                    where = expected.index(entry.payload.decode())
                    expected[where : where + 1] = [half.payload.decode() for half in halves]
                else:
                    out.append(entry.payload.decode())
                    spool.ack(entry.sequence)

        assert out + drain(spool) == expected
    finally:
        spool.close()
        shutil.rmtree(folder)


def start_child(folder, hub, count):
    command = [sys.executable, "-m", "tests.agent.spool_child", str(folder), hub.url, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


lives = st.lists(
    st.tuples(st.integers(1, 12), st.floats(0, 0.03), st.booleans()), min_size=1, max_size=4
)


@given(lives)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_put_in_arrives_once_and_in_order_through_outages_and_kill_9(plan):
    hub, folder, said = Hub(), Path(tempfile.mkdtemp()), []
    try:
        for kill_after, delay_s, is_out in plan:
            hub.is_out = is_out
            child = start_child(folder, hub, 1000)
            for _ in range(kill_after):
                said.append(int(child.stdout.readline()))
            time.sleep(delay_s)
            child.kill()
            said += [int(line) for line in child.stdout.read().split("\n")[:-1]]
            child.wait()
            child.stdout.close()
        hub.is_out = False
        last = start_child(folder, hub, 2)
        said += [int(line) for line in last.communicate(timeout=60)[0].split()]

        arrived = [batch["sequence"] for batch in hub.batches]
        assert arrived == sorted(set(arrived))
        assert set(said) <= set(arrived)
        assert len(said) == len(set(said))
        assert len(set(arrived) - set(said)) <= len(plan)  # in, but killed before it could say so
        assert hub.contradictions == []
        assert last.returncode == 0
    finally:
        hub.close()
        shutil.rmtree(folder)
