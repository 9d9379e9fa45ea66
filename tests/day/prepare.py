"""Brings what the day needs, or says in one line why it can't be: `python -m tests.day.prepare`, by
whatever python3 is there.

Exit status 0: ready; 2: not, and why is on standard error.
"""

import shutil
import subprocess
import sys

from tests.debian import UnavailableError, unpacked
from tests.identity.prepare import PATH, provider


def main() -> int:
    reason = obstacle() or provider() or without_alertmanager()
    if reason:
        sys.stderr.write(f"the day can't be lived here: {reason}\n")
    return 2 if reason else 0


def obstacle() -> str:
    """Why it can't be lived here whatever is fetched; "" where it can."""
    commands = {"cc": "a C compiler", "node": "node", "npm": "npm", "unshare": "util-linux"}
    missing = [what for command, what in commands.items() if not shutil.which(command, path=PATH)]
    if missing:
        return f"missing: {', '.join(missing)}"
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
