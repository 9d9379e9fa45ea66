import pytest

from tests.agent.nvml_driver import needs_compiler

pytestmark = needs_compiler

NOW = 1_794_000_000_000
FIRST = "GPU-00000000-0000-0000-0000-000000000000"
WITHOUT_GPM = "gpm_supported 0"


def means_between(driver, first, second, *, elapsed_ms=10_000):
    """What the second reading says, elapsed_ms after the first; each is the fake's line of
    fields.
    """
    driver.says(WITHOUT_GPM, first)
    source = driver.open()
    source.read(FIRST, NOW)
    driver.says(WITHOUT_GPM, second)
    return source.read(FIRST, NOW + elapsed_ms).means, source


@pytest.mark.parametrize(
    ("second", "thermal"),
    [
        ("fields 75:q:3500000000,269:q:3500000000,270:q:1000000000", 0.25),  # 2.5 s of 10 s
        # the hardware's own slowdown is thermal too
        ("fields 75:q:1000000000,269:q:1000000000,270:q:6000000000", 0.5),
        # both at once count once
        ("fields 75:q:2000000000,269:q:2000000000,270:q:2000000000", 0.1),
        ("fields 75:q:1000000000,269:q:1000000000,270:q:1000000000", 0.0),
        ("fields 75:q:11400000000", 1.0),  # read a little later than the second before: still one
    ],
)
def test_time_under_a_thermal_cap_is_a_share_of_the_time(driver, second, thermal):
    means, _ = means_between(
        driver, "fields 75:q:1000000000,269:q:1000000000,270:q:1000000000", second
    )

    assert means["throttle_thermal_ratio"] == pytest.approx(thermal)


def test_the_power_cap_and_the_power_brake_are_throttling_by_power(driver):
    capped, _ = means_between(driver, "fields 74:q:500", "fields 74:q:9000000500,271:q:0")
    braked, _ = means_between(driver, "fields 74:q:500", "fields 74:q:500,271:q:4000000000")

    assert (capped["throttle_power_ratio"], braked["throttle_power_ratio"]) == pytest.approx(
        (0.9, 0.4)
    )
    assert capped["throttle_thermal_ratio"] == 0.0


def test_a_counter_of_time_that_fell_or_outran_time_is_not_read(driver):
    fell, _ = means_between(
        driver, "fields 74:q:9000000000,75:q:9000000000", "fields 74:q:1000,75:q:9000000000"
    )
    outran, _ = means_between(
        driver, "fields 75:q:0,270:q:0", "fields 75:q:1000000000,270:q:10500000001"
    )

    assert "throttle_power_ratio" not in fell
    assert fell["throttle_thermal_ratio"] == 0.0
    # an older driver means something else by 270
    assert outran["throttle_thermal_ratio"] == pytest.approx(0.1)


def test_a_driver_without_the_old_counters_leaves_throttling_unread(driver):
    means, source = means_between(
        driver, "fields 75:e:3,74:e:3,270:q:0", "fields 75:e:3,74:e:3,270:q:1000000000"
    )

    assert not {"throttle_thermal_ratio", "throttle_power_ratio"} & set(means)
    unread = source.gpus()[0].unread
    assert (unread["throttle_thermal_ratio"], unread["throttle_power_ratio"]) == (
        "not_supported",
        "not_supported",
    )


def test_traffic_is_bytes_a_second_of_the_counters(driver):
    means, _ = means_between(
        driver,
        "fields 197:q:50000000000,198:q:60000000000,138:q:1000,139:q:2000",
        "fields 197:q:51000000000,198:q:62000000000,138:q:11000,139:q:22000",
    )

    assert (means["pcie_tx_bytes_s"], means["pcie_rx_bytes_s"]) == (1e8, 2e8)
    assert (means["nvlink_tx_bytes_s"], means["nvlink_rx_bytes_s"]) == (1000 * 1024, 2000 * 1024)


def test_a_traffic_counter_that_began_anew_costs_one_window(driver):
    driver.says(WITHOUT_GPM, "fields 197:q:50000000000,138:q:900000")
    source = driver.open()
    source.read(FIRST, NOW)
    driver.says(WITHOUT_GPM, "fields 197:q:1000,138:q:10")
    fell = source.read(FIRST, NOW + 10_000)
    driver.says(WITHOUT_GPM, "fields 197:q:11000,138:q:20")

    after = source.read(FIRST, NOW + 20_000)

    assert not {"pcie_tx_bytes_s", "nvlink_tx_bytes_s"} & set(fell.means)
    assert (after.means["pcie_tx_bytes_s"], after.means["nvlink_tx_bytes_s"]) == (1000.0, 1024.0)


def test_a_pcie_counter_of_32_bits_turns_over_too_often_to_be_believed(driver):
    means, source = means_between(
        driver, "fields 197:u:4294967000,198:u:17", "fields 197:u:100,198:u:10017"
    )

    assert "pcie_tx_bytes_s" not in means
    assert means["pcie_rx_bytes_s"] == 1000.0
    assert source.gpus()[0].unread["pcie_tx_bytes_s"] == "not_supported"


