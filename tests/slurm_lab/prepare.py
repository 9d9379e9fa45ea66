"""Makes this machine ready for the lab, or says in one line why it can't be: prepare.py. Runs by
whatever python3 is there.

Exit status 0: ready; 2: not, and why is on standard error. As root it installs the packages that
are missing.
"""

import os
import pathlib
import shutil
import subprocess
import sys

CGROUPS = pathlib.Path("/sys/fs/cgroup")
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
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
# Debian asks it before it starts a package's daemons: the lab starts its own
NO_START = pathlib.Path("/usr/sbin/policy-rc.d")


def main() -> int:
    """0 where the lab can start."""
    reason = obstacle() or install(missing())
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


def missing() -> list[str]:
    """The Debian packages whose commands this machine lacks."""
    return [
        package for command, package in PACKAGES.items() if shutil.which(command, path=PATH) is None
    ]


def install(packages: list[str]) -> str:
    """Installs them with apt; "" when they are here, else why not."""
    if not packages:
        return ""
    if shutil.which("apt-get", path=PATH) is None:
        return f"missing, and no apt-get to install them: {' '.join(packages)}"
    is_ours = not NO_START.exists()
    if is_ours:
        NO_START.write_text("#!/bin/sh\nexit 101\n")
        NO_START.chmod(0o755)
    try:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": PATH}
        subprocess.run(
            ["apt-get", "update", "-qq"], env=environment, capture_output=True, timeout=300
        )
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
        done = subprocess.run(command, env=environment, capture_output=True, timeout=900)
    except subprocess.TimeoutExpired:
        return f"apt-get took too long to install {' '.join(packages)}"
    finally:
        if is_ours:
            NO_START.unlink()
    rest = missing()
    if not rest:
        return ""
    last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no output"])[-1]
    return f"missing: {' '.join(rest)} (apt-get: {last[:200]})"


if __name__ == "__main__":
    sys.exit(main())
