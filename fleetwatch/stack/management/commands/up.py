"""`manage.py up`: the whole stack on this machine, one command, one log."""

import argparse
import ctypes
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from fleetwatch.ingest.agent_package import install_command
from fleetwatch.lib import env
from fleetwatch.lib.commands import HubCommand
from fleetwatch.stack import folder, plan, postgres, redis
from fleetwatch.stack.folder import StackError
from fleetwatch.stack.plan import Listen
from fleetwatch.stack.processes import Spec
from fleetwatch.stack.supervisor import TICK_S, Supervisor, clean_up, say

READY_TIMEOUT_S = 120


class Command(HubCommand):
    help = (
        "Start FleetWatch here: embedded Postgres and Redis (unless DATABASE_URL and REDIS_URL are"
        " set), web, worker, beat."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--demo", action="store_true", help="add a simulated fleet with history"
        )
        parser.add_argument(
            "--host",
            default=os.environ.get("HOST_ADDRESS", "127.0.0.1"),
            help="address to listen on (default 127.0.0.1)",
        )
        parser.add_argument(
            "--port", type=int, default=8000, help="port to listen on (default 8000)"
        )
        parser.add_argument(
            "--data",
            type=Path,
            default=None,
            help="data folder (default FLEETWATCH_DATA, else the platform's usual place)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            Up(
                data=_data(options["data"], is_demo=options["demo"]),
                listen=_listen(options),
                is_demo=options["demo"],
            ).run()
        except (StackError, env.ConfigurationError) as error:
            self.stderr.write(f"fleetwatch: {error}")
            raise SystemExit(2) from error


def _data(given: Path | None, *, is_demo: bool) -> Path:
    """The folder named, else the usual one; the demo never shares the real one."""
    if given is not None:
        return given.expanduser().absolute()
    usual = env.data_dir()
    return (
        usual
        if "FLEETWATCH_DATA" in os.environ or not is_demo
        else usual.with_name(f"{usual.name}-demo")
    )


def _listen(options: dict[str, Any]) -> Listen:
    if not 1 <= options["port"] <= 65535:
        raise StackError(f"--port: expected 1 to 65535, not {options['port']}")
    return Listen(options["host"], options["port"])