def test_one_source_tells_the_traffic_of_a_gpu_and_gpm_comes_first(driver):
    driver.says("gpm 20:1,21:2", "fields 197:q:50000000000")
    source = driver.open()
    source.read(FIRST, NOW)
    driver.says("gpm 20:1,21:e3,60:1,61:1", "fields 197:q:99000000000,198:q:5000")
    without = source.read(FIRST, NOW + 10_000).means
    driver.says("gpm 20:1,21:e3,60:1,61:1", "fields 197:q:99000000000,198:q:15000")
    source.read(FIRST, NOW + 20_000)
    driver.says("gpm 20:1,21:e3,60:1,61:1", "fields 197:q:99000000000,198:q:25000")

    means = source.read(FIRST, NOW + 30_000).means

    assert "pcie_rx_bytes_s" not in without
    assert means["pcie_tx_bytes_s"] == 1048576.0  # not the 4.9 GB/s of its counter
    assert means["pcie_rx_bytes_s"] == 1000.0  # GPM has an error for it: the counter's turn
    assert source.gpus()[0].unread == {}


@pytest.mark.parametrize(
    ("kind", "value"),
    [("u", "61"), ("q", "61"), ("i", "61"), ("h", "61"), ("d", "61.0"), ("s", "61"), ("l", "61")],
)
def test_a_value_is_read_by_its_type(driver, kind, value):
    driver.says(f"fields 82:{kind}:{value}")

    assert driver.open().read(FIRST, NOW).memory_temperature_c == 61.0


def test_a_board_without_a_sensor_in_its_memory_has_no_temperature_of_0(driver):
    driver.says("fields 82:u:0")

    assert driver.open().read(FIRST, NOW).memory_temperature_c is None


def test_uncorrected_errors_are_those_since_the_driver_was_loaded(driver):
    driver.says("count 2", "fields.0 4:q:3", "fields.1 4:e:3")
    source = driver.open()

    first, second = (source.read(gpu.uuid, NOW) for gpu in source.gpus())

    assert (first.ecc_uncorrected, second.ecc_uncorrected) == (3, None)
    assert [gpu.unread.get("ecc_uncorrected") for gpu in source.gpus()] == [None, "not_supported"]


def test_all_fields_of_a_gpu_cost_one_call_a_window(driver):
    driver.says(WITHOUT_GPM)
    source = driver.open()
    before = driver.calls("nvmlDeviceGetFieldValues")

    for second in range(0, 31):
        source.read(FIRST, NOW + second * 1000)

    assert driver.calls("nvmlDeviceGetFieldValues") - before == 5  # 0, 2, 10, 20, 30 s


def test_a_call_that_fails_as_a_whole_says_so_of_each_column_but_not_of_what_gpm_tells(driver):
    driver.says("err.nvmlDeviceGetFieldValues 4")
    source = driver.open()
    source.read(FIRST, NOW)

    unread = source.gpus()[0].unread

    assert unread == dict.fromkeys(
        (
            "throttle_thermal_ratio",
            "throttle_power_ratio",
            "ecc_uncorrected",
            "memory_temperature_c",
        ),
        "no_permission",
    )


def test_the_engines_beside_the_units_are_read_once_a_window(driver):
    driver.says("encoder 12", "decoder 100", "jpeg 7", "ofa 1")
    source = driver.open()

    readings = [source.read(FIRST, NOW + second * 1000) for second in range(11)]

    names = ("encoder_ratio", "decoder_ratio", "jpeg_ratio", "ofa_ratio")
    assert [tuple(map(reading.means.get, names)) for reading in readings if reading.means] == [
        (0.12, 1.0, 0.07, 0.01)
    ] * 3


def test_pcie_throughput_which_blocks_is_never_asked_for(driver):
    driver.says(WITHOUT_GPM, "fields 197:e:3,198:e:3")
    source = driver.open()
    for second in range(12):
        source.read(FIRST, NOW + second * 1000)

    assert driver.calls("nvmlDeviceGetPcieThroughput") == 0
    assert source.gpus()[0].unread["pcie_tx_bytes_s"] == "not_supported"


def test_the_counter_of_energy_may_fall_and_the_readings_say_so_as_it_is(driver):
    driver.says("energy 9000000")
    source = driver.open()
    before = source.read(FIRST, NOW).energy_j
    driver.says("energy 12000")

    assert (before, source.read(FIRST, NOW + 1000).energy_j) == (9000.0, 12.0)


def test_processes_speak_where_utilisation_is_silent(driver):
    driver.says(
        "err.nvmlDeviceGetUtilizationRates 3", "process_samples 1000:7:60,1000:8:60,2000:7:20"
    )
    source = driver.open()
    source.read(FIRST, NOW)
    dry = source.read(FIRST, NOW + 10_000).means
    driver.says(
        "err.nvmlDeviceGetUtilizationRates 3",
        "process_samples 2000:7:20,3000:7:70,3000:8:50,4000:7:20,4000:9:101",
    )

    means = source.read(FIRST, NOW + 20_000).means

    assert "process_sm_ratio" not in dry  # silence is not idleness
    assert means["process_sm_ratio"] == pytest.approx(0.6)  # (70 + 50, at most 100; 20) / 2


def test_processes_are_not_asked_for_what_the_gpu_says_itself(driver):
    driver.says("process_samples 1000:7:60")
    source = driver.open()
    before = driver.calls("nvmlDeviceGetProcessUtilization")
    for second in range(12):
        source.read(FIRST, NOW + second * 1000)

    assert driver.calls("nvmlDeviceGetProcessUtilization") == before
