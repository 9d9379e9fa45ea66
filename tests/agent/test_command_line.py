"""What an operator meets first: every bad start is one clear line and the right status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.config import parse
from agent.dispatch import main

ROOT = Path(__file__).resolve().parents[2]
HUB = ["--server", "http://127.0.0.1:9", "--token", "secret-token"]
BAD_ARGUMENTS, FAILED = 2, 1

BAD = [
    ([], "say what to do: run, once, check"),
    (["fly"], "invalid choice: 'fly'"),
    (["run"], "--server (or FLEETWATCH_SERVER) is missing"),
    (
        ["run", "--server", "http://hub"],
        "--token (or FLEETWATCH_TOKEN, FLEETWATCH_TOKEN_FILE) is missing",
    ),
    (
        ["run", "--server", "hub.example.org", "--token", "t"],
        "--server is 'hub.example.org', expected http:// or https:// and a host",
    ),
    (["run", "--server", "ftp://hub", "--token", "t"], "expected http:// or https://"),
    (["run", "--server", "http://", "--token", "t"], "expected http:// or https:// and a host"),
    (
        ["run", "--server", "http://hub:99999", "--token", "t"],
        "expected http:// or https:// and a host",
    ),
    (
        ["run", "--server", "http://user:pass@hub", "--token", "t"],
        "expected http:// or https:// and a host",
    ),
    (
        ["run", "--server", "http://hub/?a=b", "--token", "t"],
        "expected http:// or https:// and a host",
    ),
    (
        ["run", "--server", "http://hub", "--token", "two words"],
        "the token holds characters that no token has",
    ),
    (["run", "--server", "http://hub", "--token", "x" * 513], "longer than 512"),
    (["run", *HUB, "--token-file", "x"], "unrecognized arguments: --token-file x"),
    (["run", *HUB, "--flush-s", "0"], "--flush-s is '0', expected a whole number from 1 to 300"),
    (["run", *HUB, "--spool-mb", "many"], "--spool-mb is 'many'"),
    (["run", *HUB, "--labels", "pool"], "--labels is 'pool', expected name=value"),
    (["run", *HUB, "--ca-file", "/nowhere.pem"], "--ca-file /nowhere.pem can't be read"),
    (["run", *HUB, "--source", "simulated:8xBanana"], "Banana"),
    (["once"], "the following arguments are required: --json"),
    (
        ["once", "--json", "--source", "nvm"],
        "--source is 'nvm', expected auto, nvml, nvidia-smi, dcgm=http://HOST:9400/metrics",
    ),
    (["check", "--source", "dcgm="], "--source is 'dcgm='"),
    (["check", "--source", "dcgm=localhost:9400"], "--source is 'dcgm=localhost:9400'"),
    (["check", "--source", "dcgm=file:///etc/passwd"], "--source is 'dcgm=file:///etc/passwd'"),
    (["check", "--source", "dcgm=http://host:port/metrics"], "--source is"),
    (["check", "--source", "dcgm=http://a b/metrics"], "--source is"),
    (["check", "--server", "nonsense"], "--server is 'nonsense'"),
    (["check", "--server", "http://hub", "--token", "two words"], "the token holds characters"),
    (["check", "--node", "a/b"], "--node is 'a/b'"),
    (["replay", *HUB], "the following arguments are required: FILE"),
    (["replay", "x.csv", *HUB, "--gpus", "0"], "--gpus is '0'"),
    (
        ["replay", "x.csv", *HUB, "--kind", "cron", "--job", "j"],
        "--kind is 'cron', expected batch, interactive, service",
    ),
]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in [name for name in os.environ if name.startswith("FLEETWATCH_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("arguments", "said"), BAD, ids=[" ".join(arguments)[:60] or "nothing" for arguments, _ in BAD]
)
def test_a_bad_argument_is_one_line_and_status_two(arguments, said, capsys, tmp_path):
    spool = ["--spool", str(tmp_path / "spool")] if arguments[:1] == ["run"] else []

    assert main([*arguments, *spool]) == BAD_ARGUMENTS

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fleetwatch-agent: ")
    assert err.count("\n") == 1
    assert said in err
    assert "secret-token" not in err


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("FLEETWATCH_SERVER", "hub", "--server is 'hub'"),
        ("FLEETWATCH_FLUSH_S", "soon", "--flush-s is 'soon'"),
        (
            "FLEETWATCH_TOKEN_FILE",
            "/nowhere",
            "FLEETWATCH_TOKEN_FILE /nowhere can't be read: No such file or directory",
        ),
        ("FLEETWATCH_TOKEN_FLIE", "/token", "FLEETWATCH_TOKEN_FLIE is not a setting of the agent"),
    ],
)
def test_a_bad_setting_in_the_environment_is_the_same(name, value, said, monkeypatch, capsys):
    for known, text in {
        "FLEETWATCH_SERVER": "http://127.0.0.1:9",
        "FLEETWATCH_TOKEN": "t",
        name: value,
    }.items():
        monkeypatch.setenv(known, text)
    if name == "FLEETWATCH_TOKEN_FILE":
        monkeypatch.delenv("FLEETWATCH_TOKEN")

    assert main(["run"]) == BAD_ARGUMENTS

    err = capsys.readouterr().err
    assert (err.startswith("fleetwatch-agent: "), err.count("\n"), said in err) == (True, 1, True)


def agent(*arguments, **environment):
    """The real command in a process of its own."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("FLEETWATCH_")}
    command = [sys.executable, "-m", "agent", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, env={**bare, **environment}, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["run", "--server", "nonsense", "--token", "t"], BAD_ARGUMENTS, "--server is 'nonsense'"),
        (["once"], BAD_ARGUMENTS, "--json"),
        (["once", "--json", "--source", "nvidia-smi"], FAILED, "nvidia-smi is not on PATH"),
        (
            ["once", "--json", "--source", "dcgm=http://127.0.0.1:9/metrics"],
            FAILED,
            "does not answer: Connection refused",
        ),
        (["once", "--json", "--source", "replay:/nowhere.csv"], FAILED, "/nowhere.csv"),
        (["replay", "/nowhere.csv", *HUB], FAILED, "/nowhere.csv"),
    ],
)
def test_the_process_ends_with_that_status_and_one_line(arguments, status, said, tmp_path):
    returned, out, err = agent(*arguments, PATH=str(tmp_path))

    assert (returned, out) == (status, "")
    assert err.startswith("fleetwatch-agent: ")
    assert err.count("\n") == 1
    assert said in err


