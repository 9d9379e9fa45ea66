"""`python -m benchmarks.make_fleet --gpus 1000 --days 30`: a large simulated fleet with its past,
for load tests, on an empty hub that runs (FLEETWATCH_DATA names another one).
"""

import os
import sys

import django
from django.db.utils import OperationalError

from fleetwatch.lib.env import data_dir


def main() -> None:
    """Makes it, or ends with what is wrong."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleetwatch.settings")
    # one connection for each process is enough
    os.environ.setdefault("FLEETWATCH_DB_POOL", "0")
    django.setup()
    from benchmarks.large_fleet import Command

    try:
        Command().run_from_argv(["benchmarks", "make_fleet", *sys.argv[1:]])
    except OperationalError as error:
        sys.exit(
            f"make_fleet: no hub runs with its data in {data_dir()}: `make up` starts one,"
            f" FLEETWATCH_DATA names another ({str(error).splitlines()[0]})"
        )


if __name__ == "__main__":
    main()
