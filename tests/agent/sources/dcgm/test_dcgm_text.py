import os
import re
from pathlib import Path

import pytest

from agent.sources.dcgm.dcgm_text import Holder, cards_of, reading_of, throttle_ratios
from agent.sources.dcgm.prometheus_text import parse

MIB = 1024 * 1024
EXTERNAL = os.environ.get("FLEETWATCH_EXTERNAL_DATA")
needs_recordings = pytest.mark.skipif(
    not EXTERNAL, reason="FLEETWATCH_EXTERNAL_DATA names no folder with recordings"
)
H100 = (
    'gpu="0",UUID="GPU-1",pci_bus_id="00000000:3B:00.0",device="nvidia0",modelName="NVIDIA H100'
    ' 80GB HBM3",Hostname="n1"'
)


def scraped(*lines):
    """The scrape of these lines; `name value` stands on GPU-1."""
    return cards_of(
        parse(
            "\n".join(
                line if "{" in line else "%s{%s} %s" % (line.split()[0], H100, line.split()[1])
                for line in lines
            )
        ).samples
    )


def read(*lines, **options):
    return reading_of(
        scraped(*lines).cards["GPU-1"], **{"at_ms": 0, "is_fresh": True, "ratios": {}, **options}
    )


def test_every_unit_becomes_a_base_unit():
    reading = read(
        "DCGM_FI_DEV_GPU_UTIL 97",
        "DCGM_FI_DEV_MEM_COPY_UTIL 41",
        "DCGM_FI_DEV_FB_USED 19818",
        "DCGM_FI_DEV_FB_RESERVED 551",
        "DCGM_FI_DEV_POWER_USAGE 612.4",
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION 4742776",
        "DCGM_FI_DEV_GPU_TEMP 58",
        "DCGM_FI_DEV_MEMORY_TEMP 71",
        "DCGM_FI_DEV_SM_CLOCK 1755",
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL 2",
    )

    assert (reading.util, reading.memory_util) == (0.97, 0.41)
    assert (reading.memory_used_bytes, reading.memory_reserved_bytes) == (19818 * MIB, 551 * MIB)
    assert (reading.power_w, reading.energy_j, reading.sm_clock_hz) == (612.4, 4742.776, 1755e6)
    assert (reading.temperature_c, reading.memory_temperature_c, reading.ecc_uncorrected) == (
        58,
        71,
        2,
    )


def test_activities_are_ratios_already_and_rates_bytes_per_second():
    reading = read(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE 0.99",
        "DCGM_FI_PROF_SM_ACTIVE 0.71",
        "DCGM_FI_PROF_SM_OCCUPANCY 0.4",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE 0.33",
        "DCGM_FI_PROF_DRAM_ACTIVE 0.000131",
        "DCGM_FI_PROF_PIPE_FP64_ACTIVE 0",
        "DCGM_FI_PROF_PCIE_RX_BYTES 17544",
        "DCGM_FI_PROF_NVLINK_TX_BYTES 1.5e+09",
        "DCGM_FI_DEV_ENC_UTIL 5",
    )

    assert reading.means == {
        "gr_engine_active": 0.99,
        "sm_active": 0.71,
        "sm_occupancy": 0.4,
        "tensor_active": 0.33,
        "dram_active": 0.000131,
        "fp64_active": 0,
        "pcie_rx_bytes_s": 17544,
        "nvlink_tx_bytes_s": 1.5e9,
        "encoder_ratio": 0.05,
    }


@pytest.mark.parametrize(
    ("old", "new", "column"),
    [
        ("GR_ENGINE_ACTIVE", "GR_ENGINE_UTIL_RATIO", "gr_engine_active"),
        ("SM_ACTIVE", "SM_UTIL_RATIO", "sm_active"),
        ("SM_OCCUPANCY", "SM_OCCUPANCY_RATIO", "sm_occupancy"),
        ("PIPE_TENSOR_ACTIVE", "TENSOR_UTIL_RATIO", "tensor_active"),
        ("DRAM_ACTIVE", "DRAM_UTIL_RATIO", "dram_active"),
        ("PIPE_FP64_ACTIVE", "FP64_UTIL_RATIO", "fp64_active"),
        ("PIPE_FP32_ACTIVE", "FP32_UTIL_RATIO", "fp32_active"),
        ("PIPE_FP16_ACTIVE", "FP16_UTIL_RATIO", "fp16_active"),
    ],
)
def test_a_renamed_field_is_the_same_field(old, new, column):
    assert (
        read("DCGM_FI_PROF_%s 0.5" % old).means
        == read("DCGM_FI_PROF_%s 0.5" % new).means
        == {column: 0.5}
    )


