import json

import pytest

from agent.check import check_advice, report
from agent.check.report import WIDTH, Finding, Look
from agent.readings import GPUInfo
from agent.window import GPUWindow
from tests.agent.factories import H100, START, gpu

GIB = 1024**3
EVERYTHING = {metric.column: 0.5 for metric in check_advice.METRICS}


def window(uuid="GPU-1", **columns):
    return GPUWindow(uuid, START, 10_000, columns)


def look(**changes):
    return Look(
        **{
            "node": "gpu-07",
            "versions": {"agent": "1.0.0"},
            "source": "nvml",
            "gpus": [gpu()],
            "windows": [window()],
            **changes,
        }
    )


def shown(**changes):
    return report.text(look(**changes), has_colour=False)


def line_of(text, word):
    return next(line for line in text.splitlines() if word in line)


def test_a_gpu_is_a_line_with_what_it_is_and_what_it_does():
    one = gpu(index=3, memory_total_bytes=80 * GIB)

    text = shown(
        gpus=[one], windows=[window(memory_used_bytes=20 * GIB, power_w=612.4, util_mean=0.97)]
    )

    assert (
        line_of(text, "GPU-1")
        == "3    NVIDIA H100 80GB HBM3  20.0/80.0 GiB  612/700 W  97 %  GPU-1"
    )


def test_what_was_not_read_is_a_dash_and_never_zero():
    text = shown(gpus=[GPUInfo("GPU-1", 0)], windows=[window()])

    assert line_of(text, "GPU-1").split() == ["0", "unknown", "-", "-", "-", "GPU-1"]
    assert "0 %" not in text


def test_mig_instances_stand_below_their_gpu_and_have_no_power_of_their_own():
    instance = GPUInfo("MIG-1", 0, H100, 10 * GIB, parent_uuid="GPU-1", mig_profile="1g.10gb")
    text = shown(
        gpus=[gpu(), instance],
        windows=[window(power_w=470.0), window("MIG-1", memory_used_bytes=GIB, sm_active=0.1)],
    )

    assert line_of(text, "MIG-1").split() == ["MIG", "1g.10gb", "1.0/10.0", "GiB", "-", "MIG-1"]
    assert line_of(text, "ok  power").endswith("1 of 1")  # the board's
    # the instance's: the board as a whole can't tell it
    assert line_of(text, "SM active").endswith("1 of 1")
    assert line_of(text, "ok  memory").endswith("1 of 1")


def test_a_metric_that_works_everywhere_is_ok_and_one_that_works_nowhere_says_why():
    text = shown(gpus=[gpu(unread={"sm_active": "not_supported"})], windows=[window(util_mean=0.5)])

    assert line_of(text, "utilisation").split() == ["ok", "utilisation", "1", "of", "1"]
    assert line_of(text, "SM active").split() == [
        "no",
        "SM",
        "active",
        "0",
        "of",
        "1",
        "not",
        "supported",
    ]


def test_a_metric_that_works_on_some_says_on_how_many_not_for_each_reason():
    gpus = [
        gpu("GPU-1"),
        gpu("GPU-2", unread={"power_w": "no_permission"}),
        gpu("GPU-3", unread={"power_w": "error"}),
        gpu("GPU-4", unread={"power_w": "error"}),
    ]
    text = shown(
        gpus=gpus,
        windows=[
            window(one.uuid, util_mean=0.5, **({"power_w": 1.0} if one.uuid == "GPU-1" else {}))
            for one in gpus
        ],
    )

    assert "part  power          1 of 4    error on 2, no permission on 1" in text


