#!/usr/bin/env python
"""Django's command line, and FleetWatch's: `python manage.py help`."""

import os
import sys

from django.core.management import execute_from_command_line
from django.db.utils import OperationalError

from fleetwatch.lib.env import ConfigurationError, data_dir


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleetwatch.settings")
    if sys.argv[1:2] != ["up"]:  # its children choose for themselves
        os.environ.setdefault("FLEETWATCH_DB_POOL", "0")  # one connection is enough, and its failure is said at once
    try:
        execute_from_command_line(sys.argv)
    except ConfigurationError as error:
        sys.exit(_refusal(str(error)))
    except OperationalError as error:
        where = (
            "DATABASE_URL" if "DATABASE_URL" in os.environ else f"the stack in {data_dir()}: is it running? FLEETWATCH_DATA names another"
        )
        sys.exit(_refusal(f"can't reach the database of {where} ({str(error).splitlines()[0]})"))


def _refusal(sentence: str) -> int:
    sys.stderr.write(f"fleetwatch: {sentence}\n")
    return 2


if __name__ == "__main__":
    main()
