"""Programs of Debian's packages, unpacked beside the sources and installed nowhere."""

import fcntl
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / ".debian"
PATIENCE_S = 120


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
