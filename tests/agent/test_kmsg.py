"""The kernel's log as a witness of XIDs; records in the format of /dev/kmsg, made up."""

import os

import pytest

from agent.kmsg import MAX_RECORDS, Kmsg, bus_of
from agent.news import SAME_MS, News
from agent.readings import Event
from tests.agent.daemon import Daemon
from tests.agent.factories import START, gpu

FIRST, SECOND = gpu("GPU-1", bus_id="00000000:3B:00.0"), gpu("GPU-2", bus_id="00000000:5E:00.0")


@pytest.fixture
def log(tmp_path):
    """A log with something old in it; each call writes one record."""
    path = tmp_path / "kmsg"
    path.write_text(xid("3b:00", 31))

    def write(*records):
        with open(path, "a") as file:
            file.write("".join(records))

    write.path = str(path)
    return write


def record(text, *, priority=4):
    return "%d,1042,98765432,-;%s\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n" % (priority, text)


def xid(bus, code, rest=", pid=4711, name=python, Ch 00000010"):
    return record("NVRM: Xid (PCI:0000:%s): %d%s" % (bus, code, rest))


def told(events):
    return [(event.uuid, event.code) for event in events]


def test_an_xid_is_told_of_the_gpu_at_its_bus_and_only_once_it_happens(log):
    kmsg = Kmsg(log.path)
    assert kmsg.poll(START, [FIRST, SECOND]) == []

    log(xid("5e:00", 79, ", pid='<unknown>', name=<unknown>, GPU has fallen off the bus."))

    assert kmsg.poll(START, [FIRST, SECOND]) == [
        Event(
            START,
            "xid",
            "GPU-2",
            79,
            "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        )
    ]
    assert kmsg.poll(START + 1000, [FIRST, SECOND]) == []
    assert kmsg.why is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NVRM: Xid (PCI:0000:3B:00): 13, Graphics SM Warp Exception", [("GPU-1", 13)]),
        ("NVRM: Xid (PCI:00000000:3b:00): 48", [("GPU-1", 48)]),
        ("NVRM: Xid (PCI:0000:3b:00.0): 31, pid=1", [("GPU-1", 31)]),
        ("NVRM: Xid (PCI:0001:3b:00): 31, pid=1", [(None, 31)]),
        ("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", [("GPU-1", 79)]),
        (
            (
                "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2330)\\x0aNVRM: has fallen off the"
                " bus and is not responding"
            ),
            [("GPU-1", 79)],
        ),
        ("NVRM: GPU at PCI:0000:3b:00: GPU-4711", []),
        ("NVRM: Xid (PCI:zz): 31", []),
        ("NVRM: Xid (PCI:0000:3b:00): 999999", []),
        ("NVRM: Xid (PCI::::::::): 31", []),
        # a process's name or words, not the driver's
        ("python[4711]: NVRM: Xid (PCI:0000:3b:00): 79", []),
        ("", []),
    ],
)
def test_what_is_an_xid(log, text, expected):
    kmsg = Kmsg(log.path)

    log(record(text))

    assert told(kmsg.poll(START, [FIRST, SECOND])) == expected


def test_a_card_that_the_driver_does_not_name_is_told_by_its_address(log):
    kmsg = Kmsg(log.path)

    log(xid("af:00", 79, ", GPU has fallen off the bus."))

    assert kmsg.poll(START, [FIRST]) == [
        Event(START, "xid", None, 79, "PCI 0000:af:00 GPU has fallen off the bus.")
    ]


@pytest.mark.parametrize(("priority", "expected"), [(0, 1), (7, 1), (8, 0), (12, 0), (30, 0)])
def test_what_a_process_wrote_into_the_log_is_no_xid(log, priority, expected):
    kmsg = Kmsg(log.path)

    log(record("NVRM: Xid (PCI:0000:3b:00): 79", priority=priority))

    assert len(kmsg.poll(START, [FIRST])) == expected


def test_hostile_text_is_short_and_printable_on_the_wire(log):
    kmsg = Kmsg(log.path)

    log(xid("3b:00", 13, ", pid=1, name=\x1b[2J\x00\x07" + "é" * 5000))

    (event,) = kmsg.poll(START, [FIRST])
    assert event.text.startswith("pid=1, name=?[2J??é")
    assert (len(event.text), event.text.isprintable()) == (200, True)


