from pathlib import Path

import pytest

from agent.config import default_spool, parse
from agent.errors import ConfigError
from agent.readings import Job

RUN = ["run", "--server", "https://hub.example.org", "--token", "secret-token"]


def complaint(arguments, environment=()):
    with pytest.raises(ConfigError) as caught:
        parse(arguments, dict(environment))
    return str(caught.value)


def test_a_run_needs_little_and_the_rest_has_reasons():
    chosen = parse([*RUN, "--node", "gpu-07"], {})

    assert (chosen.command, chosen.node, chosen.server, chosen.token) == (
        "run",
        "gpu-07",
        "https://hub.example.org",
        "secret-token",
    )
    assert (chosen.source, chosen.flush_s, chosen.spool_bytes) == ("auto", 30, 512 * 1024 * 1024)
    assert (chosen.job, chosen.record, chosen.ca_file) == (None, None, None)


def test_everything_may_come_from_the_environment_and_a_flag_wins():
    environment = {
        "FLEETWATCH_SERVER": "http://hub:8000/fleet/",
        "FLEETWATCH_TOKEN": "t",
        "FLEETWATCH_NODE": "from-environment",
        "FLEETWATCH_SOURCE": "nvidia-smi",
        "FLEETWATCH_FLUSH_S": "60",
        "FLEETWATCH_SPOOL": "/queue",
        "FLEETWATCH_SPOOL_MB": "5",
        "FLEETWATCH_LABELS": "pool=a, rack=7",
    }

    chosen = parse(["run", "--node", "from-flag"], environment)

    assert (chosen.server, chosen.node, chosen.source, chosen.flush_s) == (
        "http://hub:8000/fleet",
        "from-flag",
        "nvidia-smi",
        60,
    )
    assert (chosen.spool, chosen.spool_bytes, chosen.labels) == (
        Path("/queue"),
        5 * 1024 * 1024,
        {"pool": "a", "rack": "7"},
    )


def test_the_token_may_come_from_a_file_and_is_never_shown(tmp_path):
    (tmp_path / "token").write_text("secret-token\n")

    chosen = parse(
        ["run", "--server", "http://hub"], {"FLEETWATCH_TOKEN_FILE": str(tmp_path / "token")}
    )

    assert chosen.token == "secret-token"
    assert "secret-token" not in repr(chosen)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "say what to do"),
        (["fly"], "invalid choice: 'fly'"),
        ([*RUN, "--nodes", "a"], "unrecognized arguments: --nodes a"),
        ([*RUN, "--nod", "a"], "unrecognized arguments"),
        (["run", "--token", "t"], "--server (or FLEETWATCH_SERVER) is missing"),
        (
            ["run", "--server", "http://hub"],
            "--token (or FLEETWATCH_TOKEN, FLEETWATCH_TOKEN_FILE) is missing",
        ),
        (
            ["run", "--server", "ftp://hub", "--token", "t"],
            "--server is 'ftp://hub', expected http:// or https://",
        ),
        (["run", "--server", "hub:8000", "--token", "t"], "--server is"),
        (["run", "--server", "http://", "--token", "t"], "--server is"),
        (["run", "--server", "http://hub:port", "--token", "t"], "--server is"),
        (["run", "--server", "http://hub/?a=b", "--token", "t"], "--server is"),
        (["run", "--server", "http://hub", "--token", "two words"], "the token holds characters"),
        (["run", "--server", "http://hub", "--token", "a\nb"], "the token holds characters"),
        ([*RUN, "--node", "a/b"], "--node is 'a/b'"),
        ([*RUN, "--node", "x" * 254], "--node is"),
        ([*RUN, "--source", "dcgm"], "--source is 'dcgm', expected auto"),
        ([*RUN, "--source", "simulated:"], "--source is"),
        ([*RUN, "--flush-s", "0"], "--flush-s is '0', expected a whole number from 1 to 300"),
        ([*RUN, "--flush-s", "301"], "--flush-s is '301'"),
        ([*RUN, "--flush-s", "soon"], "--flush-s is 'soon'"),
        ([*RUN, "--spool-mb", "-1"], "--spool-mb is"),
        ([*RUN, "--ca-file", "/nowhere.pem"], "--ca-file /nowhere.pem can't be read"),
        ([*RUN, "--labels", "pool"], "--labels is 'pool'"),
        ([*RUN, "--user", "ann"], "--user describes a declared job: give --job too"),
        (
            [*RUN, "--job", "j", "--kind", "cron"],
            "--kind is 'cron', expected batch, interactive, service",
        ),
        ([*RUN, "--job", " "], "--job is ' '"),
        ([*RUN, "--job", "x" * 401], "--job is"),
        (["once"], "--json"),
        (["replay", "--server", "http://hub", "--token", "t"], "FILE"),
        (["replay", "f", "--server", "http://hub", "--token", "t", "--gpus", "0"], "--gpus is '0'"),
        (
            ["replay", "f", "--server", "http://hub", "--token", "t", "--speed", "fast"],
            "--speed is 'fast'",
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_was_expected(arguments, said):
    assert said in complaint(arguments)


def test_a_token_file_that_is_not_there_is_said():
    assert "can't be read: No such file" in complaint(
        ["run", "--server", "http://hub"], {"FLEETWATCH_TOKEN_FILE": "/nowhere"}.items()
    )


def test_a_misspelt_setting_is_not_silence():
    assert "FLEETWATCH_TOKEN_FLIE is not a setting" in complaint(
        RUN, {"FLEETWATCH_TOKEN_FLIE": "x"}.items()
    )


def test_settings_of_the_hub_are_not_the_agents_business():
    assert parse(RUN, {"FLEETWATCH_DATA": "/data"}).command == "run"


def test_a_replay_has_a_job_and_files():
    chosen = parse(
        [
            "replay",
            "a.csv",
            "b.csv",
            "--server",
            "http://hub",
            "--token",
            "t",
            "--job",
            "slurm/c/1",
            "--user",
            "ann",
            "--speed",
            "60",
        ],
        {},
    )

    assert chosen.files == (Path("a.csv"), Path("b.csv"))
    assert chosen.job == Job("slurm/c/1", user="ann")
    assert chosen.speed == 60.0


@pytest.mark.parametrize(
    "source", ["auto", "nvml", "nvidia-smi", "simulated:8xH100,seed=7", "replay:log.csv"]
)
def test_each_source_is_known(source):
    assert parse(["check", "--source", source], {}).source == source


def test_the_spool_is_where_the_service_manager_says():
    assert default_spool({"STATE_DIRECTORY": "/var/lib/x:/var/lib/y"}) == "/var/lib/x"


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_are_no_errors(flag, capsys):
    with pytest.raises(SystemExit) as caught:
        parse([flag], {})

    assert caught.value.code == 0
    assert "fleetwatch-agent" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "jobs"),
    [
        ([], ("auto",)),
        (["--jobs", "process"], ("process",)),
        (["--jobs", "slurm, docker"], ("slurm", "docker")),
    ],
)
def test_whose_books_are_read_can_be_said(given, jobs):
    assert parse(["once", "--json", *given], {}).jobs == jobs