@pytest.mark.parametrize("source", ["auto", "nvml", "nvidia-smi"])
def test_no_driver_is_no_crash_but_a_report_of_what_is_missing(source, tmp_path):
    status, out, err = agent("check", "--source", source, PATH=str(tmp_path))

    assert (status, err) == (FAILED, "")
    assert out.startswith("no GPU can be read: ")
    assert "what to do" in out


def test_a_check_for_machines_is_json_also_when_nothing_can_be_read(tmp_path):
    status, out, _ = agent("check", "--json", "--source", "nvidia-smi", PATH=str(tmp_path))

    found = json.loads(out)
    assert (status, found["ok"], found["failure"], found["gpus"]) == (
        FAILED,
        False,
        "nvidia-smi is not on PATH",
        [],
    )


def test_a_check_of_a_simulated_node_for_machines(capsys):
    assert main(["check", "--json", "--source", "simulated:2xH100", "--node", "gpu-07"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["node"], found["source"], len(found["gpus"])) == (
        True,
        "gpu-07",
        "simulated",
        2,
    )
    assert {row["column"]: (row["works_on"], row["of"]) for row in found["metrics"]}[
        "util_mean"
    ] == (2, 2)
    assert [job["name"] for job in found["jobs"]] == ["slurm"]


def test_a_check_with_a_hub_that_is_not_there_fails_and_says_so(capsys):
    assert main(["check", "--source", "simulated:1xH100", *HUB]) == FAILED

    out = capsys.readouterr().out
    assert "no    hub  http://127.0.0.1:9 can't be reached: Connection refused" in out
    assert "secret-token" not in out


@pytest.mark.parametrize("command", ["run", "once", "check", "replay"])
def test_the_help_names_every_flag_and_says_what_each_is_for(command, capsys):
    with pytest.raises(SystemExit) as caught:
        parse([command, "--help"], {})

    out = capsys.readouterr().out
    assert caught.value.code == 0
    assert "--node" in out
    assert {"run": "--flush-s", "once": "--json", "check": "--json", "replay": "--speed"}[
        command
    ] in out
