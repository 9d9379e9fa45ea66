import json
import logging
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent import config, wire
from agent.check import look
from agent.dispatch import OneLine, main

ROOT = Path(__file__).resolve().parents[2]


def start(*arguments, path=None):
    environment = {
        **os.environ,
        "PYTHONUNBUFFERED": "1",
        **({} if path is None else {"PATH": path}),
    }
    environment = {
        name: value for name, value in environment.items() if not name.startswith("FLEETWATCH_")
    }
    command = [sys.executable, "-m", "agent", *map(str, arguments)]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments, path=None):
    process = start(*arguments, path=path)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def read_until(stream, text):
    seen = []
    for line in stream:
        seen.append(line)
        if text in line:
            return seen
    raise AssertionError("".join(seen))


def daemon(hub, folder, *more):
    flags = [
        "--server",
        hub.url,
        "--token",
        "secret-token",
        "--node",
        "gpu-07",
        "--spool",
        folder / "spool",
    ]
    return start("run", "--source", "simulated:2xH100,seed=7", *flags, *more)


def test_one_window_in_wire_format_needs_no_hub(capsys):
    assert main(["once", "--json", "--source", "simulated:8xH100", "--node", "gpu-07"]) == 0

    batch = wire.decode(capsys.readouterr().out.encode())

    assert batch.windows["observed_ms"] == [10_000] * 8
    assert len(batch.windows["util_mean"]) == 8
    assert batch.window_s == 10
    assert batch.windows["start_ms"][0] % 10_000 == 0
    assert batch.node == "gpu-07"


def test_a_check_shows_gpus_metrics_and_job_sources(capsys):
    assert main(["check", "--source", "simulated:2xH100"]) == 0

    out = capsys.readouterr().out
    assert "source   simulated" in out
    # how much room its end has depends on the figures beside it
    assert out.count("NVIDIA H100 80GB HB") == 2
    assert "utilisation    2 of 2" in out
    assert "ok    slurm       answers" in out


def test_a_host_where_nothing_can_be_read_says_why(tmp_path):
    status, out, err = run("check", "--source", "nvidia-smi", path=str(tmp_path))

    assert (status, out.splitlines()[0], err) == (
        1,
        "no GPU can be read: nvidia-smi is not on PATH",
        "",
    )
    assert "what to do" in out


