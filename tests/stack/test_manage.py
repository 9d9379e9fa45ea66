"""manage.py without a hub to talk to: one clear line, never a traceback."""

import json
import os
import shutil
import subprocess
import sys
import venv

import pytest

from tests.stack.living import ROOT


def environment_with(**environment: str) -> dict[str, str]:
    servers = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY")
    kept = {key: value for key, value in os.environ.items() if key not in servers}
    return kept | environment


def manage(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment_with(**environment),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# manage.py's main for each command, in one process: to start takes a second
ONE_AFTER_THE_OTHER = """
import contextlib, io, json, sys
import manage

ended = []
for command in json.loads(sys.argv[1]):
    sys.argv[1:] = command
    with contextlib.redirect_stderr(io.StringIO()) as error:
        try:
            manage.main()
            status = 0
        except SystemExit as stop:
            status = stop.code
    ended.append([status, error.getvalue()])
print(json.dumps(ended))
"""


def test_commands_without_a_running_stack_say_so_in_one_line(tmp_path):
    commands = [
        ["check_ledger"],
        ["settle"],
        ["create_agent_token", "gpu-07"],
        ["backup", "/tmp/never"],
        ["migrate"],
    ]
    environment = environment_with(FLEETWATCH_DATA=str(tmp_path))

    ended = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_THE_OTHER, json.dumps(commands)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    said = f"fleetwatch: no stack runs with its data in {tmp_path}: `make up` starts one"
    for status, error in json.loads(ended.stdout):
        assert status == 2
        assert said in error
        assert "nowhere" not in error
        assert "Traceback" not in error
    assert len(json.loads(ended.stdout)) == len(commands)


def test_ctrl_c_ends_a_command_with_one_line():
    done = manage("shell", "--no-imports", "-c", "raise KeyboardInterrupt", **SERVERS)

    assert (done.returncode, done.stderr) == (130, "fleetwatch: interrupted\n")


def test_a_database_that_does_not_answer_is_named_without_its_password():
    done = manage(
        "check_ledger",
        DATABASE_URL="postgresql://ann:hush-secret@127.0.0.1:1/fleet",
        REDIS_URL="redis://127.0.0.1:1/0",
    )

    assert done.returncode == 2
    assert "can't reach the database of DATABASE_URL" in done.stderr
    assert "hush-secret" not in done.stderr + done.stdout


SERVERS = {
    "DATABASE_URL": "postgresql://fleetwatch:0123456789abcdef@127.0.0.1:1/fleetwatch",
    "REDIS_URL": "redis://:0123456789abcdef@127.0.0.1:1/0",
    "SECRET_KEY": "0123456789-abcdefghijklmnopqrstuvwxyz",
}


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (
            "SECRET_KEY",
            "change-this-to-64-random-characters-0123456789-abcdefghijklmnopqr",
            "SECRET_KEY: this is a published example",
        ),
        (
            "SECRET_KEY",
            "Changeme-changeme-changeme-changeme",
            "SECRET_KEY: this is a published example",
        ),
        ("SECRET_KEY", "x" * 31, "SECRET_KEY: expected at least 32 characters, not 31"),
        (
            "DATABASE_URL",
            "postgresql://fleetwatch:change-this-database-password@postgres:5432/fleetwatch",
            "POSTGRES_PASSWORD (in DATABASE_URL): this is a published example",
        ),
        (
            "FLEETWATCH_ADMIN_PASSWORD",
            "change-this-password",
            "FLEETWATCH_ADMIN_PASSWORD: this is a published example",
        ),
        (
            "REDIS_URL",
            "redis://:change-this-redis-password@redis:6379/0",
            "REDIS_PASSWORD (in REDIS_URL): this is a published example",
        ),
        ("DATABASE_URL", "postgresql://[bad/fleetwatch", "DATABASE_URL: Invalid IPv6 URL"),
    ],
)
def test_a_secret_that_others_know_refuses_the_start_in_one_line(variable, value, said):
    done = manage("initialise", **(SERVERS | {variable: value}))

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"fleetwatch: {said}")
    assert value not in done.stderr


def test_secrets_of_their_own_are_taken():
    assert "can't reach the database of DATABASE_URL" in manage("initialise", **SERVERS).stderr


def test_a_hub_without_a_secret_key_says_so_in_one_line():
    done = manage(
        "initialise", **{name: value for name, value in SERVERS.items() if name != "SECRET_KEY"}
    )

    assert (done.returncode, done.stderr) == (
        2,
        "fleetwatch: The SECRET_KEY setting must not be empty.\n",
    )


def test_the_embedded_stack_refuses_a_published_key_too(tmp_path):
    done = manage(
        "up",
        "--data",
        str(tmp_path),
        SECRET_KEY="change-this-to-64-random-characters-0123456789-abcdefghijklmnopqr",
    )

    assert done.returncode == 2
    assert "fleetwatch: SECRET_KEY: this is a published example" in done.stderr


def test_a_command_links_to_the_address_that_the_stack_runs_at(tmp_path):
    facts = {
        "database_url": "postgresql://x/y",
        "redis_url": "redis://x",
        "secret_key": "s" * 50,
        "public_url": "http://127.0.0.1:8471",
    }
    (tmp_path / "runtime.json").write_text(json.dumps(facts))
    show = (
        "from django.conf import settings; print(settings.PUBLIC_URL, settings.ALLOWED_HOSTS[-1])"
    )

    found = manage("shell", "-v", "0", "-c", show, FLEETWATCH_DATA=str(tmp_path))
    named = manage(
        "shell",
        "-v",
        "0",
        "-c",
        show,
        FLEETWATCH_DATA=str(tmp_path),
        FLEETWATCH_PUBLIC_URL="https://fleet.example.com",
    )

    assert found.stdout.split() == ["http://127.0.0.1:8471", "127.0.0.1"]
    assert named.stdout.split() == ["https://fleet.example.com", "fleet.example.com"]


def test_a_damaged_runtime_file_is_said_in_one_line(tmp_path):
    (tmp_path / "runtime.json").write_text("{")

    done = manage("settle", FLEETWATCH_DATA=str(tmp_path))

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "stop FleetWatch and start it again" in done.stderr


def bare_checkout(folder) -> list[str]:
    """A command line of manage.py in a checkout of its own, with a Python that has no requirement
    installed.
    """
    shutil.copy(ROOT / "manage.py", folder)
    shutil.copytree(
        ROOT / "fleetwatch" / "lib",
        folder / "fleetwatch" / "lib",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (folder / "fleetwatch" / "__init__.py").touch()
    venv.create(folder / "bare", symlinks=True, with_pip=False)
    return [str(folder / "bare/bin/python"), str(folder / "manage.py"), "check_ledger", "--hours"]


def test_a_python_without_the_requirements_hands_over_to_the_one_of_make(tmp_path):
    command = bare_checkout(tmp_path)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / ".venv/bin/python").chmod(0o755)

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path}/manage.py check_ledger --hours\n"


def test_before_the_first_make_it_says_what_installs_the_requirements(tmp_path):
    done = subprocess.run(
        bare_checkout(tmp_path), capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 1
    assert (
        done.stderr
        == "fleetwatch: the requirements are not installed here: `make up` or `make demo` installs"
        " them into .venv\n"
    )
