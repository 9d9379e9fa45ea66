"""Programs of Debian's packages: unpacked beside the sources and installed nowhere, or, where their
daemons need it, installed by root.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / ".debian"
PATIENCE_S = 120
INSTALLING_S = 900
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
# Debian asks it before it starts a package's daemons: tests start their own
NO_START = Path("/usr/sbin/policy-rc.d")


class UnavailableError(Exception):
    """The program can't be had here; says why."""


def unpacked(package: str) -> Path:
    """The folder with the package's files, kept for the next time. Raises UnavailableError."""
    root = FOLDER / package
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # each worker of the tests wants it
        if not root.is_dir():
            _unpack(package, root)
    return root


def _unpack(package: str, root: Path) -> None:
    for command in ("apt-get", "dpkg-deb"):
        if not shutil.which(command):
            raise UnavailableError(f"{package} can't be fetched: there is no {command}")
    fresh = FOLDER / f"{package}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    _download(package, fresh)
    [archive] = fresh.glob("*.deb")
    _run(["dpkg-deb", "-x", str(archive), str(fresh)], fresh)
    archive.unlink()
    fresh.rename(root)


def _download(package: str, folder: Path) -> None:
    """The package's archive, by lists of our own where the machine has none or old ones."""
    try:
        _run(["apt-get", "download", "-q", package], folder)
    except UnavailableError:
        lists = FOLDER / "lists"
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        own = ["-q", "-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={FOLDER}/cache"]
        _run(["apt-get", "update", *own], folder)
        _run(["apt-get", "download", *own, package], folder)


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{command[0]} took longer than {PATIENCE_S} s") from error
    if done.returncode:
        raise UnavailableError(" ".join((done.stderr or done.stdout).split())[-300:])


def install(packages: Mapping[str, str]) -> str:
    """Installs those (by a command that is in it) whose commands this machine lacks; "" when all
    are here, else why not.
    """
    lacking = _lacking(packages)
    if not lacking:
        return ""
    if os.geteuid() != 0:
        return f"it needs root to install {' '.join(lacking)}"
    if shutil.which("apt-get", path=PATH) is None:
        return f"missing, and no apt-get to install them: {' '.join(lacking)}"
    said = _apt_get(lacking)
    lacking = _lacking(packages)
    return f"missing: {' '.join(lacking)} (apt-get: {said})" if lacking else ""


def _lacking(packages: Mapping[str, str]) -> list[str]:
    return [name for command, name in packages.items() if not shutil.which(command, path=PATH)]


def _apt_get(packages: list[str]) -> str:
    """The last line of what it said of what is wrong."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": PATH}
    is_ours = not NO_START.exists()
    if is_ours:
        NO_START.write_text("#!/bin/sh\nexit 101\n")
        NO_START.chmod(0o755)
    try:
        for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            done = subprocess.run(
                ["apt-get", "-qq", *command],
                env=environment,
                capture_output=True,
                text=True,
                timeout=INSTALLING_S,
            )
    except subprocess.TimeoutExpired:
        return "it took too long"
    finally:
        if is_ours:
            NO_START.unlink()
    return (done.stderr.strip().splitlines() or ["no output"])[-1][:200]
