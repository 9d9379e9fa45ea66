"""Brings what people log in by elsewhere, or says in one line why it can't be:
`python3 -m tests.identity.prepare`, by whatever python3 is there.

Exit status 0: ready; 2: not, and why is on standard error. As root it installs Debian's packages
that are missing.
"""

import pathlib
import subprocess
import sys

from tests.debian import install

FOLDER = pathlib.Path(__file__).resolve().parents[2] / ".identity"
PROVIDER = "oidc-provider@9.13.3"
PACKAGES = {"node": "nodejs", "npm": "npm", "slapd": "slapd"}  # by a command that is in it


def main() -> int:
    reason = install(PACKAGES) or provider()
    if reason:
        sys.stderr.write(f"nobody to log in by can be started here: {reason}\n")
    return 2 if reason else 0


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
