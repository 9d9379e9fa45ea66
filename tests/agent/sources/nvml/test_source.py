import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent.readings import DriverChangedError, ProcessReading, SourceError
from tests.agent.nvml_driver import needs_compiler, samples

pytestmark = needs_compiler

NOW = 1_794_000_000_000
FIRST = "GPU-00000000-0000-0000-0000-000000000000"
SECOND = "GPU-00000000-0000-0000-0000-000000000001"


def test_identity_and_limits_come_in_base_units(driver):
    driver.says("count 2")

    first, second = driver.open().gpus()

    assert (first.uuid, first.index, first.model) == (FIRST, 0, "NVIDIA H100 80GB HBM3")
    assert (first.power_limit_w, first.sm_count, first.sm_clock_max_hz) == (700.0, 132, 1.98e9)
    assert (first.memory_total_bytes, first.persistence, first.bus_id) == (
        85_520_809_984,
        True,
        "00000000:10:00.0",
    )
    assert (second.uuid, second.index) == (SECOND, 1)
    assert first.unread == {}


@pytest.mark.parametrize(
    ("capability", "cores", "sm_count"),
    [
        ((7, 0), 5120, 80),
        ((7, 5), 2560, 40),
        ((8, 0), 6912, 108),
        ((8, 6), 9216, 72),
        ((8, 9), 18176, 142),
        ((9, 0), 16896, 132),
    ],
)
def test_the_sms_are_counted_by_the_cores_that_each_generation_has_in_one(
    driver, capability, cores, sm_count
):
    driver.says(f"cores {cores}", "major %d" % capability[0], "revision %d" % capability[1])

    assert driver.open().gpus()[0].sm_count == sm_count


def profiles():
    """NVIDIA's own mock cards, by name: (text of the profile, SMs)."""
    folder = Path(os.environ.get("FLEETWATCH_EXTERNAL_DATA", "/nowhere")) / "nvml_profiles"
    sms = {"a100": 108, "b200": 144, "gb200": 144, "gb300": 169, "h100": 132, "l40s": 142, "t4": 40}
    return [
        pytest.param(path.read_text(), sms[path.stem], id=path.stem)
        for path in sorted(folder.glob("*.yaml"))
        if path.stem in sms
    ]


@pytest.mark.parametrize(("text", "sm_count"), profiles())
def test_nvidias_mock_cards_are_described_in_base_units(driver, text, sm_count):
    def number(key):
        return int(re.search(rf"^ +{key}: +(\d+)", text, re.MULTILINE).group(1))

    model = re.search(r'^  name: "(.+)"', text, re.MULTILINE).group(1)
    driver.says(
        f"model {model}",
        f"cores {number('num_gpu_cores')}",
        f"major {number('major')}",
        f"revision {number('minor')}",
        f"total {number('total_bytes')}",
        f"limit {number('enforced_limit_mw')}",
        f"clock_max {number('sm_max')}",
        f"power {number('current_draw_mw')}",
        f"mig_capable {number('max_gpu_instances') > 0:d}",
    )
    source = driver.open()

    gpu, reading = source.gpus()[0], source.read(FIRST, NOW)

    assert (gpu.model, gpu.sm_count, gpu.memory_total_bytes) == (
        model,
        sm_count,
        number("total_bytes"),
    )
    assert (gpu.power_limit_w, gpu.sm_clock_max_hz) == (
        number("enforced_limit_mw") / 1000,
        number("sm_max") * 1e6,
    )
    assert reading.power_w == number("current_draw_mw") / 1000
    assert 5 < reading.power_w < gpu.power_limit_w


def test_a_loaded_gpu_reads_in_base_units(driver):
    driver.says(
        "util 100",
        "util_memory 41",
        "memory 33933819904",
        "power 627400",
        "energy 1234567",
        "temperature 61",
        "clock 1965",
    )

    reading = driver.open().read(FIRST, NOW)

    assert (reading.at_ms, reading.util, reading.memory_util) == (NOW, 1.0, 0.41)
    assert (reading.memory_used_bytes, reading.memory_reserved_bytes) == (
        33_933_819_904,
        671_088_640,
    )
    assert (reading.power_w, reading.energy_j) == (627.4, 1234.567)
    assert (reading.temperature_c, reading.sm_clock_hz) == (61.0, 1.965e9)


def test_an_idle_gpu_reads_zero_not_nothing(driver):
    driver.says("util 0")

    reading = driver.open().read(FIRST, NOW)

    assert (reading.util, reading.memory_used_bytes, reading.power_w) == (0.0, 0, 69.85)