@pytest.mark.parametrize(
    ("name", "slot"), [("dcgm_gpu_utilization 97", 0.97), ("DCGM_FI_DEV_GPU_UTIL 97", 0.97)]
)
def test_the_names_of_the_first_exporters_are_known(name, slot):
    assert read(name).util == slot


@pytest.mark.parametrize(
    ("text", "util"),
    [("1", 0.01), ("97", 0.97), ("100", 1.0), ("1.000000", 1.0), ("0.970000", 0.97), ("0", 0.0)],
)
def test_the_one_name_with_two_units_is_told_apart_by_how_it_is_printed(text, util):
    assert read("DCGM_FI_DEV_GPU_UTIL_RATIO %s" % text).util == util


def test_memory_in_bytes_and_in_mebibytes_is_the_same():
    assert (
        read("DCGM_FI_DEV_FB_USED_BYTES 1048576").memory_used_bytes
        == read("DCGM_FI_DEV_FB_USED 1").memory_used_bytes
        == MIB
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("9223372036854775792", "error"),
        ("9223372036854775793", "error"),
        ("9223372036854775794", "not_supported"),
        ("9223372036854775795", "no_permission"),
        ("9.223372036854776e+18", "not_supported"),
        ("2147483632", "error"),
        ("2147483634", "not_supported"),
        ("2147483635", "no_permission"),
        ("140737488355330.000000", "not_supported"),
        ("NaN", "error"),
        ("+Inf", "error"),
        ("-1", "error"),
    ],
)
@pytest.mark.parametrize(
    "field", ["DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_UTIL"]
)
def test_a_blank_is_not_read_and_says_why(field, text, why):
    scrape = scraped("%s %s" % (field, text), "DCGM_FI_DEV_GPU_TEMP 31")

    card = scrape.cards["GPU-1"]
    column = {
        "DCGM_FI_DEV_POWER_USAGE": "power_w",
        "DCGM_FI_DEV_FB_USED": "memory_used_bytes",
        "DCGM_FI_DEV_GPU_UTIL": "util_mean",
    }[field]
    assert card.info.unread[column] == why
    reading = reading_of(card, at_ms=0, is_fresh=True, ratios={})
    assert (reading.util, reading.memory_used_bytes, reading.power_w, reading.temperature_c) == (
        None,
        None,
        None,
        31,
    )


@pytest.mark.parametrize(("text", "util"), [("100", 1.0), ("101", None), ("0", 0.0)])
def test_more_than_all_is_no_utilisation(text, util):
    assert read("DCGM_FI_DEV_GPU_UTIL " + text).util == util


def test_a_board_without_a_memory_sensor_says_zero_which_is_not_read():
    card = scraped("DCGM_FI_DEV_MEMORY_TEMP 0", "DCGM_FI_DEV_GPU_TEMP -3").cards["GPU-1"]

    reading = reading_of(card, at_ms=0, is_fresh=True, ratios={})

    assert (reading.memory_temperature_c, reading.temperature_c) == (None, -3)
    assert card.info.unread["memory_temperature_c"] == "not_supported"


def test_what_the_exporter_was_not_told_to_export_is_said_so():
    unread = scraped("DCGM_FI_DEV_GPU_UTIL 5").cards["GPU-1"].info.unread

    assert (unread["sm_active"], unread["power_w"]) == ("not_exported", "not_exported")
    assert "util_mean" not in unread


def test_the_labels_tell_who_the_gpu_is():
    scrape = scraped(
        "DCGM_FI_DEV_FB_USED 1000",
        "DCGM_FI_DEV_FB_FREE 80000",
        "DCGM_FI_DEV_FB_RESERVED 559",
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT 700",
        "DCGM_FI_DEV_PERSISTENCE_MODE 0",
        'DCGM_FI_DEV_GPU_UTIL{%s,DCGM_FI_DRIVER_VERSION="580.105.08"} 5' % H100,
    )

    info = scrape.cards["GPU-1"].info
    assert (info.uuid, info.index, info.model, info.bus_id) == (
        "GPU-1",
        0,
        "NVIDIA H100 80GB HBM3",
        "00000000:3B:00.0",
    )
    assert (info.memory_total_bytes, info.power_limit_w, info.persistence) == (
        81559 * MIB,
        700,
        False,
    )
    assert scrape.driver == "580.105.08"


@pytest.mark.parametrize("labels", ['gpu="0"', 'UUID=""', 'nvswitch="nvswitch0"'])
def test_what_names_no_gpu_is_none(labels):
    assert scraped("DCGM_FI_DEV_GPU_UTIL{%s} 5" % labels).cards == {}


