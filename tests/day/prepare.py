"""Brings what the day needs, or says in one line why it can't be: `python3 -m tests.day.prepare`, by
whatever python3 is there.

Exit status 0: ready; 2: not, and why is on standard error. As root it installs Debian's packages
that are missing.
"""

import os
import subprocess
import sys

from tests.channels.prepare import PACKAGES as OF_POSTFIX
from tests.debian import UnavailableError, install, unpacked
from tests.identity.prepare import provider

# by a command that is in it
PACKAGES = {"cc": "gcc", "node": "nodejs", "npm": "npm", "unshare": "util-linux"} | OF_POSTFIX


def main() -> int:
    reason = (
        without_root()
        or install(PACKAGES)
        or without_namespaces()
        or provider()
        or without_alertmanager()
    )
    if reason:
        sys.stderr.write(f"the day can't be lived here: {reason}\n")
    return 2 if reason else 0


def without_root() -> str:
    """Why Postfix can't run; "" where it can."""
    return "" if os.geteuid() == 0 else "it needs root: Postfix' daemons change their user"


def without_namespaces() -> str:
    """Why a real Alertmanager can't have a namespace of its own; "" where it can."""
    asked = ["unshare", "--map-root-user", "--mount", "true"]
    tried = subprocess.run(asked, capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"no namespace: {tried.stderr.strip()[:200]}"


def without_alertmanager() -> str:
    """Why Debian's Alertmanager is not there; "" where it is."""
    try:
        unpacked("prometheus-alertmanager")
    except UnavailableError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(main())