@pytest.mark.parametrize(
    ("column", "reason", "said"),
    [
        ("sm_active", "not_supported", "--source dcgm=URL"),
        ("sm_active", "no_permission", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("power_w", "no_permission", "systemd unit, or as root"),
        ("util_mean", "operating_system", "DeviceAllow=char-nvidia* rw"),
        ("util_mean", "error", "nvidia-smi -q"),
        ("sm_active", "not_exported", "add DCGM_FI_PROF_SM_ACTIVE to dcgm-exporter's list"),
        ("throttle_power_ratio", "not_supported", "a newer driver may"),
        ("power_w", "something_new", "see nvidia-smi -q"),
    ],
)
def test_each_reason_says_what_to_do(column, reason, said):
    columns = {name: value for name, value in EVERYTHING.items() if name != column}
    text = shown(gpus=[gpu(unread={column: reason}, persistence=True)], windows=[window(**columns)])

    todo = text.partition("what to do\n")[2]
    assert said in " ".join(todo.split())
    assert todo.count("  - ") == 1


def test_what_can_not_be_helped_is_no_thing_to_do():
    columns = {
        name: value
        for name, value in EVERYTHING.items()
        if name not in ("memory_temperature_c", "nvlink_rx_bytes_s")
    }
    unread = {"memory_temperature_c": "not_supported", "nvlink_rx_bytes_s": "not_supported"}

    assert "what to do" not in shown(gpus=[gpu(unread=unread)], windows=[window(**columns)])


def test_one_reason_for_many_metrics_is_one_thing_to_do():
    unread = dict.fromkeys(("sm_active", "tensor_active", "dram_active"), "not_supported")
    columns = {name: value for name, value in EVERYTHING.items() if name not in unread}
    todo = shown(gpus=[gpu(unread=unread)], windows=[window(**columns)]).partition("what to do\n")[
        2
    ]

    assert todo.startswith(
        "  - SM active, tensor active, DRAM active (not supported): NVML counts these from"
        " Hopper on"
    )
    assert todo.count("  - ") == 1


def test_a_gpu_that_gave_no_reading_is_silent_not_unsupported():
    text = shown(
        gpus=[gpu("GPU-1"), gpu("GPU-2")], windows=[window("GPU-1", **EVERYTHING), window("GPU-2")]
    )

    assert "part  utilisation    1 of 2    silent on 1" in text
    assert "nvidia-smi -r -i N" in " ".join(text.split())


def test_persistence_mode_that_is_off_is_said_with_the_command():
    assert "nvidia-smi -pm 1" in shown(
        gpus=[gpu(persistence=False)], windows=[window(**EVERYTHING)]
    )
    assert "nvidia-smi -pm 1" not in shown(
        gpus=[gpu(persistence=True)], windows=[window(**EVERYTHING)]
    )


def test_findings_that_fail_are_things_to_do_and_those_that_are_not_here_are_none():
    text = shown(
        windows=[window(**EVERYTHING)],
        host=[
            Finding("spool", "no", "/x can't be written", "give another"),
            Finding("clock", "ok", "fine", "unused"),
        ],
        jobs=[Finding("docker", "-", "no socket", "unused too")],
    )

    assert "no    spool  /x can't be written" in text
    assert text.partition("what to do\n")[2] == "  - spool: give another"


def test_when_nothing_can_be_read_that_is_the_first_line():
    text = shown(gpus=[], windows=[], source="", failure="nvidia-smi is not on PATH")

    assert text.splitlines()[0] == "no GPU can be read: nvidia-smi is not on PATH"
    assert not look(gpus=[], windows=[]).is_readable


def test_no_line_is_wider_than_the_page_however_long_the_names_are():
    uuid = "GPU-c2f76b33-7953-256e-8f33-1343419b1a1c"
    unread = dict.fromkeys((metric.column for metric in check_advice.METRICS), "not_supported")
    text = shown(
        gpus=[
            gpu(
                uuid,
                model="NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition " * 2,
                memory_total_bytes=96 * GIB,
                unread=unread,
            )
        ],
        windows=[window(uuid)],
        host=[Finding("job environment", "warn", "word " * 60, "advice " * 60)],
        notes=["GPU can't be read uuid=%s: %s" % (uuid, "because " * 40)],
    )

    assert max(map(len, text.splitlines())) <= WIDTH
    assert uuid in text


def test_colour_marks_the_state_and_changes_no_word():
    import re

    plain, coloured = report.text(look(), has_colour=False), report.text(look(), has_colour=True)

    assert "\033[31mno\033[0m" in coloured
    assert re.sub(r"\033\[\d*m", "", coloured) == plain


def test_hostile_names_write_no_escapes_to_the_terminal():
    text = shown(gpus=[gpu(model="evil\033[2J\nname")], notes=["a\033]0;title\007b"])

    assert "\033" not in text
    assert "evil [2J name" in text


EVIL = "a\x1b[31mb\x07c\u202ed\x9be\nFORGED"


@pytest.mark.parametrize(
    "changes",
    [
        {"gpus": [gpu(EVIL)], "windows": []},
        {"gpus": [gpu(mig_profile=EVIL, parent_uuid="GPU-2"), gpu("GPU-2")]},
        {"versions": {"driver": EVIL}},
        {"jobs": [Finding("slurm", "no", EVIL, EVIL)]},
        {"hub": [Finding("hub", "no", EVIL)]},
        {"failure": EVIL},
        {"notes": [EVIL]},
    ],
)
def test_whatever_speaks_it_speaks_on_its_own_line_and_not_to_the_terminal(changes):
    text = shown(**changes)

    assert all(line.isprintable() for line in text.split("\n"))
    assert "FORGED" in text
    assert not any(line.startswith("FORGED") for line in text.split("\n"))


def test_the_report_for_machines_says_the_same():
    gpus = [gpu(unread={"sm_active": "not_supported"})]

    found = json.loads(
        json.dumps(
            report.as_json(
                look(gpus=gpus, windows=[window(util_mean=0.5)], hub=[Finding("hub", "no", "away")])
            )
        )
    )

    assert (
        found["ok"],
        found["source"],
        found["gpus"][0]["uuid"],
        found["gpus"][0]["columns"],
    ) == (
        False,
        "nvml",
        "GPU-1",
        {"util_mean": 0.5},
    )
    rows = {row["column"]: (row["works_on"], row["of"], row["why"]) for row in found["metrics"]}
    assert rows["util_mean"] == (1, 1, {})
    assert rows["sm_active"] == (0, 1, {"not_supported": 1})
    assert found["hub"] == [{"name": "hub", "state": "no", "text": "away", "advice": ""}]
