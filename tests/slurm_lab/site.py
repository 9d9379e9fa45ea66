"""A hub outside of the lab and the agent inside of it, both from this checkout."""

import contextlib
import datetime
import json
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from tests.slurm_lab.lab import ROOT, Lab, end
from tests.stack.living import Living, living_stack

FLUSH_S = 5


class Site:
    """What an operator has: the lab's Slurm, the hub's pages, the agent of the GPU node."""

    def __init__(self, lab: Lab, hub: Living) -> None:
        self.lab, self.hub = lab, hub
        self.reader = hub.manage("create_api_token", "admin", "--scope", "read").stdout.strip()
        (lab.path / "etc" / "summary.env").write_text(f"FLEETWATCH_SERVER={hub.url}\n")
        (lab.path / "etc" / "summary.token").write_text(self.reader + "\n")
        self._token = hub.manage("create_agent_token", "gpu01").stdout.strip()
        self._agent: subprocess.Popen[bytes] | None = None

    def start_agent(self, *options: str) -> None:
        token = self.lab.path / "agent.token"
        token.write_text(self._token + "\n")
        command = [
            sys.executable,
            "-m",
            "agent",
            "run",
            "--node",
            "gpu01",
            "--source",
            "nvml",
            "--flush-s",
            str(FLUSH_S),
            *options,
        ]
        settings = {
            "LD_LIBRARY_PATH": str(self.lab.path),
            "FAKE_NVML": str(self.lab.path / "nvml.state"),
            "FLEETWATCH_SERVER": self.hub.url,
            "FLEETWATCH_TOKEN_FILE": str(token),
            "FLEETWATCH_SPOOL": str(self.lab.path / "agent-spool"),
            "SLURMD_NODENAME": "gpu01",
            "PYTHONPATH": str(ROOT),
        }
        self._agent = self.lab.popen(*command, log="agent.log", **settings)
        self.lab.wait_for(lambda: self.slurm().get("ok") is True, "agent that reads Slurm's books")

    def stop_agent(self) -> None:
        """Waits for its last batch, which the hub has then."""
        if self._agent is not None:
            end(self._agent)
            self._agent = None

    def get(self, path: str, **query: str) -> Any:
        """The hub's answer over a day, until an hour from now."""
        now = datetime.datetime.now(datetime.UTC)
        period = {
            "from": now - datetime.timedelta(hours=23),
            "to": now + datetime.timedelta(hours=1),
        }
        query = {
            **{name: at.strftime("%Y-%m-%dT%H:%M:%SZ") for name, at in period.items()},
            **query,
        }
        address = f"{self.hub.url}{path}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(
            address, headers={"Authorization": "Bearer " + self.reader}
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read())

    def settle(self) -> None:
        done = self.hub.manage("settle")
        assert done.returncode == 0, done.stderr

    def ask(self, code: str) -> str:
        """What this prints in the hub's Python."""
        done = self.hub.manage("shell", "--no-imports", "-v", "0", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def slurm(self) -> dict[str, Any]:
        """What the hub knows of the node's Slurm: whether it answers, and why not; empty before the
        first batch.
        """
        for node in self.get("/api/v1/nodes")["rows"]:
            for source in node["sources"]:
                if (node["name"], source["kind"]) == ("gpu01", "slurm"):
                    return dict(source)
        return {}

    def job(self, number: int) -> dict[str, Any] | None:
        """The job as the hub's API has it; None for one that it never heard of."""
        try:
            answer: dict[str, Any] = self.get(f"/api/v1/jobs/slurm/della/{number}")
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                return None
            raise
        return answer

    def has_ended(self, number: int) -> bool:
        """Whether the hub has the batch that tells the job's end: its windows come with it."""
        job = self.job(number)
        return job is not None and job["end_at"] is not None


@contextlib.contextmanager
def running_site(lab: Lab) -> Iterator[Site]:
    with living_stack() as hub:
        hub.start()
        site = Site(lab, hub)
        try:
            site.start_agent()
            yield site
        finally:
            site.stop_agent()