def test_samples_are_those_since_the_last_reading_by_the_drivers_own_clock(driver):
    driver.says("util 50", f"samples.0 {samples(7_000_000, [0] * 60)}")
    source = driver.open()
    first = source.read(FIRST, NOW)
    driver.says("util 50", f"samples.0 {samples(7_000_000, [0] * 60 + [100, 40, 0])}")

    second = source.read(FIRST, NOW + 1000)

    assert first.util_samples == []
    assert second.util_samples == [(17_000_020, 1.0), (17_166_687, 0.4), (17_333_354, 0.0)]


def test_new_samples_cost_one_call_a_second_and_spare_the_snapshot(driver):
    driver.says("util 50", "samples.0 1000:10")
    source = driver.open()
    source.read(FIRST, NOW)
    driver.says("util 50", "samples.0 1000:10,2000:20,3000:30")
    before = driver.calls("nvmlDeviceGetSamples"), driver.calls("nvmlDeviceGetUtilizationRates")

    reading = source.read(FIRST, NOW + 1000)

    assert (
        driver.calls("nvmlDeviceGetSamples") - before[0],
        driver.calls("nvmlDeviceGetUtilizationRates") - before[1],
    ) == (1, 0)
    assert reading.util == 0.3  # the newest sample is what the snapshot says


def test_a_driver_that_wants_to_be_asked_for_the_length_first_is(driver):
    driver.says("util 50", "samples_sized 1", "samples.0 1000:10")
    source = driver.open()
    source.read(FIRST, NOW)
    driver.says("util 50", "samples_sized 1", "samples.0 1000:10,2000:20")

    assert source.read(FIRST, NOW + 1000).util_samples == [(2000, 0.2)]


def test_a_dry_sample_buffer_is_nothing_new_and_the_snapshot_counts(driver):
    driver.says("util 0", "samples.0 5000000:100")
    source = driver.open()
    source.read(FIRST, NOW)

    reading = source.read(FIRST, NOW + 1000)

    assert reading.util_samples == []
    assert reading.util == 0.0
    assert source.gpus()[0].unread == {}


def test_a_driver_clock_that_began_anew_is_followed_after_a_minute(driver):
    driver.says("util 90", "samples.0 9000000000:90")
    source = driver.open()
    source.read(FIRST, NOW)
    driver.says("util 90", "samples.0 1000:90")
    for second in range(1, 63):
        source.read(FIRST, NOW + second * 1000)
    driver.says("util 90", "samples.0 1000:90,2000:80")

    reading = source.read(FIRST, NOW + 63_000)

    assert reading.util_samples == [(2000, 0.8)]


def test_what_a_gpu_cannot_tell_is_none_with_the_reason_and_asked_again_after_an_hour(driver):
    driver.says(
        "count 2", "err.nvmlDeviceGetPowerUsage.0 3", "err.nvmlDeviceGetTotalEnergyConsumption.0 4"
    )
    source = driver.open()

    reading, other = source.read(FIRST, NOW), source.read(SECOND, NOW)

    assert (reading.power_w, reading.energy_j, reading.util) == (None, None, 0.0)
    assert (other.power_w, other.energy_j) == (69.85, 5.0)
    assert source.gpus()[0].unread == {"power_w": "not_supported", "energy_j": "no_permission"}
    driver.says("count 2")
    assert source.read(FIRST, NOW + 3_599_000).power_w is None
    assert source.read(FIRST, NOW + 3_600_000).power_w == 69.85
    assert source.gpus()[0].unread == {}


def test_a_clock_that_was_set_back_does_not_keep_a_metric_shut(driver):
    driver.says("err.nvmlDeviceGetPowerUsage 3")
    source = driver.open()
    source.read(FIRST, NOW)
    driver.says("power 100000")

    assert source.read(FIRST, NOW - 86_400_000).power_w == 100.0


def test_the_drivers_word_for_not_available_is_no_number(driver):
    driver.says(
        f"power {2**32 - 1}",
        f"limit {2**32 - 1}",
        f"energy {2**64 - 1}",
        f"clock {2**32 - 1}",
        f"clock_max {2**32 - 1}",
    )
    source = driver.open()

    gpu, reading = source.gpus()[0], source.read(FIRST, NOW)

    assert (gpu.power_limit_w, gpu.sm_clock_max_hz) == (None, None)
    assert (reading.power_w, reading.energy_j, reading.sm_clock_hz) == (None, None, None)


def test_an_unknown_error_counts_as_unreadable_from_the_third_time_on(driver):
    driver.says("err.nvmlDeviceGetTemperature 999")
    source = driver.open()

    source.read(FIRST, NOW)
    source.read(FIRST, NOW + 5000)
    after_two = dict(source.gpus()[0].unread)
    source.read(FIRST, NOW + 10_000)

    assert after_two == {}
    assert source.gpus()[0].unread == {"temperature_c": "error"}


