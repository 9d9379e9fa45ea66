"""Brings what a hub over several hosts stands on, or says in one line why it can't be:
`python3 -m tests.scale.prepare`, by whatever python3 is there.

Exit status 0: ready; 2: not, and why is on standard error. Debian's haproxy, PgBouncer, etcd and
Redis with Sentinel are installed as root where they are missing; Patroni comes from PyPI into a
folder of its own, as Debian's is older than the Postgres that it is to watch.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.debian import install

PACKAGES = {
    "haproxy": "haproxy",
    "pgbouncer": "pgbouncer",
    "etcd": "etcd-server",
    "redis-server": "redis-server",
    "redis-sentinel": "redis-sentinel",
}
PATRONI = "patroni[etcd3,psycopg3]==4.1.5"
# with the system's Python: where the account that Postgres runs as can read it
FOLDER = Path("/opt/fleetwatch-patroni")


def main() -> int:
    """0 where such a hub can start."""
    is_root = os.geteuid() == 0
    reason = install(PACKAGES) if is_root else "it needs root: its servers are of several users"
    reason = reason or _install_patroni()
    if reason:
        sys.stderr.write(f"no hub over several hosts can be started here: {reason}\n")
    return 2 if reason else 0


def _install_patroni() -> str:
    """ "" where it is there, else why not."""
    stamp = FOLDER / "stamp"
    if stamp.exists() and stamp.read_text() == PATRONI:
        return ""
    for command in (
        ["/usr/bin/python3", "-m", "venv", "--clear", str(FOLDER)],
        [str(FOLDER / "bin" / "pip"), "install", "-q", PATRONI],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return f"{PATRONI}: {' '.join(done.stderr.split())[-200:]}"
    stamp.write_text(PATRONI)
    return ""


if __name__ == "__main__":
    sys.exit(main())
