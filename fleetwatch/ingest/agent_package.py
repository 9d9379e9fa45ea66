"""The agent as one file, fleetwatch-agent.pyz, and the script that installs it."""

import hashlib
import importlib.metadata
import importlib.util
import io
import sys
import zipfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
INSTALL_SCRIPT = ROOT / "deploy" / "agent" / "install.sh"
SHEBANG = b"#!/usr/bin/env python3\n"
# In words that the oldest Python understands: it shall say what is missing, not show a traceback.
MAIN = b"""\
import runpy
import sys

if sys.version_info < (3, 8):
    sys.stderr.write("fleetwatch-agent: Python 3.8 or newer is needed, this is %d.%d\\n" % sys.version_info[:2])
    sys.exit(2)
runpy.run_module("agent", run_name="__main__", alter_sys=True)
"""
# Zip keeps times; a fixed one makes the same sources the same bytes, so that the checksum on the page means something.
TIME = (1980, 1, 1, 0, 0, 0)
CHECKSUM_PLACE = "@SHA256@"
NOTICE = """\
fleetwatch-agent.pyz holds:

agent/      FleetWatch agent, Apache License 2.0 (see LICENSE).
pynvml.py   nvidia-ml-py {version}, Copyright (c) NVIDIA Corporation, BSD 3-clause;
            its licence text stands at the head of that file.
"""


def install_command(server: str, token: str) -> str:
    """The line that people paste on a GPU host: installs an agent from `server` and lets it in by an enrolment or agent token."""
    return f"curl -fsSL {server}/agent/install.sh | sudo sh -s -- --server {server} --token {token}"


@cache
def build() -> bytes:
    """The file: Python >= 3.8 runs it. The same sources give the same bytes. Kept for the life of the process."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in sorted(_contents().items()):
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return SHEBANG + packed.getvalue()


@cache
def checksum() -> str:
    """SHA-256 of the file, in hexadecimal."""
    return hashlib.sha256(build()).hexdigest()


def install_script() -> str:
    """The shell script, with the checksum of the file that this server hands out."""
    return INSTALL_SCRIPT.read_text(encoding="utf-8").replace(CHECKSUM_PLACE, checksum())


def _contents() -> dict[str, bytes]:
    agent = {str(path.relative_to(ROOT)): path.read_bytes() for path in (ROOT / "agent").rglob("*.py")}
    version = importlib.metadata.version("nvidia-ml-py")
    return {
        **agent,
        "__main__.py": MAIN,
        "pynvml.py": _pynvml().read_bytes(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        "NOTICE": NOTICE.format(version=version).encode(),
    }


def _pynvml() -> Path:
    """Where the bindings lie; found, not imported: the hub has no use for a driver."""
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("nvidia-ml-py is not installed: it belongs to requirements.txt")
    return Path(spec.origin)


def main(folder: str) -> None:
    """`make agent`: the file, below the folder."""
    path = Path(folder) / "fleetwatch-agent.pyz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(build())
    path.chmod(0o755)
    sys.stdout.write(f"{path} sha256:{checksum()}\n")


if __name__ == "__main__":
    main(sys.argv[1])
