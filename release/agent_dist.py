"""`make agent`: dist/ with the agent as one file, wheel, Debian package and RPM, and the command
line for people, each the same bytes for the same sources.
"""

import base64
import hashlib
import shutil
import sys
from pathlib import Path

from fleetwatch.api import cli_package
from fleetwatch.ingest import agent_package
from release import agent_deb, agent_rpm

METADATA = """\
Metadata-Version: 2.1
Name: fleetwatch-agent
Version: {version}
Summary: The FleetWatch agent: reads a host's GPUs and their jobs, and streams both to the hub
License: Apache-2.0
Requires-Python: >=3.8
Requires-Dist: nvidia-ml-py>=12.535.77
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: fleetwatch\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
ENTRY_POINTS = "[console_scripts]\nfleetwatch-agent = agent.__main__:main\n"


def write(folder: Path) -> list[Path]:
    """Writes what can be built here, and SHA256SUMS of it; the system's packages only where their
    tools are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = [
        _write(folder / "fleetwatch-agent.pyz", agent_package.build()),
        _write(folder / wheel_name(), wheel()),
        _write(folder / cli_package.COMMAND, cli_package.build()),
    ]
    for path in (written[0], written[2]):
        path.chmod(0o755)
    version = agent_package.version()
    for tool, package in (("dpkg-deb", agent_deb), ("rpmbuild", agent_rpm)):
        if shutil.which(tool):
            written.append(_write(folder / package.file_name(version), package.build(version)))
    sums = "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in written
    )
    return [*written, _write(folder / "SHA256SUMS", sums.encode())]


def wheel_name() -> str:
    return f"fleetwatch_agent-{agent_package.version()}-py3-none-any.whl"


def wheel() -> bytes:
    """The agent for pip, without the bindings, which it requires (PEP 427)."""
    info = f"fleetwatch_agent-{agent_package.version()}.dist-info"
    about = {
        "METADATA": METADATA.format(version=agent_package.version()),
        "WHEEL": WHEEL,
        "entry_points.txt": ENTRY_POINTS,
    }
    files = {
        **agent_package.agent_files(),
        **{f"{info}/{name}": text.encode() for name, text in about.items()},
    }
    files[f"{info}/LICENSE"] = (agent_package.ROOT / "LICENSE").read_bytes()
    rows = [
        f"{name},sha256={_urlsafe_digest(content)},{len(content)}\n"
        for name, content in sorted(files.items())
    ]
    record = f"{info}/RECORD"
    return agent_package.packed({**files, record: "".join([*rows, f"{record},,\n"]).encode()})


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _urlsafe_digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    for each in write(Path(sys.argv[1])):
        sys.stdout.write(f"{each}\n")
    if not shutil.which("dpkg-deb"):
        sys.stdout.write("no Debian package: dpkg-deb is not installed (apt or dnf install dpkg)\n")
    if not shutil.which("rpmbuild"):
        sys.stdout.write(
            "no RPM: rpmbuild is not installed (apt install rpm, or dnf install rpm-build)\n"
        )
