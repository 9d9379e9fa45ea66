import os
import re
from pathlib import Path

import pytest

from agent.sources.nvidia_smi import smi_text

MIB = 1024 * 1024
EXTERNAL = os.environ.get("FLEETWATCH_EXTERNAL_DATA")
needs_recordings = pytest.mark.skipif(
    not EXTERNAL, reason="FLEETWATCH_EXTERNAL_DATA names no folder with recordings"
)


def read(header, line):
    table = smi_text.Table(header)
    return smi_text.csv_reading(table.row(line), at_ms=0)


def test_columns_are_found_by_name_in_any_order():
    reading = read(
        "power.draw [W], memory.used [MiB], utilization.memory [%], utilization.gpu [%], clocks.sm"
        " [MHz], temperature.gpu",
        "69.85 W, 0 MiB, 3 %, 0 %, 345 MHz, 28",
    )

    assert (reading.util, reading.memory_util, reading.memory_used_bytes) == (0.0, 0.03, 0)
    assert (reading.power_w, reading.sm_clock_hz, reading.temperature_c) == (69.85, 345e6, 28.0)


def test_without_units_in_the_cells_the_header_says_them():
    reading = read(
        "utilization.gpu [%], memory.used [MiB], power.draw [W], clocks.current.sm [MHz]",
        "97, 32362, 627.40, 1980",
    )

    assert (reading.util, reading.memory_used_bytes, reading.power_w, reading.sm_clock_hz) == (
        0.97,
        32362 * MIB,
        627.40,
        1980e6,
    )


def test_without_any_unit_nvidia_smis_own_are_meant():
    reading = read("utilization.gpu, memory.used, power.draw", "97, 32362, 627.40")

    assert (reading.util, reading.memory_used_bytes, reading.power_w) == (0.97, 32362 * MIB, 627.40)


@pytest.mark.parametrize(
    "cell",
    [
        "[N/A]",
        "N/A",
        "[Not Supported]",
        "ERR!",
        "[Unknown Error]",
        "[Requested functionality has been deprecated]",
        "",
        "[GPU is lost]",
        "nan",
    ],
)
def test_what_is_no_number_is_not_read(cell):
    reading = read("utilization.gpu [%], memory.used [MiB], power.draw [W]", ", ".join([cell] * 3))

    assert (reading.util, reading.memory_used_bytes, reading.power_w) == (None, None, None)


def test_a_utilisation_above_one_hundred_is_none():
    assert read("utilization.gpu [%], power.draw [W]", "101 %, 1 W").util is None


@pytest.mark.parametrize(
    ("cells", "watts"),
    [
        ("[N/A], 70.00 W, 71.00 W", 70.0),
        ("[N/A], [N/A], 71.00 W", 71.0),
        ("69.00 W, 70.00 W, 71.00 W", 69.0),
    ],
)
def test_power_has_three_names(cells, watts):
    assert (
        read("power.draw [W], power.draw.average [W], power.draw.instant [W]", cells).power_w
        == watts
    )


def test_a_torn_line_is_no_row():
    table = smi_text.Table("timestamp, utilization.gpu [%], power.draw [W]")

    assert table.row("2026/11/03 09:00:00.000, 97 %") is None
    assert table.row("timestamp, utilization.gpu [%], power.draw [W]") is None


def test_the_gpu_of_a_row_is_known_with_what_it_can_not_tell():
    table = smi_text.Table(
        "uuid, name, index, memory.total [MiB], enforced.power.limit [W], utilization.gpu [%],"
        " memory.used [MiB], persistence_mode"
    )
    row = table.row("GPU-1, NVIDIA H200, 3, 143771 MiB, 700.00 W, [N/A], 0 MiB, Enabled")

    gpu = smi_text.csv_gpu(row, uuid=smi_text.csv_uuid(row), index=smi_text.csv_index(row))

    assert (gpu.uuid, gpu.index, gpu.model, gpu.memory_total_bytes, gpu.power_limit_w) == (
        "GPU-1",
        3,
        "NVIDIA H200",
        143771 * MIB,
        700.0,
    )
    assert gpu.persistence is True
    assert gpu.unread == {
        "util_mean": "not_supported",
        "power_w": "not_supported",
        "temperature_c": "not_supported",
        "sm_clock_hz": "not_supported",
    }


