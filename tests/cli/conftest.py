"""The command line as people have it: the one file that the hub hands out, in a process of its own,
asking a real server.
"""

import os
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fleetwatch.accounts import people
from fleetwatch.accounts.models import Identity, User
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.dashboard import factories, fleet
from tests.diagnosis import told

HOURS = 6  # of history
HOSTILE = "\x1b]0;owned\x07evil\u202etxt\nname"


@dataclass
class Shell:
    """Somebody's shell on a login node."""

    command: Path
    home: Path
    hub: str
    environment: dict[str, str] = field(default_factory=dict)

    def settings(self) -> dict[str, str]:
        plain = {"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHONIOENCODING": "utf-8"}
        return {**plain, **self.environment}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.command), *arguments],
            env=self.settings(), capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.command), *arguments],
            env=self.settings(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip


@pytest.fixture
def hub(settings, live_server, plain_static_files):
    """A server whose fleet is of now, with an engineer whose job wasted, and another one's."""
    settings.PUBLIC_URL = live_server.url
    settings.ALLOWED_HOSTS = ["*"]
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    fleet.make(nodes=1, gpus=2, hours=HOURS, now=now)
    ann = factories.user(role=User.Role.ENGINEER, username="ann")
    people.give_name(ann, people.Name("unix", "ann"), source=Identity.Source.ADMIN, now=now)
    job = Job.objects.get(key="slurm/della/1000")
    Job.objects.filter(pk=job.pk).update(name=HOSTILE)
    start = now - timedelta(hours=HOURS)  # whatever the clock says, the job held its GPU then
    told.cause(of=job, on=GPU.objects.get(uuid="GPU-node-001-0"), start=start)
    told.finding(job, first_ms=to_ms(start), last_ms=to_ms(start) + HOUR_MS)
    return live_server.url


@pytest.fixture
def shell(hub, tmp_path, client):
    """The file, fetched from the hub."""
    command = tmp_path / "fleetwatch"
    command.write_bytes(client.get("/cli/fleetwatch").content)
    command.chmod(0o755)
    return Shell(command, tmp_path, hub)
