import pytest

from agent.readings import ProcessReading, SourceError
from tests.agent.nvml_driver import needs_compiler

pytestmark = needs_compiler

NOW = 1_794_000_000_000
CARD = "GPU-00000000-0000-0000-0000-000000000000"
SMALL = "MIG-00000000-0000-0000-0007-000000000000"
LARGE = "MIG-00000000-0000-0000-0002-000000000000"
# slot 0 is a hole; 1g.10gb and 3g.40gb of an H100 with 80 GB
TWO = "instances.0 1:7:0:16:9856:1:1,2:2:0:60:40192:3:3:3g.40gb"
CUT = ("mig.0 1", TWO)


def test_instances_follow_their_gpu_with_their_own_memory_and_sms(driver):
    driver.says(*CUT)

    card, small, large = driver.open().gpus()

    assert (card.uuid, card.parent_uuid, card.mig_profile) == (CARD, None, None)
    assert (small.uuid, small.parent_uuid, small.mig_profile, small.sm_count) == (
        SMALL,
        CARD,
        "1g.10gb",
        16,
    )
    assert (large.uuid, large.parent_uuid, large.mig_profile, large.sm_count) == (
        LARGE,
        CARD,
        "3g.40gb",
        60,
    )
    assert (small.memory_total_bytes, large.memory_total_bytes) == (9856 * 2**20, 40192 * 2**20)
    assert (small.model, small.bus_id, small.power_limit_w) == (card.model, card.bus_id, None)
    assert (card.gpu_instance, small.gpu_instance, large.gpu_instance) == (None, 7, 2)


@pytest.mark.parametrize(
    ("shares", "profile"),
    [
        ("9856:1:1", "1g.10gb"),
        ("19968:2:2", "2g.20gb"),
        ("40192:4:4", "4g.40gb"),
        ("80384:7:7", "7g.80gb"),
        ("19968:2:1", "1c.2g.20gb"),
    ],
)
def test_a_profile_is_named_as_nvidia_does_where_the_driver_does_not_name_it(
    driver, shares, profile
):
    driver.says("mig.0 1", f"instances.0 0:1:0:16:{shares}")

    assert driver.open().gpus()[1].mig_profile == profile


def test_power_and_temperature_are_the_cards_and_memory_is_each_ones(driver):
    driver.says(*CUT, "power 240000", "memory_7.0 1048576", "memory_2.0 0")
    source = driver.open()
    source.gpus()

    card, small, large = (source.read(uuid, NOW) for uuid in (CARD, SMALL, LARGE))

    assert (card.power_w, card.temperature_c, card.util) == (240.0, 34.0, None)
    assert (small.power_w, small.energy_j, small.util, small.memory_used_bytes) == (
        None,
        None,
        None,
        1_048_576,
    )
    assert large.memory_used_bytes == 0


def test_gpm_tells_each_instance_its_own_averages(driver):
    gpm = ("gpm_7.0 1:10,2:20,5:30", "gpm_2.0 1:90,2:80,5:70")
    driver.says(*CUT, *gpm)
    source = driver.open()
    source.gpus()
    for uuid in (CARD, SMALL, LARGE):
        source.read(uuid, NOW)

    card, small, large = (source.read(uuid, NOW + 10_000).means for uuid in (CARD, SMALL, LARGE))

    assert (small["gr_engine_active"], small["sm_active"], small["tensor_active"]) == pytest.approx(
        (0.1, 0.2, 0.3)
    )
    assert (large["gr_engine_active"], large["sm_active"], large["tensor_active"]) == pytest.approx(
        (0.9, 0.8, 0.7)
    )
    assert "sm_active" not in card  # the instances' activity is not the card's as well
    assert card["pcie_tx_bytes_s"] == 0.0  # by its counter: the bus is the card's


def test_on_a_card_without_gpm_an_instance_says_what_it_cannot_tell(driver):
    driver.says(*CUT, "gpm_supported 0")
    source = driver.open()
    source.gpus()
    for second in (0, 10_000):
        for uuid in (CARD, SMALL, LARGE):
            source.read(uuid, NOW + second)

    small = source.gpus()[1]

    columns = (
        "util_mean",
        "sm_active",
        "tensor_active",
        "dram_active",
        "power_w",
        "energy_j",
        "temperature_c",
    )
    assert {small.unread[column] for column in columns} == {"not_supported"}
    assert "memory_used_bytes" not in small.unread


def test_switched_off_gpm_is_off_for_instances_too(driver):
    driver.says(*CUT)

    assert driver.open(gpm=False).gpus()[1].unread["sm_active"] == "off"


