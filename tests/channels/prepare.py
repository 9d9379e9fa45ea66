"""Brings Debian's Postfix, or says in one line why it can't be: `python3 -m tests.channels.prepare`,
by whatever python3 is there.

Exit status 0: ready; 2: not, and why is on standard error. As root it installs the packages that
are missing.
"""

import os
import sys

from tests.debian import install

PACKAGES = {"postfix": "postfix", "saslpasswd2": "sasl2-bin"}  # by a command that is in it


def main() -> int:
    """0 where Postfix can start."""
    is_root = os.geteuid() == 0
    reason = install(PACKAGES) if is_root else "it needs root: its daemons change their user"
    if reason:
        sys.stderr.write(f"no Postfix can be started here: {reason}\n")
    return 2 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
