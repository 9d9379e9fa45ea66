"""`fleetwatch`, the command line for people on the cluster, as one file that knows its hub."""

import hashlib
from functools import cache

from fleetwatch.ingest import agent_package

COMMAND = "fleetwatch"
FOLDER = agent_package.ROOT / "cli"
NO_HUB = 'ADDRESS = ""'  # in cli/home_hub.py; the file that a hub hands out has its own


@cache
def build(hub: str = "") -> bytes:
    """The file: Python >= 3.8 runs it, from the standard library alone.

    The same sources and the same hub give the same bytes.
    """
    return agent_package.SHEBANG + agent_package.packed(
        {
            **_modules(hub),
            "__main__.py": _starter(),
            "LICENSE": (agent_package.ROOT / "LICENSE").read_bytes(),
        }
    )


@cache
def checksum(hub: str = "") -> str:
    """SHA-256 of the file, in hexadecimal."""
    return hashlib.sha256(build(hub)).hexdigest()


def install_command(hub: str) -> str:
    """The line that people paste on a login node: fetches the file, checks it, and logs in."""
    return (
        f"mkdir -p ~/.local/bin && cd ~/.local/bin && curl -fsSLO {hub}/cli/{COMMAND} && "
        f"echo '{checksum(hub)}  {COMMAND}' | sha256sum -c && chmod +x {COMMAND} && "
        f"./{COMMAND} login"
    )


def _starter() -> bytes:
    """The agent's: it looks for a Python that is new enough, and runs the package."""
    text = agent_package.MAIN.read_text("utf-8")
    return text.replace('"fleetwatch-agent"', f'"{COMMAND}"').replace('"agent"', '"cli"').encode()


def _modules(hub: str) -> dict[str, bytes]:
    files = {
        path.relative_to(agent_package.ROOT).as_posix(): path.read_bytes()
        for path in FOLDER.glob("*.py")
    }
    home = files["cli/home_hub.py"].decode()
    return {**files, "cli/home_hub.py": home.replace(NO_HUB, f"ADDRESS = {hub!r}").encode()}