def test_a_metric_that_can_not_be_read_is_shown_with_its_reason(tmp_path, capsys, monkeypatch):
    script = tmp_path / "nvidia-smi"
    script.write_text(
        "#!/bin/sh\ncase $1 in *gpu=*) echo 'uuid, index, name, utilization.gpu [%], memory.used"
        " [MiB]'; while :; do echo 'GPU-1, 0, NVIDIA L4, 7 %, [N/A]'; sleep 1; done;; esac\nexec"
        " sleep 60\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)

    monkeypatch.setattr(look, "CHECK_MS", 1000)  # real seconds, of a real child
    monkeypatch.setenv("PATH", "%s:%s" % (tmp_path, os.environ["PATH"]))

    status = main(["check", "--source", "nvidia-smi"])

    out = capsys.readouterr().out
    assert status == 0
    assert "utilisation    1 of 1" in out
    assert "memory         0 of 1    not supported" in out


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])

    assert (caught.value.code, capsys.readouterr().out) == (0, "fleetwatch-agent 1.0.0\n")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["run"],
        ["run", "--server", "nonsense", "--token", "t"],
        ["check", "--source", "simulated:8xBanana"],
        ["once"],
    ],
)
def test_bad_arguments_are_one_line_and_status_two(arguments, capsys, monkeypatch):
    monkeypatch.delenv("FLEETWATCH_SERVER", raising=False)

    assert main(arguments) == 2

    err = capsys.readouterr().err
    assert err.startswith("fleetwatch-agent: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("flag", ["--tz", "--start"])
def test_a_zone_or_a_time_that_is_none_is_a_bad_argument(flag, tmp_path, capsys):
    log = tmp_path / "log.csv"
    log.write_text("timestamp, index, utilization.gpu [%]\n2026/11/20 13:00:00.000, 0, 5 %\n")

    assert (
        main(
            ["replay", str(log), flag, "nonsense", "--server", "http://127.0.0.1:1", "--token", "t"]
        )
        == 2
    )

    assert capsys.readouterr().err.startswith(f"fleetwatch-agent: {flag} is 'nonsense'")


@pytest.mark.parametrize("arguments", [["replay", "/nowhere.csv"], ["replay", __file__]])
def test_nothing_to_read_is_one_line_and_status_one(arguments, capsys):
    assert main([*arguments, "--server", "http://127.0.0.1:1", "--token", "t"]) == 1

    assert capsys.readouterr().err.count("\n") == 1


def test_a_daemon_that_is_told_to_stop_sends_what_it_has_and_says_no_secret(hub, tmp_path):
    process = daemon(hub, tmp_path)
    said = read_until(process.stderr, "source opened")
    process.send_signal(signal.SIGTERM)

    _, err = process.communicate(timeout=30)

    assert process.returncode == 0
    assert hub.batches[-1]["gpus"][1]["index"] == 1
    assert hub.batches[-1]["agent"]["source"] == "simulated"
    assert all(wire.parse(batch) for batch in hub.batches)
    assert "secret-token" not in "".join(said) + err
    assert "Traceback" not in err


def test_what_a_daemon_could_not_send_the_next_one_does(hub, tmp_path):
    hub.is_out = True
    first = daemon(hub, tmp_path)
    read_until(first.stderr, "source opened")
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=30)
    assert hub.batches == []

    hub.is_out = False
    second = daemon(hub, tmp_path)
    read_until(second.stderr, "source opened")
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=30)

    sequences = [batch["sequence"] for batch in hub.batches]
    assert sequences == sorted(set(sequences))
    assert sequences[0] == 0
    assert len({(batch["boot_id"], batch["boot_start_ms"]) for batch in hub.batches}) == 1


def test_a_recording_of_a_run_can_be_replayed(hub, tmp_path):
    process = daemon(hub, tmp_path, "--record", tmp_path / "rec.jsonl")
    read_until(process.stderr, "source opened")
    lines = tmp_path / "rec.jsonl"
    while lines.read_text().count('"reading"') < 4:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)

    status, out, err = run("replay", lines, "--server", hub.url, "--token", "t", "--node", "gpu-07")

    assert (status, err) == (0, "")
    assert "windows of 2 GPUs" in out
    assert json.loads(lines.read_text().splitlines()[0]) == {
        "fleetwatch_recording": 1,
        "interval_ms": 1000,
    }


def test_a_folder_that_can_not_hold_the_spool_is_one_line(hub, tmp_path):
    (tmp_path / "spool").write_text("a file")

    process = daemon(hub, tmp_path)
    _, err = process.communicate(timeout=30)

    assert process.returncode == 1
    assert "can't be used" in err
    assert err.count("\n") == 1


def test_what_others_say_can_not_forge_a_line_of_the_log():
    record = logging.LogRecord(
        "agent",
        logging.WARNING,
        "",
        0,
        "GPU can't be read uuid=%s",
        ("GPU-1\nERROR all is lost\x1b[2J",),
        None,
    )

    assert (
        OneLine("%(levelname)s %(message)s").format(record)
        == "WARNING GPU can't be read uuid=GPU-1 ERROR all is lost [2J"
    )


def test_a_bug_is_still_logged_with_where_it_happened():
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        record = logging.LogRecord(
            "agent", logging.ERROR, "", 0, "a step failed", (), sys.exc_info()
        )

    assert OneLine("%(message)s").format(record).splitlines()[:2] == [
        "a step failed",
        "Traceback (most recent call last):",
    ]


def test_what_nobody_foresaw_is_no_bad_argument(monkeypatch):
    """Systemd leaves a service alone that ends with 2: a bug at the start must not look like the
    operator's mistake.
    """

    def broken(arguments, environment):
        raise ValueError("a bug")

    monkeypatch.setattr(config, "parse", broken)

    with pytest.raises(ValueError, match="a bug"):
        main(["check"])
