import threading
import time

import pytest

from agent.readings import DriverChangedError, SourceError
from tests.agent.nvml_driver import needs_compiler

pytestmark = needs_compiler

NOW = 1_794_000_000_000
FIRST = "GPU-00000000-0000-0000-0000-000000000000"
SECOND = "GPU-00000000-0000-0000-0000-000000000001"


def told(source, now_ms=NOW):
    return [(event.kind, event.uuid, event.code) for event in source.events(now_ms)]


def heard(source, count):
    """The XIDs that came; they come from another thread, within a wait of 20 ms."""
    events, deadline = [], time.monotonic() + 5
    while len(events) < count and time.monotonic() < deadline:
        events += [event for event in source.events(NOW) if event.kind == "xid"]
        time.sleep(0.005)
    return events


def test_an_xid_is_an_event_of_its_gpu_at_the_time_it_came(driver):
    driver.says("count 2")
    source = driver.open()
    driver.says("count 2", "events 1:1:8:79,2:0:8:31:3")

    first, second = heard(source, 2)

    assert (first.kind, first.uuid, first.code, first.text) == ("xid", SECOND, 79, "")
    assert (second.uuid, second.code, second.text) == (FIRST, 31, "MIG GPU instance 3")
    assert NOW - 1000 <= first.at_ms <= NOW


def test_the_same_xid_within_five_seconds_is_one_event(driver):
    source = driver.open()
    driver.says("events 1:0:8:31,2:0:8:31,3:0:8:31,4:0:8:43")

    assert [event.code for event in heard(source, 2)] == [31, 43]
    time.sleep(0.05)
    assert source.events(NOW) == []


def test_a_double_bit_error_of_both_types_is_one_xid_48(driver):
    driver.says("event_types 10")
    source = driver.open()
    driver.says("event_types 10", "events 1:0:2:0,2:0:8:48,3:0:8:94")

    assert [event.code for event in heard(source, 2)] == [48, 94]


def test_only_what_the_gpu_supports_is_registered(driver):
    driver.says("count 2", "event_types.0 4", "event_types.1 9")
    source = driver.open()
    driver.says("count 2", "events 1:0:4:1,2:1:1:1,3:1:8:63")

    assert [(event.uuid, event.code) for event in heard(source, 1)] == [(SECOND, 63)]


def test_without_events_there_is_no_thread_and_all_else_works(driver):
    driver.says("err.nvmlEventSetCreate 3")
    before = threading.active_count()

    source = driver.open()

    assert threading.active_count() == before
    assert source.read(FIRST, NOW).util == 0.0


def test_a_lost_gpu_does_not_end_the_listening(driver, monkeypatch):
    monkeypatch.setattr("agent.sources.nvml.xid.WAIT_MS", 20)
    driver.says("count 2", "err.nvmlEventSetWait_v2 15")
    source = driver.open()
    time.sleep(0.06)
    driver.says("count 2", "events 1:1:8:79")

    assert [event.code for event in heard(source, 1)] == [79]


def test_closing_ends_the_thread_before_the_set_is_freed(driver):
    source = driver.open()
    assert "xid" in {thread.name for thread in threading.enumerate()}

    source.close()
    source.close()

    assert "xid" not in {thread.name for thread in threading.enumerate()}
    assert driver.lent == (0, 0)


def test_a_recovery_action_is_told_once_per_change_and_its_end_too(driver):
    codes = []
    driver.says("fields 230:u:0")
    source = driver.open()
    for window, code in enumerate((0, 1, 1, 2, 0, 0)):
        driver.says(f"fields 230:u:{code}")
        source.read(FIRST, NOW + window * 10_000)
        codes.append([event[2] for event in told(source) if event[0] == "recovery_action"])

    # the first 0 ends what was mended while no agent ran
    assert codes == [[0], [1], [], [2], [0], []]


def test_a_driver_without_recovery_actions_tells_none(driver):
    source = driver.open()
    source.read(FIRST, NOW)

    assert told(source) == []
    assert "recovery_action" not in source.gpus()[0].unread


def test_replaced_rows_of_memory_are_told_as_their_xids_once(driver):
    source = driver.open()
    events = []
    for window, (pending, failed) in enumerate(((0, 0), (1, 0), (1, 0), (1, 1), (0, 1))):
        driver.says(f"fields 144:u:{pending},145:u:{failed}")
        source.read(FIRST, NOW + window * 10_000)
        events.append(told(source))

    assert events == [[], [("xid", FIRST, 63)], [], [("xid", FIRST, 64)], []]


