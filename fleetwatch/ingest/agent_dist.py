"""`make agent`: dist/ with the agent as one file, as a wheel and as a Debian package, each the same bytes for the same sources."""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from fleetwatch.ingest import agent_package

DEBIAN = agent_package.ROOT / "deploy" / "agent" / "debian"
HOME = "usr/lib/fleetwatch-agent"
EPOCH = 315_532_800  # 1980, as in the zip files
MAINTAINER = "FleetWatch maintainers <maintainers@fleetwatch.invalid>"
METADATA = """\
Metadata-Version: 2.1
Name: fleetwatch-agent
Version: {version}
Summary: The FleetWatch agent: reads a host's GPUs, attributes them to jobs, and streams windows to the hub
License: Apache-2.0
Requires-Python: >=3.8
Requires-Dist: nvidia-ml-py>=12.535.77
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: fleetwatch\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
ENTRY_POINTS = "[console_scripts]\nfleetwatch-agent = agent.__main__:main\n"
CONTROL = """\
Package: fleetwatch-agent
Version: {version}
Architecture: all
Maintainer: {maintainer}
Depends: python3 (>= 3.8)
Section: admin
Priority: optional
Description: GPU use of this host, for a FleetWatch hub
 Reads the NVIDIA driver once a second, attributes GPUs to the jobs of Slurm,
 Kubernetes and containers, and streams windows of ten seconds to the hub.
"""


def write(folder: Path) -> list[Path]:
    """Writes what can be built here, and SHA256SUMS of it; a Debian package only where dpkg-deb is."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [_write(folder / "fleetwatch-agent.pyz", agent_package.build()), _write(folder / wheel_name(), wheel())]
    written[0].chmod(0o755)
    if shutil.which("dpkg-deb"):
        written.append(_write(folder / f"fleetwatch-agent_{agent_package.version()}_all.deb", deb()))
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in written)
    return [*written, _write(folder / "SHA256SUMS", sums.encode())]


def wheel_name() -> str:
    return f"fleetwatch_agent-{agent_package.version()}-py3-none-any.whl"


def wheel() -> bytes:
    """The agent for pip, without the bindings, which it requires (PEP 427)."""
    info = f"fleetwatch_agent-{agent_package.version()}.dist-info"
    about = {"METADATA": METADATA.format(version=agent_package.version()), "WHEEL": WHEEL, "entry_points.txt": ENTRY_POINTS}
    files = {**agent_package.agent_files(), **{f"{info}/{name}": text.encode() for name, text in about.items()}}
    files[f"{info}/LICENSE"] = (agent_package.ROOT / "LICENSE").read_bytes()
    rows = [f"{name},sha256={_urlsafe_digest(content)},{len(content)}\n" for name, content in sorted(files.items())]
    record = f"{info}/RECORD"
    return agent_package.packed({**files, record: "".join([*rows, f"{record},,\n"]).encode()})


def deb() -> bytes:
    """The Debian package: file, unit, settings without a hub. Raises CalledProcessError when dpkg-deb refuses."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        _lay_out(tree)
        for path in sorted(tree.rglob("*"), reverse=True):
            os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)
        os.utime(tree, (EPOCH, EPOCH))
        made = Path(scratch) / "made.deb"
        # no threads, no zstd: the same bytes on every machine, and readable by old dpkg
        command = ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", str(tree), str(made)]
        environment = {"PATH": os.defpath, "SOURCE_DATE_EPOCH": str(EPOCH), "LC_ALL": "C"}
        subprocess.run(command, check=True, capture_output=True, env=environment)
        return made.read_bytes()


def _lay_out(tree: Path) -> None:
    _put(tree / HOME / "fleetwatch-agent.pyz", agent_package.build(), 0o755)
    unit = agent_package.unit(python="/usr/bin/python3", home=f"/{HOME}")
    _put(tree / "lib/systemd/system/fleetwatch-agent.service", unit.encode())
    _put(tree / "etc/fleetwatch-agent/environment", (DEBIAN / "environment").read_bytes(), 0o600)
    notices = agent_package.notices()
    _put(tree / "usr/share/doc/fleetwatch-agent/copyright", b"\n".join([notices["NOTICE"], *(notices[name] for name in sorted(notices))]))
    _put(tree / "DEBIAN/control", CONTROL.format(version=agent_package.version(), maintainer=MAINTAINER).encode())
    _put(tree / "DEBIAN/conffiles", b"/etc/fleetwatch-agent/environment\n")
    for name in ("postinst", "prerm", "postrm"):
        _put(tree / "DEBIAN" / name, (DEBIAN / name).read_bytes(), 0o755)
    for path in [tree, *tree.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
    (tree / "etc/fleetwatch-agent").chmod(0o700)
    link = tree / "usr/bin/fleetwatch-agent"
    link.parent.mkdir(mode=0o755)
    link.parent.chmod(0o755)
    link.symlink_to(f"/{HOME}/fleetwatch-agent.pyz")


def _put(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _urlsafe_digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    for each in write(Path(sys.argv[1])):
        sys.stdout.write(f"{each}\n")
    if not shutil.which("dpkg-deb"):
        sys.stdout.write("no Debian package: dpkg-deb is not installed\n")
