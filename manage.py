#!/usr/bin/env python3
"""Django's command line, and FleetWatch's: `python manage.py help`."""

import os
import sys
from pathlib import Path

from fleetwatch.lib.env import ConfigurationError, data_dir

INTERRUPTED = 130  # a shell's status for Ctrl-C

try:
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db.utils import OperationalError
# a Python without the requirements: the one that `make` installed them for has them
except ModuleNotFoundError:
    venv = Path(__file__).resolve().parent / ".venv"
    if not (venv / "bin/python").exists() or Path(sys.prefix).resolve() == venv:
        sys.exit(
            "fleetwatch: the requirements are not installed here: `make up` or `make demo` installs"
            " them into .venv"
        )
    os.execv(venv / "bin/python", [str(venv / "bin/python"), *sys.argv])  # noqa: S606 -- no shell is wanted
except KeyboardInterrupt:
    sys.exit(INTERRUPTED)


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleetwatch.settings")
    if sys.argv[1:2] != ["up"]:  # its children choose for themselves
        # one connection is enough, and its failure is said at once
        os.environ.setdefault("FLEETWATCH_DB_POOL", "0")
    try:
        execute_from_command_line(sys.argv)
    except (ConfigurationError, ImproperlyConfigured) as error:
        sys.exit(_refusal(str(error)))
    except OperationalError as error:
        sys.exit(_refusal(_unreachable(error)))
    except KeyboardInterrupt:
        _refusal("interrupted")
        sys.exit(INTERRUPTED)


def _unreachable(error: OperationalError) -> str:
    """What to do where the database can't be reached."""
    if settings.DATABASES["default"].get("HOST") == settings.NO_DATABASE:
        return (
            f"no stack runs with its data in {data_dir()}: `make up` starts one, FLEETWATCH_DATA"
            " names another, DATABASE_URL a database"
        )
    where = (
        "DATABASE_URL"
        if "DATABASE_URL" in os.environ
        else f"the stack in {data_dir()}: is it running? FLEETWATCH_DATA names another"
    )
    return f"can't reach the database of {where} ({str(error).splitlines()[0]})"


def _refusal(sentence: str) -> int:
    sys.stderr.write(f"fleetwatch: {sentence}\n")
    return 2


if __name__ == "__main__":
    main()
