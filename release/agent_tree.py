"""The agent's files as they lie on a host that has its Debian package or its RPM."""

import gzip
import os
import subprocess
from pathlib import Path

from fleetwatch.ingest import agent_package

SOURCES = agent_package.ROOT / "deploy" / "agent"
HOME = "usr/lib/fleetwatch-agent"
SETTINGS = SOURCES / "environment"
EPOCH = 315_532_800  # 1980, as in the zip files
MAINTAINER = "FleetWatch maintainers <maintainers@fleetwatch.invalid>"


def lay_out(tree: Path) -> None:
    """Below `tree`: the file, its command, its unit, its manual page."""
    put(tree / HOME / "fleetwatch-agent.pyz", agent_package.build(), 0o755)
    unit = agent_package.unit(python="/usr/bin/python3", home=f"/{HOME}")
    put(tree / "usr/lib/systemd/system/fleetwatch-agent.service", unit.encode())
    put(
        tree / "usr/share/man/man1/fleetwatch-agent.1.gz",
        packed((SOURCES / "fleetwatch-agent.1").read_bytes()),
    )
    command = tree / "usr/bin/fleetwatch-agent"
    command.parent.mkdir()
    command.symlink_to("../lib/fleetwatch-agent/fleetwatch-agent.pyz")


def put(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def packed(content: bytes) -> bytes:
    """As gzip -9n."""
    return gzip.compress(content, 9, mtime=0)


def settle(tree: Path) -> None:
    """Rights and times that say nothing of who built it when."""
    for path in [*sorted(tree.rglob("*"), reverse=True), tree]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)


def run(command: list[str], *, home: str) -> None:
    """Runs a package's builder, which learns nothing of this host.

    Raises CalledProcessError when it refuses.
    """
    environment = {
        "PATH": os.defpath,
        "HOME": home,
        "SOURCE_DATE_EPOCH": str(EPOCH),
        "LC_ALL": "C",
    }
    subprocess.run(command, check=True, capture_output=True, env=environment)
