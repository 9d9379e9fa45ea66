"""The agent as one file, fleetwatch-agent.pyz, its systemd unit, and the script that
installs both.
"""

import hashlib
import importlib.metadata
import importlib.util
import io
import re
import zipfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
INSTALL_SCRIPT = ROOT / "deploy" / "agent" / "install.sh"
UNIT = ROOT / "deploy" / "agent" / "fleetwatch-agent.service"
MAIN = ROOT / "deploy" / "agent" / "zipmain.py"
SHEBANG = b"#!/usr/bin/env python3\n"
# Zip keeps times; a fixed one makes the same sources the same bytes, so that the checksum on the
# page means something.
TIME = (1980, 1, 1, 0, 0, 0)
CHECKSUM_PLACE = "@SHA256@"
UNIT_PLACE = "@UNIT@\n"
# the driver's fixed number among character devices (devices.txt); GPUs are its minors
NVIDIA_MAJOR = 195
MOST_GPUS = 16
BINDINGS_LICENCE = "LICENSE.nvidia-ml-py"
NOTICE = """\
fleetwatch-agent {version} holds:

agent/      FleetWatch agent, Apache License 2.0 (see LICENSE).
pynvml.py   nvidia-ml-py {bindings}, Copyright (c) NVIDIA Corporation, BSD 3-clause, unchanged
            (see {licence}).
"""


def install_command(server: str, token: str) -> str:
    """The line that people paste on a GPU host: installs an agent from `server` and lets it in by
    an enrolment or agent token.

    The token goes through the pipe, as the script's first line (echo is a part of the shell): no
    process list shows it.
    """
    return (
        f"curl -fsSL {server}/agent/install.sh | {{ echo FLEETWATCH_TOKEN={token}; cat; }} | sudo"
        f" sh -s -- --server {server}"
    )


def upgrade_command(server: str) -> str:
    """The same line for a host that has an agent: token, settings and queue stay."""
    return f"curl -fsSL {server}/agent/install.sh | sudo sh"


@cache
def version() -> str:
    """The version of the agent that this hub hands out; read, not imported: the hub does not run
    it.
    """
    match = re.search(
        r'^__version__ = "([^"]+)"$',
        (ROOT / "agent" / "__init__.py").read_text("utf-8"),
        re.MULTILINE,
    )
    if match is None:
        raise ValueError("agent/__init__.py names no version")
    return match.group(1)


@cache
def build() -> bytes:
    """The file: Python >= 3.8 runs it.

    The same sources give the same bytes. Kept for the life of the process.
    """
    return SHEBANG + packed(
        {
            **agent_files(),
            "__main__.py": MAIN.read_bytes(),
            "pynvml.py": _bindings().read_bytes(),
            **notices(),
        }
    )


@cache
def checksum() -> str:
    """SHA-256 of the file, in hexadecimal."""
    return hashlib.sha256(build()).hexdigest()


def install_script() -> str:
    """The shell script, with the unit and the checksum of the file that this server hands out."""
    script = INSTALL_SCRIPT.read_text(encoding="utf-8").replace(CHECKSUM_PLACE, checksum())
    # within the script's here-document the shell fills in the interpreter and the folder
    return script.replace(UNIT_PLACE, unit(python="$PYTHON", home='${HOME_DIR#"$ROOT"}'))


def unit(*, python: str, home: str) -> str:
    """The systemd unit for an agent below `home`, run by the interpreter `python`."""
    devices = "\n".join(
        f"DeviceAllow=/dev/char/{NVIDIA_MAJOR}:{minor} rw" for minor in range(MOST_GPUS)
    )
    text = UNIT.read_text(encoding="utf-8")
    return text.replace("@PYTHON@", python).replace("@HOME@", home).replace("@DEVICES@", devices)


def packed(files: dict[str, bytes]) -> bytes:
    """A zip file that depends on names and contents alone."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in sorted(files.items()):
            entry = zipfile.ZipInfo(name, TIME)
            entry.create_system = 3  # Unix, wherever it is built
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, text, zipfile.ZIP_DEFLATED, 9)
    return content.getvalue()


def agent_files() -> dict[str, bytes]:
    """The agent's modules, by their place below the checkout."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for path in (ROOT / "agent").rglob("*.py")
    }


def notices() -> dict[str, bytes]:
    """Licences of what the file holds, and what that is."""
    bindings = importlib.metadata.version("nvidia-ml-py")
    notice = NOTICE.format(version=version(), bindings=bindings, licence=BINDINGS_LICENCE)
    return {
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        "NOTICE": notice.encode(),
        BINDINGS_LICENCE: bindings_licence().encode(),
    }


def bindings_licence() -> str:
    """NVIDIA's licence of its bindings; the wheel has it nowhere but at the head of the module.

    Raises ValueError when it is not there: without it they may not be handed on.
    """
    head = re.match(r"#####\n((?:#.*\n)+?)#####\n", _bindings().read_text("utf-8"))
    text = (
        ""
        if head is None
        else "".join(
            line.removeprefix("#").removeprefix(" ")
            for line in head.group(1).splitlines(keepends=True)
        )
    )
    if "Redistribution and use" not in text:
        raise ValueError("the installed nvidia-ml-py has no licence text at the head of pynvml.py")
    return text


def _bindings() -> Path:
    """Where the bindings lie; found, not imported: the hub has no use for a driver."""
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("nvidia-ml-py is not installed: it belongs to requirements.txt")
    return Path(spec.origin)
