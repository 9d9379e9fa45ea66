"""`manage.py up` as its user meets it: one real stack, started, hurt and stopped."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.stack.living import ROOT, Living, living_stack

CHILDREN = ("fleetwatch.front", "--quiet worker", "--quiet beat", "valkey-server", "bin/postgres")
KILLED = "was killed by SIGKILL; starting it again in"


def refused(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """What a start that must be refused says."""
    base = {
        key: value
        for key, value in os.environ.items()
        if key not in ("DATABASE_URL", "REDIS_URL", "SECRET_KEY")
    }
    command = [sys.executable, "manage.py", "up", *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**base, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_says_each_step_and_where_to_go(stack: Living):
    for step in (
        "starting Postgres and Redis",
        "preparing the database",
        "starting web",
        "starting worker",
        "waiting for",
        "ready after",
    ):
        assert step in stack.log
    assert f"open      {stack.url}/" in stack.log
    line = (
        f"curl -fsSL {stack.url}/agent/install.sh | {{ echo FLEETWATCH_TOKEN=TOKEN; cat; }} | sudo"
        f" sh -s -- --server {stack.url}"
    )
    assert f"add hosts {line}\n" in stack.log
    assert "log in    admin, the password in FLEETWATCH_ADMIN_PASSWORD" in stack.log


def test_other_commands_find_the_running_stack_through_its_folder(stack: Living):
    done = stack.manage("create_api_token", "admin")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fw_")
    assert len(done.stdout.split()) == 1


def test_a_second_instance_on_the_same_folder_is_refused_in_one_line(stack: Living):
    done = refused("--data", str(stack.data), "--port", "1024")

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "FleetWatch already runs on" in done.stderr


def test_a_taken_port_is_refused_in_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()

        done = refused("--data", str(tmp_path / "data"), "--port", str(taken.getsockname()[1]))

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "can't be used" in done.stderr


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (
            {"DATABASE_URL": "mysql://x"},
            "DATABASE_URL: expected postgresql://user:password@host:port/name",
        ),
        (
            {"DATABASE_URL": "postgresql://u:p@127.0.0.1:1/x"},
            "REDIS_URL is not set but the other is",
        ),
        ({"FLEETWATCH_DB_POOL": "many"}, "FLEETWATCH_DB_POOL: expected a whole number, not 'many'"),
    ],
)
def test_a_wrong_setting_stops_the_start_with_its_name(environment, said, tmp_path):
    done = refused("--data", str(tmp_path), "--port", "1024", **environment)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


# a terminal's Ctrl-C goes to the whole group, who sends a signal means `up` alone
@pytest.mark.parametrize(
    ("step", "interrupt"),
    [
        ("starting Postgres and Redis", os.killpg),
        ("preparing the database", os.killpg),
        ("preparing the database", os.kill),
    ],
)
def test_ctrl_c_while_it_starts_stops_cleanly_and_shows_no_internals(step, interrupt):
    with living_stack() as stack:
        log = stack.data.parent / "up.log"
        command = [
            sys.executable,
            "manage.py",
            "up",
            "--port",
            str(stack.port),
            "--data",
            str(stack.data),
        ]
        with log.open("ab") as out:
            stack.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=stack.environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        stack.wait_until(lambda: step in stack.log, what=step)

        interrupt(stack.process.pid, signal.SIGINT)

        assert stack.process.wait(15) == 0
        assert stack.log.rstrip().endswith("stopped")
        assert "failed" not in stack.log
        assert "Interrupt" not in stack.log
        assert stack.everything() == []


def test_children_that_are_killed_come_back_and_the_hub_with_them(stack: Living):
    before = {name: stack.children(name) for name in CHILDREN}
    already = stack.log.count(KILLED)

    for name in CHILDREN:
        stack.kill(name)

    for name in CHILDREN:
        stack.wait_until(
            lambda n=name: set(stack.children(n)) - set(before[n]), what=f"restarted {name}"
        )
    stack.wait_until(lambda: stack.answers("/readyz"), what="ready again")
    assert stack.log.count(KILLED) - already >= len(CHILDREN)


def test_after_kill_9_of_itself_the_next_start_recovers_and_sigterm_leaves_no_process(
    stack: Living,
):
    stack.process.send_signal(signal.SIGKILL)
    stack.process.wait()

    stack.start()
    took = stack.stop()

    assert took < 10
    assert stack.everything() == []
    assert "the last run was killed; ended what it left behind" in stack.log
    assert stack.log.rstrip().endswith("stopped")