class Up:
    """One life of the stack, from the locked folder to the last stopped child."""

    def __init__(self, *, data: Path, listen: Listen, is_demo: bool) -> None:
        self.data = data
        self.listen = listen
        self.is_demo = is_demo
        self.public_url = env.text("FLEETWATCH_PUBLIC_URL", listen.local_url).rstrip("/")
        self.began = time.monotonic()
        self.record = data / "processes.json"
        self.supervisor = Supervisor(record=self.record)

    def run(self) -> None:
        """Returns after an orderly stop. Raises StackError when the start is refused."""
        external = _external()
        with folder.claim(self.data):
            if clean_up(self.record):
                say("fleetwatch", "the last run was killed; ended what it left behind")
            folder.check_port(self.listen.host, self.listen.port)
            self.supervisor.catch_signals()
            try:
                self._start(self._servers(external))
                self.supervisor.run()
            except StackError:
                # Ctrl-C goes to the helpers of the start too (initdb, initialise): that they failed
                # is the stop, no trouble
                if not self.supervisor.is_stopping:
                    raise
            finally:
                say("fleetwatch", "stopping")
                self.supervisor.stop()
                say("fleetwatch", "stopped")

    def _servers(self, external: dict[str, str] | None) -> dict[str, str]:
        """Starts the embedded servers unless there are others; gives what the children's
        environment needs for them.
        """
        secret = env.text("SECRET_KEY") or folder.secret(self.data / "secret_key")
        env.check_secret_key(secret)
        if external is not None:
            say("fleetwatch", "using DATABASE_URL and REDIS_URL; nothing embedded starts")
            return {**external, "SECRET_KEY": secret}
        say("fleetwatch", f"starting Postgres and Redis in {self.data}")
        runtime = self._embedded() | {"public_url": self.public_url, "secret_key": secret}
        folder.write_private(self.data / env.RUNTIME_FILE, json.dumps(runtime))
        return {}

    def _embedded(self) -> dict[str, str]:
        """Starts our own servers; gives their addresses."""
        database = postgres.prepare(self.data)
        self._go_on()
        socket = database.sockets / "redis.sock"
        self.supervisor.start(plan.broker(socket))
        process = self.supervisor.start(plan.database(database)).process
        postgres.wait_until_ready(database, process)
        postgres.ensure_database(database)
        return {"database_url": database.url, "redis_url": redis.url(socket)}

    def _go_on(self) -> None:
        """Raises StackError when a signal asked to stop meanwhile."""
        if self.supervisor.is_stopping:
            raise StackError("stopped while it started")

    def _start(self, extra: dict[str, str]) -> None:
        children = plan.environment(self.data, public_url=self.public_url, extra=extra)
        self._go_on()
        facts = self._initialise(children)
        self._go_on()
        for spec in (plan.web(children, self.listen), plan.worker(children), plan.beat(children)):
            say("fleetwatch", f"starting {spec.name}")
            self.supervisor.start(spec)
        if self.is_demo:  # before the agents: a restart's hole ends with their first windows
            self.supervisor.start(plan.manage(children, "history", "demo_history", "--fixes"))
        for spec in self._agents(children, facts["agents"]):
            self.supervisor.start(spec)
        self._wait_until_ready()
        if not self.supervisor.is_stopping:
            self._welcome(facts)

    def _initialise(self, children: dict[str, str]) -> dict[str, Any]:
        """Migrates, and makes what a first start needs; gives the command's answer (see
        initialise.py).
        """
        say("fleetwatch", "preparing the database and the static files")
        answer = self.data / "initialised.json"
        options = {"--demo": self.is_demo, "--this-host": not self.is_demo and _has_nvidia_driver()}
        spec = plan.manage(
            children,
            "initialise",
            "initialise",
            *(option for option, is_given in options.items() if is_given),
            "--answer",
            str(answer),
        )
        self._run(spec)
        facts: dict[str, Any] = json.loads(answer.read_text())
        answer.unlink()
        return facts

    def _run(self, spec: Spec) -> None:
        """Raises StackError when it failed, and when it was ended because we are: a migration may
        take half an hour, and a signal that came just before it was begun reached us alone.
        """
        process = subprocess.Popen(
            spec.command,
            env=spec.environment,
            cwd=spec.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while True:
            try:
                stdout, stderr = process.communicate(timeout=TICK_S)
                break
            except subprocess.TimeoutExpired:
                if self.supervisor.is_stopping:
                    process.terminate()
        for line in stdout.splitlines():
            say("fleetwatch", line)
        if process.returncode != 0:
            reason = stderr.strip().splitlines()[-1:] or [str(process.returncode)]
            raise StackError(f"preparing failed: {reason[0]}")

    def _agents(self, children: dict[str, str], agents: list[dict[str, str]]) -> list[Spec]:
        """Specs of the agents beside the hub; `agents` as initialise answered."""
        if agents:
            say(
                "fleetwatch",
                f"starting {len(agents)}"
                f" {'simulated agents' if self.is_demo else 'agent for this host'}",
            )
        spools = self.data / "agents"
        return [
            plan.agent(
                children, each, server=self.listen.local_url, spool=spools / f"{each['node']}.spool"
            )
            for each in agents
        ]

    def _wait_until_ready(self) -> None:
        say("fleetwatch", f"waiting for {self.listen.local_url}/readyz")
        deadline = time.monotonic() + READY_TIMEOUT_S
        self.supervisor.run(
            until=lambda: time.monotonic() > deadline or _answers(f"{self.listen.local_url}/readyz")
        )
        if time.monotonic() > deadline:
            raise StackError(f"not ready after {READY_TIMEOUT_S} s; the lines above say why")

    def _welcome(self, facts: dict[str, Any]) -> None:
        say("fleetwatch", f"ready after {time.monotonic() - self.began:.0f} s")
        say("fleetwatch", f"open      {self.public_url}/")
        say("fleetwatch", f"log in    {facts['login']}")
        if facts["others"]:
            say("fleetwatch", f"          {facts['others']}")
        say("fleetwatch", f"commands  FLEETWATCH_DATA={self.data} python3 manage.py check_ledger")
        if not self.is_demo:
            say("fleetwatch", f"add hosts {install_command(self.public_url, 'TOKEN')}")
            say(
                "fleetwatch",
                f"          TOKEN: {self.public_url}/settings/agents; HOST= and"
                " FLEETWATCH_PUBLIC_URL= let other hosts reach this one",
            )
        say("fleetwatch", "Ctrl-C stops all of it")


def _external() -> dict[str, str] | None:
    """The addresses of servers that are not ours; None when we bring our own.

    Raises StackError when half is given.
    """
    given = {name: env.text(name) for name in ("DATABASE_URL", "REDIS_URL")}
    missing = [name for name, value in given.items() if not value]
    if len(missing) == 1:
        raise StackError(
            f"{missing[0]} is not set but the other is: give both, or neither for the embedded"
            " servers"
        )
    return None if missing else given


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310 - our own http address
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _has_nvidia_driver() -> bool:
    """Whether the driver is loaded, or its library can be."""
    if Path("/proc/driver/nvidia/version").exists():
        return True
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True