def captured(name, moment):
    """The header and the rows of the capture's --query-gpu section."""
    text = (Path(EXTERNAL) / "nvidia_smi_captures" / name).read_text()
    section = re.search(
        r"^# %s :: query-gpu .*?^#{80}\n(.*?)(?:\n\n|\Z)" % moment, text, re.S | re.M
    )
    return section.group(1).strip().splitlines()


@needs_recordings
@pytest.mark.parametrize(
    ("name", "moment", "util", "mebibytes", "watts"),
    [
        ("linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt", "idle", 0.0, 0, 69.85),
        ("linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt", "load", 1.0, 19818, 631.95),
        ("linux-x86_64__nvidia-h200__590.48.01.txt", "idle", 0.0, 0, 77.71),
        ("linux-x86_64__nvidia-h200__590.48.01.txt", "load", 1.0, 32362, 627.40),
    ],
)
def test_real_captures_parse_to_the_values_in_their_text(name, moment, util, mebibytes, watts):
    header, line = captured(name, moment)

    reading = read(header, line)

    assert (reading.util, reading.memory_used_bytes, reading.power_w) == (
        util,
        mebibytes * MIB,
        watts,
    )


@needs_recordings
def test_every_capture_has_a_row_that_parses():
    for path in sorted((Path(EXTERNAL) / "nvidia_smi_captures").glob("*.txt")):
        for moment in ("idle", "load"):
            header, line = captured(path.name, moment)
            assert read(header, line).util is not None, path.name


@needs_recordings
@pytest.mark.parametrize(
    "name",
    [
        "linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt",
        "linux-x86_64__nvidia-h200__590.48.01.txt",
    ],
)
def test_a_real_capture_tells_throttling_errors_and_video_too(name):
    header, line = captured(name, "load")
    table = smi_text.Table(header)
    row = table.row(line)

    reading = smi_text.csv_reading(row, at_ms=0)

    assert smi_text.throttled_s(row) == {
        "throttle_power_ratio": (
            float(row.cells["clocks_event_reasons_counters.sw_power_cap"].split()[0]) / 1e6
        ),
        "throttle_thermal_ratio": 0.0,
    }
    engines = {"encoder_ratio", "decoder_ratio", "jpeg_ratio", "ofa_ratio"}
    assert set(reading.means) == engines | {"throttle_power_ratio", "throttle_thermal_ratio"}
    assert (reading.ecc_uncorrected, smi_text.lost_reason(row)) == (0, None)


@pytest.mark.parametrize(
    ("bits", "power", "thermal"),
    [
        ("0x0000000000000000", 0.0, 0.0),
        ("0x0000000000000001", 0.0, 0.0),  # idle
        ("0x0000000000000004", 1.0, 0.0),
        ("0x0000000000000080", 1.0, 0.0),
        ("0x0000000000000020", 0.0, 1.0),
        ("0x0000000000000048", 0.0, 1.0),
        ("[N/A]", None, None),
        ("", None, None),
    ],
)
@pytest.mark.parametrize("name", ["clocks_event_reasons.active", "clocks_throttle_reasons.active"])
def test_the_reasons_for_low_clocks_are_power_or_heat(name, bits, power, thermal):
    means = read("utilization.gpu [%%], %s" % name, "5 %%, %s" % bits).means

    assert (means.get("throttle_power_ratio"), means.get("throttle_thermal_ratio")) == (
        power,
        thermal,
    )


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ("[GPU is lost], [GPU is lost], [GPU is lost]", "GPU is lost"),
        ("[GPU requires reset], 0 MiB, [GPU requires reset]", "GPU requires reset"),
        ("[Unknown Error], [N/A], ERR!", "Unknown Error"),
        ("ERR!, ERR!, ERR!", "ERR!"),
        ("[N/A], [N/A], [N/A]", None),
        ("5 %, ERR!, 70.00 W", None),  # one broken sensor is no lost GPU
    ],
)
def test_a_lost_gpu_is_told_from_one_without_sensors(cells, reason):
    table = smi_text.Table("utilization.gpu [%], memory.used [MiB], power.draw [W]")

    assert smi_text.lost_reason(table.row(cells)) == reason
