import logging
import threading

import pytest

from agent.loop import STUCK_S
from agent.readings import DriverChangedError, Event
from agent.sampler import Sampler
from tests.agent.daemon import Daemon, Times, of_first_gpu
from tests.agent.factories import START, gpu


@pytest.fixture
def daemon(tmp_path):
    daemon = Daemon(tmp_path / "spool")
    yield daemon
    daemon.spool.close()


def test_three_windows_make_one_batch_of_thirty_seconds(daemon):
    daemon.live(0, 32)

    (sent,) = daemon.batches()
    assert sent.windows["gpu"] == [0, 1] * 3
    assert [start - START for start in sent.windows["start_ms"]] == [
        0,
        0,
        10_000,
        10_000,
        20_000,
        20_000,
    ]
    assert sent.windows["observed_ms"] == [10_000] * 6
    assert sent.windows["util_mean"] == [0.5] * 6
    assert sent.windows["process_count"] == [1, None] * 3
    assert [(item["gpu"], item["end_ms"]) for item in sent.allocations] == [(0, None), (1, None)]
    assert (sent.agent["source"], sent.agent["driver"], sent.agent["dropped_windows"]) == (
        "fake",
        "580.1",
        0,
    )


def test_a_window_that_ended_before_the_first_reading_is_not_waited_for(daemon):
    assert daemon.sampler.has_finished(START + 10_000)  # nothing is open yet: nobody can be asked

    daemon.sampler.tick(START + 10_000)

    assert daemon.sampler.has_finished(START + 10_000)
    assert not daemon.sampler.has_finished(START + 20_000)


def test_the_hub_may_ask_for_batches_of_another_length(daemon):
    daemon.pump.flush_s = 10

    daemon.live(0, 32)

    assert [sent.sequence for sent in daemon.batches()] == [0, 1, 2]


def test_one_gpu_that_can_not_be_read_stops_no_other_and_is_still_sent(daemon):
    daemon.source.broken["GPU-1"] = "GPU is lost"

    daemon.live(0, 32)

    (sent,) = daemon.batches()
    assert sent.windows["observed_ms"] == [0, 10_000] * 3
    assert sent.windows["util_mean"] == [None, 0.5] * 3


def test_the_same_trouble_is_logged_once(daemon, caplog):
    daemon.source.broken["GPU-1"] = "GPU is lost"

    with caplog.at_level(logging.WARNING):
        daemon.live(0, 32)

    assert [record.message for record in caplog.records] == [
        "GPU can't be read uuid=GPU-1: GPU is lost"
    ]


def test_a_driver_that_is_missing_is_an_event_and_the_known_gpus_stay(daemon):
    daemon.live(0, 9)
    daemon.source.broken["all"] = "driver unloaded"

    daemon.live(10, 32)
    daemon.loop.flush()

    sent = daemon.batches()
    events = [(event["kind"], event["gpu"], event["text"]) for one in sent for event in one.events]
    assert events == [
        ("driver_ok", None, "driver answers"),
        ("driver_missing", None, "driver unloaded"),
    ]
    assert [observed for one in sent for observed in one.windows["observed_ms"]] == [
        10_000,
        10_000,
        1_500,
        1_500,
        0,
        0,
    ]
    assert daemon.source.is_closed


def test_without_any_driver_the_host_is_reported_all_the_same(daemon):
    daemon.problem = "no driver"

    daemon.live(0, 32)

    (sent,) = daemon.batches()
    assert (sent.gpus, sent.windows["gpu"]) == ([], [])
    assert [event["kind"] for event in sent.events] == ["driver_missing"]


def test_jobs_of_a_host_that_reads_neither_gpus_nor_itself_are_not_sent(daemon):
    daemon.source.infos = []

    daemon.live(0, 32)

    (sent,) = daemon.batches()
    assert [source["kind"] for source in sent.sources] == ["slurm"]
    # jobs alone would be an import of accounting
    assert (sent.windows["gpu"], sent.host, sent.jobs) == ([], {}, [])


def test_a_driver_that_comes_back_is_told(daemon, monkeypatch):
    daemon.problem = "no driver"
    daemon.live(0, 5)
    daemon.problem = None
    monkeypatch.setattr(daemon.sampler, "_retry_at", 0.0)

    daemon.live(6, 32)

    (sent,) = daemon.batches()
    assert [event["kind"] for event in sent.events] == ["driver_missing", "driver_ok"]
    assert len(sent.gpus) == 2


