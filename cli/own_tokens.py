"""The person's tokens, one for each hub, in a file that nobody else may read."""

import json
import os
import tempfile
from pathlib import Path
from typing import Dict, Mapping, Optional

from cli.cli_errors import BAD_ARGUMENTS, CommandError

FOLDER_MODE = 0o700
OTHERS = 0o077  # rights of group and others


def token_of(hub: str, environment: Mapping[str, str]) -> Optional[str]:
    """The token for the hub: of FLEETWATCH_TOKEN, of the file that FLEETWATCH_TOKEN_FILE names, or
    of a log-in; None where there is none. Raises CommandError for a file that others may read.
    """
    if environment.get("FLEETWATCH_TOKEN"):
        return environment["FLEETWATCH_TOKEN"].strip()
    if environment.get("FLEETWATCH_TOKEN_FILE"):
        return _private_text(Path(environment["FLEETWATCH_TOKEN_FILE"])).strip()
    return read_tokens(environment).get(hub)


def tokens_file(environment: Mapping[str, str]) -> Path:
    """Where log-ins are kept: https://specifications.freedesktop.org/basedir-spec/."""
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(home) / "fleetwatch" / "tokens.json"


def read_tokens(environment: Mapping[str, str]) -> Dict[str, str]:
    """Token by hub. Raises CommandError for a file that others may read, or of something else."""
    path = tokens_file(environment)
    if not path.exists():
        return {}
    try:
        kept = json.loads(_private_text(path))
    except ValueError:
        kept = None
    if not isinstance(kept, dict):
        raise CommandError("%s is no file of tokens: remove it and log in again" % path)
    return {str(hub): str(token) for hub, token in kept.items()}


def write_tokens(tokens: Mapping[str, str], environment: Mapping[str, str]) -> Path:
    """Keeps these tokens alone: the file is there whole or as it was, and the owner's alone."""
    path = tokens_file(environment)
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=str(path.parent))  # made with mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(dict(tokens), file, indent=1)
    os.replace(name, str(path))
    return path


def _private_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & OTHERS:
                raise CommandError(
                    "others may read %s: chmod 600 it, or end the token" % path, BAD_ARGUMENTS
                )
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError("%s can't be read: %s" % (path, error), BAD_ARGUMENTS) from None
