"""`python -m benchmarks.make_fleet --gpus 1000 --days 30`: a large simulated fleet with its past,
for load tests, on an empty hub that runs (FLEETWATCH_DATA names another one).
"""

import os
import sys

import django


def main() -> None:
    """Makes it, or ends with what is wrong."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleetwatch.settings")
    # one connection for each process is enough
    os.environ.setdefault("FLEETWATCH_DB_POOL", "0")
    django.setup()
    from benchmarks.large_fleet import Command

    Command().run_from_argv(["benchmarks", "make_fleet", *sys.argv[1:]])


if __name__ == "__main__":
    main()
