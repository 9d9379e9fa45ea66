#!/usr/bin/env python
"""Django's command line, and FleetWatch's: `python manage.py help`."""

import os
import sys

from django.core.management import execute_from_command_line

from fleetwatch.lib.env import ConfigurationError


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleetwatch.settings")
    try:
        execute_from_command_line(sys.argv)
    except ConfigurationError as error:
        sys.exit(_refusal(error))


def _refusal(error: ConfigurationError) -> int:
    sys.stderr.write(f"fleetwatch: {error}\n")
    return 2


if __name__ == "__main__":
    main()