def test_compute_instances_that_share_a_gpu_instance_have_no_averages_of_their_own(driver):
    driver.says("mig.0 1", "instances.0 0:1:0:16:19968:2:1,1:1:1:16:19968:2:1", "gpm_1.0 2:80")
    source = driver.open()
    infos = source.gpus()
    for second in (0, 10_000):
        readings = [source.read(gpu.uuid, NOW + second) for gpu in infos]

    assert [gpu.mig_profile for gpu in infos[1:]] == ["1c.2g.20gb"] * 2
    assert [reading.means for reading in readings[1:]] == [{}, {}]


def test_processes_belong_to_their_instance(driver):
    processes = "processes.0 11:1024:7:0,12:2048:2:0,13:4096:2:0,14:8192"
    driver.says(*CUT, processes)
    source = driver.open()
    source.gpus()
    before = driver.calls("nvmlDeviceGetComputeRunningProcesses_v3")

    card, small, large = (source.processes(uuid) for uuid in (CARD, SMALL, LARGE))

    assert card == [ProcessReading(14, 8192)]
    assert small == [ProcessReading(11, 1024)]
    assert large == [ProcessReading(12, 2048), ProcessReading(13, 4096)]
    # one list serves all three: the binding calls twice, for its length and for itself
    assert driver.calls("nvmlDeviceGetComputeRunningProcesses_v3") == before + 2


def test_without_the_right_to_the_cards_list_each_instance_is_asked_itself(driver):
    driver.says(*CUT, "unprivileged 1", "processes.0 11:1024:7:0,12:2048:2:0")
    source = driver.open()
    source.gpus()

    card, small, large = (source.processes(uuid) for uuid in (CARD, SMALL, LARGE))

    assert card is None
    assert (small, large) == ([ProcessReading(11, 1024)], [ProcessReading(12, 2048)])
    assert source.gpus()[0].unread["process_count"] == "no_permission"


def test_mig_turned_on_is_seen_with_the_next_window_and_off_again(driver):
    driver.says("util 50", TWO)
    source = driver.open()
    whole = [gpu.uuid for gpu in source.gpus()]
    source.read(CARD, NOW)
    driver.says("util 50", *CUT)
    source.read(CARD, NOW + 5000)
    cut = [gpu.uuid for gpu in source.gpus()]
    without = source.read(CARD, NOW + 10_000)
    driver.says("util 50", TWO)

    again = [gpu.uuid for gpu in source.gpus()]

    assert (whole, cut, again) == ([CARD], [CARD, SMALL, LARGE], [CARD])
    assert without.util is None
    whole_again = [source.read(CARD, NOW + at_ms) for at_ms in (15_000, 20_000)]
    assert whole_again[0].util == 0.5  # not unread for an hour: it was another mode
    assert "sm_active" in whole_again[1].means


def test_another_cut_is_seen_within_a_minute_and_samples_are_given_back(driver):
    driver.says(*CUT)
    source = driver.open()
    source.gpus()
    for uuid in (CARD, SMALL, LARGE):
        source.read(uuid, NOW)
    source.gpus()
    driver.says("mig.0 1", "instances.0 0:9:0:132:80384:7:7")
    source.read(CARD, NOW + 61_000)

    card, whole = source.gpus()

    assert (card.uuid, whole.mig_profile) == (CARD, "7g.80gb")
    source.read(whole.uuid, NOW + 61_000)
    assert driver.lent[0] == 2  # the new instance's; those of the old ones were freed
    with pytest.raises(SourceError, match="is not here"):
        source.read(SMALL, NOW + 62_000)


def test_an_instance_whose_handle_died_has_the_cut_looked_at_with_the_next_window(driver):
    driver.says(*CUT)
    source = driver.open()
    source.gpus()
    for uuid in (CARD, SMALL, LARGE):
        source.read(uuid, NOW)
    source.gpus()
    driver.says("mig.0 1", "instances.0 2:2:0:60:40192:3:3:3g.40gb")
    source.read(CARD, NOW + 5000)

    dead = source.read(SMALL, NOW + 5000)

    assert dead.memory_used_bytes is None
    assert [gpu.uuid for gpu in source.gpus()] == [CARD, LARGE]


def test_a_card_that_cannot_be_cut_has_no_instances_and_is_asked_once_an_hour(driver):
    driver.says("mig_capable 0", TWO)
    source = driver.open()
    source.read(CARD, NOW)
    source.gpus()
    before = driver.calls("nvmlDeviceGetMigMode")

    for window in range(1, 6):
        source.read(CARD, NOW + window * 10_000)
        assert len(source.gpus()) == 1

    assert driver.calls("nvmlDeviceGetMigMode") == before
