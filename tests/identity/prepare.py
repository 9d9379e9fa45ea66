"""Brings what people log in by elsewhere, or says in one line why it can't be: prepare.py. Runs by
whatever python3 is there.

Exit status 0: ready; 2: not, and why is on standard error. As root it installs Debian's packages
that are missing.
"""

import os
import pathlib
import shutil
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[2] / ".identity"
PROVIDER = "oidc-provider@9.13.3"
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
PACKAGES = {"node": "nodejs", "npm": "npm", "slapd": "slapd"}  # by a command that is in it


def main() -> int:
    reason = packages() or provider()
    if reason:
        sys.stderr.write(f"nobody to log in by can be started here: {reason}\n")
    return 2 if reason else 0


def packages() -> str:
    """Why a Debian package is missing still; "" where none is."""
    missing = [name for command, name in PACKAGES.items() if not shutil.which(command, path=PATH)]
    if not missing:
        return ""
    if os.geteuid() != 0:
        return f"it needs root to install {', '.join(missing)}"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return "" if done.returncode == 0 else " ".join(done.stderr.split())[-300:]


def provider() -> str:
    """Why npm's OpenID Connect provider is not there; "" where it is."""
    if (FOLDER / "node_modules" / "oidc-provider").is_dir():
        return ""
    FOLDER.mkdir(exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(FOLDER), PROVIDER]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else " ".join(done.stderr.split())[-300:]


if __name__ == "__main__":
    sys.exit(main())