def instance(number, profile="1g.10gb", more=""):
    return '%s,GPU_I_PROFILE="%s",GPU_I_ID="%d"%s' % (H100, profile, number, more)


def test_a_mig_instance_is_part_of_its_parent_which_has_the_power_once():
    scrape = scraped(
        *("DCGM_FI_DEV_POWER_USAGE{%s} 470" % instance(number) for number in (7, 8)),
        *("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{%s} 5000" % instance(number) for number in (7, 8)),
        "DCGM_FI_DEV_FB_USED{%s} 100" % instance(7),
        "DCGM_FI_DEV_FB_FREE{%s} 9900" % instance(7),
        "DCGM_FI_DEV_FB_USED{%s} 200" % instance(8),
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE{%s} 0.25" % instance(8),
    )

    cards = {
        uuid: (card.info.parent_uuid, card.info.mig_profile, card.info.memory_total_bytes)
        for uuid, card in scrape.cards.items()
    }
    assert cards == {
        "GPU-1": (None, None, None),
        "MIG-GPU-1-7": ("GPU-1", "1g.10gb", 10000 * MIB),
        "MIG-GPU-1-8": ("GPU-1", "1g.10gb", None),
    }
    readings = {
        uuid: reading_of(card, at_ms=0, is_fresh=True, ratios={})
        for uuid, card in scrape.cards.items()
    }
    assert [readings[uuid].power_w for uuid in cards] == [470, None, None]
    assert [readings[uuid].energy_j for uuid in cards] == [5, None, None]
    assert [readings[uuid].memory_used_bytes for uuid in cards] == [None, 100 * MIB, 200 * MIB]
    assert [dict(readings[uuid].means) for uuid in cards] == [{}, {}, {"gr_engine_active": 0.25}]
    assert "power_w" not in scrape.cards["MIG-GPU-1-7"].info.unread


def holders(*lines):
    scrape = scraped(*lines)
    return {uuid: card.holders for uuid, card in scrape.cards.items()}, scrape.schedulers


def test_the_pod_in_the_labels_holds_the_gpu():
    held, schedulers = holders(
        'DCGM_FI_DEV_GPU_UTIL{%s,container="main",namespace="nlp",pod="train-0"} 5' % H100
    )

    assert held == {"GPU-1": {Holder("kubernetes", "nlp/train-0", "nlp/train-0", "nlp")}}
    assert schedulers == {"kubernetes"}


def test_a_pod_with_its_uid_is_known_by_it():
    held, _ = holders(
        'DCGM_FI_DEV_GPU_UTIL{%s,namespace="nlp",pod="train-0",pod_uid="8a1c"} 5' % H100
    )

    assert held == {"GPU-1": {Holder("kubernetes", "8a1c", "nlp/train-0", "nlp")}}


def test_labels_that_are_there_and_empty_say_that_nobody_holds_it():
    held, schedulers = holders('DCGM_FI_DEV_GPU_UTIL{%s,container="",namespace="",pod=""} 0' % H100)

    assert (held, schedulers) == ({"GPU-1": set()}, {"kubernetes"})


def test_no_labels_at_all_say_nothing_of_a_scheduler():
    assert holders("DCGM_FI_DEV_GPU_UTIL 0") == ({"GPU-1": set()}, frozenset())


def test_a_shared_gpu_says_everything_once_for_each_holder():
    labels = [',namespace="nlp",pod="%s"' % pod for pod in ("a", "b")]
    scrape = scraped(*("DCGM_FI_DEV_GPU_UTIL{%s%s} 40" % (H100, label) for label in labels))

    assert {holder.name for holder in scrape.cards["GPU-1"].holders} == {"nlp/a", "nlp/b"}
    assert reading_of(scrape.cards["GPU-1"], at_ms=0, is_fresh=True, ratios={}).util == 0.4


@pytest.mark.parametrize(
    ("label", "job"),
    [("4711", "4711"), ("4711 1000", "4711"), ("", None), ("0", None), ("  ", None)],
)
def test_the_batch_job_of_an_hpc_mapping_holds_the_gpu(label, job):
    held, schedulers = holders('DCGM_FI_DEV_GPU_UTIL{%s,hpc_job="%s"} 5' % (H100, label))

    assert held == {"GPU-1": {Holder("slurm", job)} if job else set()}
    assert schedulers == {"slurm"}


