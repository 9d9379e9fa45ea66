"""Makes this machine ready for the lab, or says in one line why it can't be:
`python3 -m tests.slurm_lab.prepare`, by whatever python3 is there.

Exit status 0: ready; 2: not, and why is on standard error. As root it installs the packages that
are missing.
"""

import os
import pathlib
import subprocess
import sys

from tests.debian import install

CGROUPS = pathlib.Path("/sys/fs/cgroup")
PACKAGES = {  # by a command that is in it
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurmdbd": "slurmdbd",
    "sbatch": "slurm-client",
    "munged": "munge",
    "mariadbd": "mariadb-server",
    "cc": "gcc",
    "nsenter": "util-linux",
}


def main() -> int:
    """0 where the lab can start."""
    reason = obstacle() or install(PACKAGES)
    if reason:
        sys.stderr.write(f"no Slurm can be started here: {reason}\n")
    return 2 if reason else 0


def obstacle() -> str:
    """Why no lab can start here whatever is installed; "" where one can."""
    if os.geteuid() != 0:
        return "it needs root (namespaces, control groups, other users)"
    tried = subprocess.run(
        ["unshare", "--mount", "--uts", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
        capture_output=True,
    )
    if tried.returncode != 0:
        return (
            "this machine gives no namespaces: "
            + " ".join(tried.stderr.decode(errors="replace").split())[:200]
        )
    groups = CGROUPS / "devices"
    if not groups.is_dir():
        groups = CGROUPS
    if not (groups / "cgroup.procs").exists():
        return f"no control groups are mounted in {CGROUPS}"
    probe = groups / f"fleetwatch-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        return f"the control groups in {groups} can't be changed: {error.strerror}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