def test_events_of_the_source_are_sent(daemon):
    daemon.source.pending = [Event(START + 3, "xid", "GPU-2", 79, "fallen off the bus")]

    daemon.live(0, 32)

    (sent,) = daemon.batches()
    assert sent.events[1:] == [
        {"gpu": 1, "at_ms": START + 3, "kind": "xid", "code": 79, "text": "fallen off the bus"}
    ]


def test_of_a_job_source_that_fell_silent_nothing_is_concluded_but_what_it_said_before_is_kept(
    daemon,
):
    daemon.live(0, 15)
    daemon.workloads.is_ok = False

    daemon.live(16, 32)
    daemon.loop.flush()

    first, second = daemon.batches()
    assert [source["ok"] for source in first.sources] == [True]
    assert len(first.windows["gpu"]) == 2
    assert [source["ok"] for source in second.sources] == [False]
    assert second.allocations == []


def test_a_call_that_never_returns_is_told_once_and_windows_go_on(daemon, monkeypatch):
    daemon.live(0, 9)
    monkeypatch.setattr(Sampler, "stuck_s", STUCK_S + 1)
    monkeypatch.setattr(daemon.sampler, "stuck_gpu", "GPU-2")

    for end_s in (10, 20, 30):
        daemon.loop.close(START + end_s * 1000, now_ms=START + end_s * 1000 + 1600)
    daemon.loop.flush()

    sent = daemon.batches()
    assert [(event["kind"], event["gpu"]) for one in sent for event in one.events] == [
        ("nvml_stuck", 1),
        ("driver_ok", None),
    ]
    assert sum(len(one.windows["gpu"]) for one in sent) == 6


def test_a_batch_never_speaks_of_gpus_it_does_not_list(daemon):
    daemon.live(0, 15)
    daemon.source.infos = [gpu("GPU-2")]

    daemon.live(16, 32)
    daemon.loop.flush()

    first, second = daemon.batches()
    assert [[info["uuid"] for info in sent.gpus] for sent in (first, second)] == [
        ["GPU-1", "GPU-2"],
        ["GPU-2"],
    ]


def test_a_stop_sends_the_window_that_is_still_open(tmp_path):
    daemon = Daemon(tmp_path / "spool")
    daemon.times.go(3)
    started = daemon.clock.now_ms()
    thread = threading.Thread(target=daemon.loop.run)
    # the network hangs on nobody
    daemon.pump._send = lambda payload: (_ for _ in ()).throw(OSError("not now"))
    daemon.sampler.tick(started)
    thread.start()

    daemon.loop.stop()
    thread.join(timeout=20)

    assert not thread.is_alive()
    assert daemon.spool.waiting >= 1
    assert [batch.agent.get("stopping") for batch in daemon.batches()][-1] is True
    daemon.spool.close()


def test_only_the_last_word_of_an_agent_that_was_told_to_stop_says_so(daemon):
    daemon.live(0, 40)

    assert "stopping" not in daemon.batches()[0].agent


def test_what_was_read_before_the_driver_changed_is_sent_at_the_stop(daemon):
    daemon.go(15)
    daemon.source.broken["GPU-1"] = DriverChangedError("the driver was changed")
    daemon.go(1)

    # as the loop does for the window that is still open
    daemon.sampler.finish_window(START + 20_000)
    daemon.loop.close(START + 20_000, now_ms=daemon.clock.now_ms())
    daemon.loop.flush()

    assert of_first_gpu(daemon.batches()) == [(0, 9000), (10, 6000)]


def test_a_stop_lets_go_of_the_driver(daemon):
    daemon.sampler.tick(START)

    # as the loop does for the window that is still open
    daemon.sampler.finish_window(START + 10_000)
    daemon.sampler.close()

    assert daemon.sampler.stuck_s == 0
    assert daemon.source.is_closed


def test_a_small_correction_of_the_wall_clock_moves_nothing():
    times = Times()
    clock = times.clock()

    times.go(10, wall=10.4)

    assert clock.now_ms() == START + 10_000


@pytest.mark.parametrize("jump", [-3600, 0.6, 3600])
def test_a_wall_clock_that_was_set_is_followed(jump):
    times = Times()
    clock = times.clock()

    times.go(10, wall=10 + jump)

    assert clock.now_ms() == pytest.approx(START + 10_000 + jump * 1000, abs=1)
