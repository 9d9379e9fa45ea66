import pytest

from agent import config
from agent.sources.factory import open_source
from tests.agent.nvml_driver import needs_compiler

pytestmark = needs_compiler

NOW = 1_794_000_000_000
FIRST = "GPU-00000000-0000-0000-0000-000000000000"
SECOND = "GPU-00000000-0000-0000-0000-000000000001"
EVERYTHING = "gpm 1:97,2:71.5,3:33,5:40,10:52,11:1,12:2,13:3,20:10,21:20,60:30,61:40"


def mean_of_a_window(source, uuid=FIRST):
    source.read(uuid, NOW)
    return source.read(uuid, NOW + 10_000).means


def test_averages_come_once_a_window_as_ratios_and_bytes_a_second(driver):
    driver.says(EVERYTHING)
    source = driver.open()

    readings = [source.read(FIRST, NOW + second * 1000) for second in range(21)]

    told = [reading.at_ms - NOW for reading in readings if "sm_active" in reading.means]
    # the first sample is only the beginning; then soon, then each window
    assert told == [2000, 10_000, 20_000]
    means = readings[20].means
    assert means["gr_engine_active"] == pytest.approx(0.97)
    assert means["sm_active"] == pytest.approx(0.715)
    assert (means["sm_occupancy"], means["tensor_active"], means["dram_active"]) == pytest.approx(
        (0.33, 0.40, 0.52)
    )
    assert (means["fp64_active"], means["fp32_active"], means["fp16_active"]) == pytest.approx(
        (0.01, 0.02, 0.03)
    )
    assert (means["pcie_tx_bytes_s"], means["pcie_rx_bytes_s"]) == (10 * 1048576, 20 * 1048576)
    assert (means["nvlink_rx_bytes_s"], means["nvlink_tx_bytes_s"]) == (30 * 1048576, 40 * 1048576)


def test_each_gpu_costs_one_call_for_all_metrics_and_one_sample_a_window(driver):
    driver.says("count 2", EVERYTHING)
    source = driver.open()
    before = driver.calls("nvmlGpmMetricsGet"), driver.calls("nvmlGpmSampleGet")

    for second in range(0, 31):
        for uuid in (FIRST, SECOND):
            source.read(uuid, NOW + second * 1000)

    # at 0 (no metrics yet), 2, 10, 20 and 30 s
    assert (
        driver.calls("nvmlGpmMetricsGet") - before[0],
        driver.calls("nvmlGpmSampleGet") - before[1],
    ) == (2 * 4, 2 * 5)


def test_a_metric_that_is_no_number_or_beyond_belief_is_not_read_and_zero_is(driver):
    driver.says("gpm 1:nan,2:0,3:111,5:109,10:-1,20:inf")

    means = mean_of_a_window(driver.open())

    assert (means["sm_active"], means["tensor_active"]) == (0.0, 1.0)
    assert not {"gr_engine_active", "sm_occupancy", "dram_active", "pcie_tx_bytes_s"} & set(means)


def test_a_metric_with_an_error_of_its_own_leaves_the_others_and_says_why(driver):
    driver.says("gpm 2:50,5:e3,10:e4")
    source = driver.open()

    means = mean_of_a_window(source)

    assert means["sm_active"] == 0.5
    assert not {"tensor_active", "dram_active"} & set(means)
    assert source.gpus()[0].unread == {
        "tensor_active": "not_supported",
        "dram_active": "no_permission",
    }


def test_a_gpu_before_hopper_says_not_supported_and_is_asked_again_after_an_hour(driver):
    driver.says("gpm_supported 0")
    source = driver.open()

    means = mean_of_a_window(source)
    asked = driver.calls("nvmlGpmQueryDeviceSupport")
    source.read(FIRST, NOW + 20_000)

    assert "sm_active" not in means
    assert source.gpus()[0].unread["sm_active"] == "not_supported"
    assert driver.calls("nvmlGpmQueryDeviceSupport") == asked
    assert driver.lent[0] == 0
    source.read(FIRST, NOW + 3_600_000)
    assert driver.calls("nvmlGpmQueryDeviceSupport") == asked + 1


def test_switched_off_it_is_never_called_and_the_reason_is_off(driver):
    driver.says(EVERYTHING)
    asked = driver.calls("nvmlGpmQueryDeviceSupport")
    source = driver.open(gpm=False)

    means = mean_of_a_window(source)

    assert "sm_active" not in means
    assert means["pcie_tx_bytes_s"] == 0.0  # by its counter instead
    assert source.gpus()[0].unread == dict.fromkeys(
        (
            "gr_engine_active",
            "sm_active",
            "sm_occupancy",
            "tensor_active",
            "dram_active",
            "fp64_active",
            "fp32_active",
            "fp16_active",
        ),
        "off",
    )
    assert driver.calls("nvmlGpmQueryDeviceSupport") == asked


def test_no_average_spans_a_suspend(driver):
    driver.says("gpm 2:50")
    source = driver.open()
    source.read(FIRST, NOW)

    just_within, beyond = source.read(FIRST, NOW + 30_000), source.read(FIRST, NOW + 60_001)

    assert just_within.means["sm_active"] == 0.5
    assert "sm_active" not in beyond.means
    assert source.read(FIRST, NOW + 70_000).means["sm_active"] == 0.5


def test_a_sample_that_the_driver_refuses_costs_one_average_not_the_next(driver):
    driver.says("gpm 2:50")
    source = driver.open()
    source.read(FIRST, NOW)
    driver.says("gpm 2:50", "err.nvmlGpmSampleGet 999")
    refused = source.read(FIRST, NOW + 10_000)
    driver.says("gpm 2:50")

    after = source.read(FIRST, NOW + 20_000)

    assert "sm_active" not in refused.means
    assert after.means["sm_active"] == 0.5  # over 20 s: back to the sample that is kept


def test_another_version_of_the_call_is_unread_not_a_crash(driver):
    driver.says("err.nvmlGpmMetricsGet 25")
    source = driver.open()

    means = mean_of_a_window(source)

    assert "sm_active" not in means
    assert source.gpus()[0].unread["tensor_active"] == "not_supported"


def test_every_sample_and_event_set_is_given_back_and_a_new_source_can_be_opened(driver):
    driver.says("count 2", "gpm 2:50")
    source = driver.open()
    mean_of_a_window(source)
    mean_of_a_window(source, SECOND)
    lent = driver.lent

    source.close()

    assert (lent, driver.lent) == ((4, 1), (0, 0))
    assert mean_of_a_window(driver.open())["sm_active"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "expected"), [([], 0.5), (["--gpm", "on"], 0.5), (["--gpm", "off"], None)]
)
def test_the_operators_switch_reaches_the_driver(driver, arguments, expected):
    driver.says("gpm 2:50")
    chosen = config.parse(["check", "--source", "auto", *arguments], {})

    source = open_source(chosen.source, node="n", start_ms=NOW, gpm=chosen.gpm)

    assert mean_of_a_window(source).get("sm_active") == expected
    source.close()


def test_the_switch_takes_on_and_off_only():
    with pytest.raises(config.ConfigError, match="expected on or off"):
        config.parse(["check"], {"FLEETWATCH_GPM": "no"})
