"""`python -m benchmarks.background NAME`: one kind of the workers' work, over and over, until this
process is ended; a line per round.
"""

import os
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import django

OLD_CHUNKS = 200  # put there and deleted again in each round
MB = 2**20


def main() -> None:
    django.setup()
    work = works()[sys.argv[1]]
    while True:
        work()
        print("done", flush=True)
        time.sleep(0.05)


def works() -> dict[str, Callable[[], object]]:
    """What runs beside the requests, by name."""
    from django.utils import timezone

    from fleetwatch.ledger import services as ledger
    from fleetwatch.telemetry import join, matrices, seal

    def seal_and_join() -> None:
        now = timezone.now()
        seal.seal_closed_hours(now, 200)
        join.join_complete_spans(now, 50)
        matrices.refresh_recent(now)

    return {
        "seal, join": seal_and_join,
        "post": lambda: ledger.post(timezone.now(), 50),
        "partitions": lambda: make_and_drop_a_partition(timezone.now()),
        "retention": lambda: store_and_delete_old_chunks(timezone.now()),
    }


def make_and_drop_a_partition(now: datetime) -> None:
    """One of a month ago: attached and, being sealed whole, detached and dropped."""
    from fleetwatch.telemetry import partitions

    partitions.ensure_for(now - timedelta(days=30))
    partitions.drop_sealed(now)


def store_and_delete_old_chunks(now: datetime) -> None:
    from fleetwatch.telemetry import chunks, retention

    hour = retention.columns_since(now) - timedelta(days=30)
    payload = os.urandom(MB // 20)
    chunks.store(
        [
            chunks.Packed(-1, hour + step * chunks.HOUR, hour + (step + 1) * chunks.HOUR, payload)
            for step in range(OLD_CHUNKS)
        ]
    )
    retention.apply(now)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleetwatch.settings")
    main()
