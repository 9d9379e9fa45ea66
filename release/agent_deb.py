"""The agent as a Debian package: no conffile, so that no upgrade stops at a question."""

import hashlib
import tempfile
from pathlib import Path

from fleetwatch.ingest import agent_package
from release import agent_tree

DEBIAN = agent_tree.SOURCES / "debian"
SCRIPTS = ("postinst", "prerm", "postrm")


def file_name(version: str) -> str:
    return f"fleetwatch-agent_{version}_all.deb"


def build(version: str) -> bytes:
    """The package. Raises CalledProcessError when dpkg-deb refuses."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        agent_tree.lay_out(tree)
        _add(tree, version)
        agent_tree.settle(tree)
        made = Path(scratch) / "made.deb"
        # no zstd: readable by old dpkg
        command = ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", str(tree), str(made)]
        agent_tree.run(command, home=scratch)
        return made.read_bytes()


def _add(tree: Path, version: str) -> None:
    """What only Debian asks for."""
    about = tree / "usr/share/doc/fleetwatch-agent"
    agent_tree.put(
        tree / "usr/share/fleetwatch-agent/environment", agent_tree.SETTINGS.read_bytes()
    )
    agent_tree.put(about / "changelog.gz", agent_tree.packed(_filled("changelog", version)))
    agent_tree.put(about / "copyright", _filled("copyright", version))
    agent_tree.put(tree / "DEBIAN/md5sums", _sums(tree))
    agent_tree.put(tree / "DEBIAN/control", _filled("control", version))
    for name in SCRIPTS:
        agent_tree.put(tree / "DEBIAN" / name, (DEBIAN / name).read_bytes(), 0o755)


def _filled(name: str, version: str) -> bytes:
    text = (DEBIAN / name).read_text(encoding="utf-8")
    # in a copyright file each line is indented, and an empty one is a dot
    licence = "\n".join(
        f" {line or '.'}" for line in agent_package.bindings_licence().strip().splitlines()
    )
    text = text.replace("@VERSION@", version).replace("@MAINTAINER@", agent_tree.MAINTAINER)
    return text.replace("@BINDINGS_LICENCE@", licence).encode()


def _sums(tree: Path) -> bytes:
    """MD5 of each file, by which `dpkg --verify` tells what was changed."""
    files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    lines = [
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()} "
        f" {path.relative_to(tree)}\n"
        for path in files
    ]
    return "".join(lines).encode()