def test_one_lost_gpu_stops_nobody_else_and_is_told_once(driver):
    driver.says("count 2")
    source = driver.open()
    source.gpus()
    driver.says("count 2", "lost.0 1")

    with pytest.raises(SourceError, match="is lost"):
        source.read(FIRST, NOW)
    with pytest.raises(SourceError, match="is lost"):
        source.read(FIRST, NOW + 61_000)

    assert source.read(SECOND, NOW).util == 0.0
    assert [(event.kind, event.uuid, event.code, event.at_ms) for event in source.events(NOW)] == [
        ("gpu_lost", FIRST, 15, NOW)
    ]
    assert [gpu.model for gpu in source.gpus()] == ["NVIDIA H100 80GB HBM3"] * 2


def test_a_gpu_that_comes_back_is_tried_after_a_minute_and_told(driver):
    driver.says("count 2", "lost.0 0")
    source = driver.open()
    driver.says("count 2", "lost.0 1")
    with pytest.raises(SourceError):
        source.read(FIRST, NOW)
    driver.says("count 2")

    with pytest.raises(SourceError):
        source.read(FIRST, NOW + 59_000)
    reading = source.read(FIRST, NOW + 60_000)

    assert reading.util == 0.0
    assert [event.kind for event in source.events(NOW + 60_000)] == ["gpu_lost", "gpu_ok"]


def test_a_gpu_lost_at_the_start_leaves_the_others(driver):
    driver.says("count 2", "lost.0 1")

    source = driver.open()

    assert [gpu.uuid for gpu in source.gpus()] == [SECOND]
    [event] = source.events(NOW)
    assert (event.at_ms, event.kind, event.uuid) == (NOW, "gpu_lost", None)
    assert event.text.startswith("GPU 0 was lost before the agent began")
    assert source.events(NOW + 60_000) == []


def test_a_gpu_lost_at_the_start_that_comes_back_is_told_by_its_name(driver):
    driver.says("count 2", "lost.0 1")
    source = driver.open()
    source.events(NOW)
    driver.says("count 2")

    source.read(SECOND, NOW + 120_000)
    source.gpus()

    assert [(event.kind, event.uuid) for event in source.events(NOW + 120_000)] == [
        ("gpu_ok", FIRST)
    ]
    assert [gpu.uuid for gpu in source.gpus()] == [SECOND, FIRST]


@pytest.mark.parametrize("code", [9, 12])
def test_without_a_driver_there_is_no_source(driver, code):
    driver.says(f"err.nvmlInitWithFlags {code}")

    with pytest.raises(SourceError, match="driver does not answer"):
        driver.open()


def test_a_driver_that_goes_and_comes_back_is_told_once_each(driver):
    driver.says("count 1")
    source = driver.open()
    driver.says("err.nvmlDeviceGetUtilizationRates 9", "err.nvmlDeviceGetCount_v2 9")

    for second in range(2):
        with pytest.raises(SourceError, match="does not answer"):
            source.read(FIRST, NOW + second * 1000)
    with pytest.raises(SourceError, match="does not answer"):
        source.gpus()
    driver.says("count 1")
    source.gpus()

    assert [event.kind for event in source.events(NOW)] == ["driver_missing", "driver_ok"]
    assert source.read(FIRST, NOW + 5000).util == 0.0


def test_a_driver_changed_under_the_library_asks_for_a_new_process(driver):
    driver.says("count 1")
    source = driver.open()
    driver.says("err.nvmlDeviceGetUtilizationRates 18")

    with pytest.raises(DriverChangedError, match="start the agent anew"):
        source.read(FIRST, NOW)

    assert [(event.kind, event.code) for event in source.events(NOW)] == [("driver_mismatch", 18)]


def test_processes_of_all_kinds_are_one_list_by_pid(driver):
    driver.says("processes.0 4711:1048576,4712:-", "graphics.0 4711:1048576,99:2048")

    found = driver.open().processes(FIRST)

    assert found == [
        ProcessReading(4711, 1_048_576),
        ProcessReading(4712, None),
        ProcessReading(99, 2048),
    ]


def test_no_processes_is_an_empty_list_and_unreadable_ones_are_none(driver):
    driver.says("count 1")
    source = driver.open()

    assert source.processes(FIRST) == []
    source.read(FIRST, NOW)
    driver.says("err.nvmlDeviceGetComputeRunningProcesses_v3 4")
    assert source.processes(FIRST) is None
    assert source.gpus()[0].unread["process_count"] == "no_permission"