def test_each_instance_has_its_own_holder():
    held, _ = holders(
        "DCGM_FI_DEV_FB_USED{%s} 1" % instance(7, more=',namespace="nlp",pod="a"'),
        "DCGM_FI_DEV_FB_USED{%s} 1" % instance(8, more=',pod=""'),
    )

    assert {uuid: {holder.name for holder in found} for uuid, found in held.items()} == {
        "GPU-1": set(),
        "MIG-GPU-1-7": {"nlp/a"},
        "MIG-GPU-1-8": set(),
    }


@pytest.mark.parametrize(
    ("before", "after", "ratio"),
    [
        (10.0, 13.0, 0.3),
        (10.0, 10.0, 0.0),
        (0.0, 10.0, 1.0),
        (0.0, 12.0, 1.0),
        (0.0, 16.0, None),
        (10.0, 9.0, None),
    ],
)
def test_a_throttle_counter_gives_the_share_of_the_time(before, after, ratio):
    found = throttle_ratios({"throttled_power_s": before}, {"throttled_power_s": after}, 10.0)

    assert found.get("throttle_power_ratio") == ratio


def test_throttle_counters_are_nanoseconds():
    assert scraped("DCGM_FI_DEV_POWER_VIOLATION 3000000000").cards["GPU-1"].values == {
        "throttled_power_s": pytest.approx(3.0)
    }


@pytest.mark.parametrize("label", ["gpu", "GPU_I_ID"])
def test_a_label_that_only_looks_like_a_number_costs_no_gpu(label):
    line = 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1",%s="\N{SUPERSCRIPT TWO}"} 5' % label

    assert [card.values["util"] for card in scraped(line).cards.values() if card.values] == [0.05]


def test_a_hostile_exporter_costs_no_more_than_a_thousand_gpus():
    samples = parse(
        "\n".join('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-%d"} 1' % number for number in range(3000))
    ).samples

    assert len(cards_of(samples).cards) == 1024


RECORDED = {
    # util, FB used and reserved in MiB, watts, millijoules, celsius, SM clock in MHz, PCIe received
    # in bytes/s
    "kops_l4.md": ("NVIDIA L4", "580.105.08", 0.0, 0, 470, 16.365, 4742776, 31, 210, 17544),
    "rafay_t4.md": ("Tesla T4", "580.105.08", 0.0, 0, 447, 14.512, 48287135, 24, 300, 30378),
    "upcloud_l40s.md": (
        "NVIDIA L40S",
        "595.58.03",
        0.0,
        0,
        608,
        35.686,
        5551899580,
        32,
        210,
        19831,
    ),
}


@needs_recordings
@pytest.mark.parametrize("name", sorted(RECORDED))
def test_real_answers_give_the_values_in_their_text(name):
    text = (Path(EXTERNAL) / "dcgm_metrics" / name).read_text()

    scrape = cards_of(parse(text).samples)

    (card,) = scrape.cards.values()
    reading = reading_of(card, at_ms=0, is_fresh=True, ratios={})
    model, driver, util, used, reserved, watts, millijoules, celsius, megahertz, received = (
        RECORDED[name]
    )
    assert (card.info.model, scrape.driver, card.info.uuid) == (
        model,
        driver,
        re.search(r'UUID="([^"]+)"', text).group(1),
    )
    assert (reading.util, reading.memory_used_bytes, reading.memory_reserved_bytes) == (
        util,
        used * MIB,
        reserved * MIB,
    )
    assert (reading.power_w, reading.temperature_c, reading.sm_clock_hz) == (
        watts,
        celsius,
        megahertz * 1e6,
    )
    assert reading.energy_j == pytest.approx(millijoules / 1000)
    assert reading.means["pcie_rx_bytes_s"] == received
    assert reading.memory_temperature_c is None  # none of them has the sensor; all three print 0
    assert (card.holders, scrape.schedulers) == (set(), frozenset())


@needs_recordings
def test_every_field_of_the_exporter_s_own_lists_that_the_wire_has_a_column_for_is_known():
    lists = [path.read_text() for path in (Path(EXTERNAL) / "dcgm_metrics").glob("*.csv")]
    names = {
        match
        for text in lists
        for match in re.findall(r"^#? ?((?:DCGM_FI|dcgm)_\w+) ?,", text, re.MULTILINE)
    }
    unused = re.compile(
        "MEM_?O?R?Y?_CLOCK|REPLAY|VIOLATION|violation|_SBE|_sbe|DBE_AGG|dbe_agg|RETIRED|retired|NVLINK_|nvlink_|VGPU|REMAP|VERSION|_VER|BRAND"
        "|SERIAL|memory_clock|replay"
    )

    for name in sorted(names - {name for name in names if unused.search(name)}):
        assert cards_of(parse('%s{UUID="GPU-1"} 1' % name).samples).cards["GPU-1"].values, name