@pytest.mark.parametrize("code", [15, 16])
def test_a_gpu_lost_in_any_call_is_lost_and_the_others_go_on(driver, code):
    driver.says("count 2")
    source = driver.open()
    source.gpus()
    driver.says("count 2", f"err.nvmlDeviceGetFieldValues.0 {code}")

    with pytest.raises(SourceError, match="is lost"):
        source.read(FIRST, NOW)

    assert source.read(SECOND, NOW).power_w == 69.85
    assert told(source) == [("gpu_lost", FIRST, code)]


def test_a_field_that_says_the_gpu_is_lost_counts_too(driver):
    driver.says("fields 82:e:15")

    with pytest.raises(SourceError, match="is lost"):
        driver.open().read(FIRST, NOW)


def test_a_mismatch_at_the_start_asks_for_a_new_process_too(driver):
    driver.says("err.nvmlInitWithFlags 18")

    with pytest.raises(DriverChangedError, match="start the agent anew"):
        driver.open()


def test_a_mismatch_while_the_gpus_are_described_is_not_taken_for_one_sick_gpu(driver):
    source = driver.open()
    source.gpus()
    source.read(FIRST, NOW + 61_000)
    driver.says("err.nvmlDeviceGetEnforcedPowerLimit 18")

    with pytest.raises(DriverChangedError):
        source.gpus()


def test_a_driver_that_comes_back_is_started_from_its_beginning(driver):
    driver.says("gpm 2:50")
    source = driver.open()
    source.read(FIRST, NOW)
    driver.says("err.nvmlDeviceGetUtilizationRates 9", "err.nvmlDeviceGetCount_v2 9")
    with pytest.raises(SourceError):
        source.read(FIRST, NOW + 10_000)
    with pytest.raises(SourceError):
        source.gpus()
    driver.says("gpm 2:50")
    shut_down = driver.calls("nvmlShutdown")

    source.gpus()

    assert driver.calls("nvmlShutdown") == shut_down + 1  # else NVML answers from what it remembers
    source.read(FIRST, NOW + 20_000)
    assert source.read(FIRST, NOW + 30_000).means["sm_active"] == 0.5
    assert driver.lent == (2, 1)


def test_a_call_that_hangs_holds_up_only_its_own_thread(driver):
    source = driver.open()
    driver.says("hang.nvmlDeviceGetPowerUsage 150")
    reading = threading.Thread(target=source.read, args=(FIRST, NOW), daemon=True)

    reading.start()
    counted = 0
    while reading.is_alive():
        time.sleep(0.005)
        counted += 1

    assert counted >= 10  # Python went on meanwhile: the watchdog can tell


def test_a_gpu_that_is_plugged_in_is_taken_up(driver, tmp_path):
    cards = tmp_path / "gpus"
    (cards / "0000:10:00.0").mkdir(parents=True)
    driver.says("count 1")
    source = driver.open(cards=cards)
    assert [gpu.uuid for gpu in source.gpus()] == [FIRST]
    shut_down = driver.calls("nvmlShutdown")

    (cards / "0000:11:00.0").mkdir()
    driver.says("count 2")

    assert [gpu.uuid for gpu in source.gpus()] == [FIRST, SECOND]
    assert source.read(SECOND, NOW).util == 0.0
    assert [gpu.uuid for gpu in source.gpus()] == [FIRST, SECOND]
    assert driver.calls("nvmlShutdown") == shut_down + 1


def test_a_gpu_that_was_taken_out_is_kept_as_lost_until_it_is_back(driver):
    driver.says("count 2")
    source = driver.open()
    for uuid in (FIRST, SECOND):
        source.read(uuid, NOW)
    driver.says("count 1")

    kept = source.gpus()

    assert [gpu.uuid for gpu in kept] == [FIRST, SECOND]
    assert told(source) == [("gpu_lost", SECOND, None)]
    source.read(FIRST, NOW + 600_000)
    with pytest.raises(SourceError, match="is lost"):
        source.read(SECOND, NOW + 600_000)
    source.gpus()
    driver.says("count 2")
    source.gpus()
    assert source.read(SECOND, NOW + 601_000).util == 0.0
    assert told(source) == [("gpu_ok", SECOND, None)]


def test_a_gpu_that_was_swapped_for_another_is_seen_within_a_minute(driver):
    driver.says("count 1")
    source = driver.open()
    source.read(FIRST, NOW)
    source.gpus()
    driver.says("count 1", "first 1")

    source.read(FIRST, NOW + 61_000)

    assert [gpu.uuid for gpu in source.gpus()] == [FIRST, SECOND]
    assert told(source) == [("gpu_lost", FIRST, None)]