def test_bytes_that_are_no_text_and_a_flood_are_survived(log):
    kmsg = Kmsg(log.path)
    with open(log.path, "ab") as file:
        file.write(b"\xff\xfe;\x80\n" * 10_000)

    for _ in range(10_000 * 5 // (MAX_RECORDS * 8192) + 2):
        assert kmsg.poll(START, [FIRST]) == []


def test_mig_instances_share_a_bus_and_the_card_is_accused(log):
    kmsg = Kmsg(log.path)
    instance = gpu("MIG-1", parent_uuid="GPU-1", bus_id="00000000:3B:00.0")

    log(xid("3b:00", 94))

    assert told(kmsg.poll(START, [instance, FIRST, instance])) == [("GPU-1", 94)]


def test_a_log_that_may_not_be_read_is_a_fact_and_no_error(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "open", refuse)

    kmsg = Kmsg("/dev/kmsg")

    assert kmsg.why == "/dev/kmsg may not be read: CAP_SYSLOG is missing"
    assert kmsg.poll(START, [FIRST]) == []


def test_a_log_that_is_not_there_is_a_fact_and_no_error(tmp_path):
    assert Kmsg(str(tmp_path / "none")).why.endswith("can't be read: No such file or directory")


def test_a_log_that_overran_goes_on_and_one_that_fails_is_let_go(log, monkeypatch):
    kmsg = Kmsg(log.path)
    answers = [
        BrokenPipeError(32, "overran"),
        xid("3b:00", 79).encode(),
        BlockingIOError(11, "nothing"),
    ]

    def read(*_):
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(os, "read", read)
    assert told(kmsg.poll(START, [FIRST])) == [("GPU-1", 79)]

    answers.append(OSError(5, "Input/output error"))
    assert kmsg.poll(START, [FIRST]) == []
    assert kmsg.why == "the kernel's log can't be read: Input/output error"
    assert kmsg.poll(START, [FIRST]) == []


@pytest.mark.parametrize(
    ("later", "kept"),
    [
        (Event(START + SAME_MS, "xid", "GPU-1", 79), 1),
        (Event(START - SAME_MS, "xid", "GPU-1", 79), 1),
        (Event(START + SAME_MS + 1, "xid", "GPU-1", 79), 2),
        (Event(START, "xid", "GPU-2", 79), 2),
        (Event(START, "xid", "GPU-1", 48), 2),
        (Event(START, "gpu_lost", "GPU-1", 79), 2),
    ],
)
def test_an_xid_that_both_saw_is_told_once(later, kept):
    news = News()

    assert news.is_new(Event(START, "xid", "GPU-1", 79)) + news.is_new(later) == kept


def test_an_xid_of_the_log_and_of_nvml_is_one_event_of_the_batch(log, tmp_path):
    daemon = Daemon(tmp_path / "spool", kmsg=Kmsg(log.path))
    daemon.source.infos = [FIRST, SECOND]
    daemon.go(3)
    log(xid("3b:00", 79))
    daemon.source.pending = [Event(START + 3500, "xid", "GPU-1", 79)]

    daemon.go(30)
    daemon.loop.flush()

    events = [event for one in daemon.batches() for event in one.events if event["kind"] == "xid"]
    assert [(event["gpu"], event["at_ms"] - START, event["code"]) for event in events] == [
        (0, 4000, 79)
    ]
    daemon.spool.close()


def test_the_log_is_heard_while_a_call_hangs_in_the_driver(log, tmp_path):
    daemon = Daemon(tmp_path / "spool", kmsg=Kmsg(log.path))
    daemon.source.infos = [FIRST, SECOND]
    daemon.go(5)
    log(xid("5e:00", 79))

    daemon.loop.close(START + 10_000, now_ms=START + 11_600)  # no pass of the sampler between
    daemon.loop.flush()

    (sent,) = daemon.batches()
    assert [(event["gpu"], event["code"]) for event in sent.events if event["kind"] == "xid"] == [
        (1, 79)
    ]
    daemon.spool.close()


@pytest.mark.parametrize(
    ("text", "bus"),
    [
        ("00000000:3B:00.0", (0, 59, 0)),
        ("0000:3b:00", (0, 59, 0)),
        ("0001:3b:1f.7", (1, 59, 31)),
        ("3b:00", None),
        ("", None),
    ],
)
def test_a_bus_is_the_same_in_either_notation(text, bus):
    assert bus_of(text) == bus