def test_where_the_host_is_may_be_said_by_flag_or_environment(tmp_path):
    (tmp_path / "stat").write_text("")

    chosen = parse(
        ["check", "--cluster", "della"],
        {"FLEETWATCH_JOBS": "kubernetes", "FLEETWATCH_PROC_ROOT": str(tmp_path)},
    )

    assert (chosen.jobs, chosen.cluster, chosen.proc_root) == (
        ("kubernetes",),
        "della",
        str(tmp_path),
    )


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--jobs", "sge"),
        ("--jobs", "auto,slurm"),
        ("--jobs", "slurm,"),
        ("--cluster", "a/b"),
        ("--cluster", "a b"),
        ("--cluster", "a" * 129),
        ("--proc-root", "/nowhere"),
    ],
)
def test_a_wrong_word_about_the_host_is_one_clear_line(flag, value):
    with pytest.raises(ConfigError, match=flag):
        parse(["once", "--json", flag, value], {})


def installed(folder: Path) -> Path:
    path = folder / "environment"
    path.write_text(
        "# the hub's\nFLEETWATCH_SERVER=\"https://hub\"\nFLEETWATCH_TOKEN='fw_x'\n\nFLEETWATCH_NODE=gpu-07\nFLEETWATCH_GPM=off\n"
    )
    return path


def test_a_look_at_the_host_takes_the_installed_agents_settings(tmp_path):
    chosen = parse(
        ["check", "--node", "gpu-08"], {"FLEETWATCH_GPM": "on"}, installed=installed(tmp_path)
    )

    assert (chosen.server, chosen.token, chosen.node, chosen.gpm) == (
        "https://hub",
        "fw_x",
        "gpu-08",
        True,
    )


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["check", "--server", "http://other"], {}),
        (["check"], {"FLEETWATCH_SERVER": "http://other"}),
    ],
)
def test_the_installed_agents_token_goes_to_no_other_hub(arguments, environment, tmp_path):
    chosen = parse(arguments, environment, installed=installed(tmp_path))

    assert (chosen.server, chosen.token) == ("http://other", "")


def test_without_an_installed_agent_there_are_no_settings(tmp_path):
    assert parse(["check"], {}, installed=tmp_path / "none").server == ""


def test_the_installed_agents_token_may_stand_beside_its_settings(tmp_path):
    settings = tmp_path / "environment"
    settings.write_text('FLEETWATCH_SERVER="https://hub.example.org"\n')
    (tmp_path / "token").write_text("fw_beside\n")

    chosen = parse(["check"], {}, installed=settings)

    assert (chosen.token, chosen.token_file) == ("fw_beside", tmp_path / "token")
    settings.write_text(
        'FLEETWATCH_SERVER="https://hub.example.org"\nFLEETWATCH_TOKEN="fw_within"\n'
    )
    assert parse(["check"], {}, installed=settings).token == "fw_within"