def test_an_old_driver_without_newer_calls_gives_what_it_has(old_driver):
    old_driver.says("util 70", "processes.0 4711:1048576")
    source = old_driver.open()

    reading = source.read(FIRST, NOW)

    assert (reading.util, reading.power_w) == (0.7, 69.85)
    assert (reading.memory_used_bytes, reading.energy_j) == (None, None)
    assert source.processes(FIRST) == [ProcessReading(4711, 1_048_576)]
    unread = source.gpus()[0].unread
    assert {
        unread[column]
        for column in (
            "memory_used_bytes",
            "energy_j",
            "sm_active",
            "pcie_rx_bytes_s",
            "ecc_uncorrected",
        )
    } == {"not_supported"}
    assert not {"util_mean", "power_w", "temperature_c", "process_count"} & set(unread)


def test_the_library_is_found_by_name_as_on_a_real_host(nvml_library, tmp_path):
    state = tmp_path / "state"
    state.write_text("util 100\n")
    code = (
        "from agent.sources.nvml import NVMLSource as N; s = N(); print(s.driver(),"
        f" s.read('{FIRST}', 1).util)"
    )
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(nvml_library.parent),
        "FAKE_NVML": str(state),
    }

    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )

    assert result.stdout == "580.95.05 1.0\n"


def test_the_versions_of_nvml_and_cuda_are_told_where_the_driver_tells_them(driver):
    driver.says("count 1")
    source = driver.open()
    assert source.versions() == {"NVML": "13.580.95", "CUDA": "13.1"}

    driver.says("count 1", "err.nvmlSystemGetCudaDriverVersion_v2 999")

    assert source.versions() == {}


def test_without_the_library_the_sentence_says_so(tmp_path):
    code = (
        "import sys; sys.modules['pynvml'] = None\nfrom agent.sources.nvml import"
        " NVMLSource\nNVMLSource()"
    )

    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert "SourceError: the Python package nvidia-ml-py is not installed" in result.stderr


def test_a_second_costs_four_calls_and_the_costly_ones_come_once_a_window(driver):
    cheap = (
        "nvmlDeviceGetSamples", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTotalEnergyConsumption",
    )  # fmt: skip
    slow = ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetTemperature", "nvmlDeviceGetClockInfo")
    costly = (
        "nvmlDeviceGetFieldValues", "nvmlGpmSampleGet", "nvmlGpmMetricsGet",
        "nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetDecoderUtilization",
    )  # fmt: skip
    driver.says("util 0")
    source = driver.open()
    for second in range(10):
        source.read(FIRST, NOW + second * 1000)
    before = {name: driver.calls(name) for name in (*cheap, *slow, *costly)}

    for second in range(10, 60):
        source.read(FIRST, NOW + second * 1000)

    counted = {name: driver.calls(name) - earlier for name, earlier in before.items()}
    assert counted == {
        **dict.fromkeys(cheap, 50),
        **dict.fromkeys(slow, 10),
        **dict.fromkeys(costly, 5),
    }


def test_what_never_changes_is_asked_once_and_the_rest_each_minute(driver):
    lasting = (
        "nvmlDeviceGetName",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetMinorNumber",
        "nvmlDeviceGetNumGpuCores",
    )
    driver.says("limit 700000")
    source = driver.open()
    source.gpus()
    source.read(FIRST, NOW)
    source.gpus()
    before = {name: driver.calls(name) for name in (*lasting, "nvmlDeviceGetEnforcedPowerLimit")}
    driver.says("limit 300000")

    for window in range(1, 6):
        source.read(FIRST, NOW + window * 10_000)
        assert source.gpus()[0].power_limit_w == 700.0
    source.read(FIRST, NOW + 60_000)

    assert source.gpus()[0].power_limit_w == 300.0
    counted = {name: driver.calls(name) - earlier for name, earlier in before.items()}
    assert counted == {**dict.fromkeys(lasting, 0), "nvmlDeviceGetEnforcedPowerLimit": 1}


def test_rare_kinds_of_processes_are_asked_for_each_minute_and_whenever_something_is_new(driver):
    rare = "nvmlDeviceGetMPSComputeRunningProcesses_v3"
    counted = []
    driver.says("processes.0 7:1024")
    source = driver.open()
    for window, processes in enumerate(
        ("7:1024", "7:1024", "7:1024,8:1024", "7:1024,8:1024", "7:1024,8:1024", "7:1024,8:1024")
    ):
        driver.says(f"processes.0 {processes}")
        source.read(FIRST, NOW + window * 16_000)
        before = driver.calls(rare)
        source.processes(FIRST)
        counted.append(driver.calls(rare) - before)

    assert counted == [1, 0, 1, 0, 0, 0]
    driver.says("processes.0 7:1024,8:1024", "mps.0 9:2048")
    source.read(FIRST, NOW + 92_000)
    assert ProcessReading(9, 2048) in source.processes(FIRST)
