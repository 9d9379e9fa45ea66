"""What `benchmarks.make_fleet` does: a large simulated fleet with its past, for load tests, on an
empty hub.
"""

import multiprocessing
import os
from argparse import ArgumentParser
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import django
from django.conf import settings
from django.core.management.base import CommandError
from django.utils import timezone

from benchmarks import bulk, tiling
from fleetwatch.accounts.selectors import zone
from fleetwatch.costs.day_sums import sum_days
from fleetwatch.costs.services import ensure_example_rates
from fleetwatch.demo import fleet
from fleetwatch.inventory.models import Node
from fleetwatch.ledger import state_days
from fleetwatch.ledger.services import post
from fleetwatch.lib.commands import HubCommand
from fleetwatch.lib.intervals import Interval
from fleetwatch.operations.services import record_run

MAX_GPUS = 20_000
MAX_DAYS = 400
DAY = timedelta(days=1)
DISTINCT = 128
NO_LIMIT = 10**9


class Command(HubCommand):
    """Tells the nodes' days side by side, posts them, and tiles older days of the ledger where
    asked.
    """

    help = (
        "Makes a fleet for load tests on an empty hub: whole UTC days of windows as sealed columns,"
        " posted for real, and older days of the ledger tiled from the oldest posted one"
        " (--ledger-days). 1,000 GPUs x 30 days take minutes."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--gpus", type=int, default=1000, help="eight to a node (default %(default)s)"
        )
        parser.add_argument(
            "--days",
            type=int,
            default=1,
            help=(
                "whole UTC days of windows, up to yesterday; no more than raw columns are kept"
                " (default %(default)s)"
            ),
        )
        parser.add_argument(
            "--fine-days",
            type=int,
            default=1,
            help="of these, the newest in 10 s windows, the rest in 60 s (default %(default)s)",
        )
        parser.add_argument(
            "--ledger-days",
            type=int,
            default=0,
            help="days of ledger in all; those without windows are tiled",
        )
        parser.add_argument(
            "--workers",
            type=int,
            default=os.cpu_count(),
            help="processes (default: the cores, %(default)s)",
        )
        parser.add_argument(
            "--distinct",
            type=int,
            default=DISTINCT,
            help=(
                "nodes that are drawn; the others echo one of these with noise of their own, as"
                " days do the newest (default %(default)s)"
            ),
        )
        parser.add_argument(
            "--columns", default="", help="window columns to keep, with commas (default: all)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        _check(options)
        now = timezone.now()
        end = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        columns = tuple(name for name in options["columns"].split(",") if name) or None
        past = bulk.Past(Interval(end - options["days"] * DAY, end), options["fine_days"], columns)
        groups = bulk.groups(bulk.nodes(options["gpus"], past.interval), options["distinct"])
        with record_run("demo.fleet") as did, _processes(options["workers"]) as pool:
            did |= self._store(pool, groups, past, now)
            did["hours"] = self._post(pool, options["workers"], now)
            ensure_example_rates(now)
            did["tiled"] = self._tile(pool, past, options["ledger_days"] - options["days"])
            did |= self._sum(pool, now)
        self.stdout.write(" ".join(f"{name}={count}" for name, count in did.items()))

    def _store(
        self, pool: Executor, groups: list[list[fleet.DemoNode]], past: bulk.Past, now: datetime
    ) -> dict[str, int]:
        stored = bulk.Stored()
        for done, of_group in enumerate(
            _in_parallel(pool, [(_store, (group, past, now)) for group in groups]), 1
        ):
            stored += of_group
            if done % max(1, len(groups) // 20) == 0:
                self._say(f"told groups={done}/{len(groups)} windows={stored.windows}")
        return {"nodes": sum(map(len, groups)), "windows": stored.windows, "values": stored.values}

    def _post(self, pool: Executor, workers: int, now: datetime) -> int:
        hours: int = sum(_in_parallel(pool, [(_post, (now,))] * workers))
        self._say(f"posted hours={hours}")
        return hours

    def _tile(self, pool: Executor, past: bulk.Past, days: int) -> int:
        posted_day = Interval(past.interval.start, past.interval.start + DAY)
        shifts = tiling.untiled(posted_day, days)
        if not shifts:
            return 0
        written = 0
        with tiling.without_indexes():
            for start, entries in _in_parallel(
                pool, [(_tile, (posted_day, shift)) for shift in shifts]
            ):
                written += entries
                self._say(f"tiled day={start:%Y-%m-%d} entries={entries}")
        tiling.take_for_granted(posted_day, days)
        return written

    def _sum(self, pool: Executor, now: datetime) -> dict[str, int]:
        """Both kinds of sums of days, side by side."""
        did: dict[str, int] = {}
        for summed in _in_parallel(
            pool, [(state_days.refresh, (now, NO_LIMIT)), (sum_days, (now, NO_LIMIT))]
        ):
            did |= summed
            self._say(" ".join(f"{name}={count}" for name, count in summed.items()))
        return did

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _check(options: dict[str, Any]) -> None:
    if not (
        1 <= options["gpus"] <= MAX_GPUS
        and 1 <= options["days"] <= MAX_DAYS
        and 0 <= options["ledger_days"] <= MAX_DAYS
    ):
        raise CommandError(
            f"--gpus is 1 to {MAX_GPUS}, --days and --ledger-days at most {MAX_DAYS}"
        )
    if not 1 <= options["workers"] <= 64 or options["fine_days"] < 0 or options["distinct"] < 1:
        raise CommandError("--workers is 1 to 64, --fine-days not below 0, --distinct at least 1")
    if options["days"] > settings.RAW_RETENTION_DAYS:
        kept = (
            f"hours older than {settings.RAW_RETENTION_DAYS} days (FLEETWATCH_RAW_RETENTION_DAYS)"
            " are final"
        )
        raise CommandError(
            f"--days {options['days']}: {kept} and would be unobserved; --ledger-days tiles older"
            " ones"
        )
    if Node.objects.exists():
        raise CommandError(
            "this hub has nodes already: a fleet for load tests belongs on an empty one (--data of"
            " another folder)"
        )
    if options["ledger_days"] > options["days"] and str(zone()) != "UTC":
        raise CommandError(
            "days are tiled in UTC alone: set the organisation's time zone to UTC first"
        )


def _processes(workers: int) -> Executor:
    """So many processes, each with a connection of its own that it keeps."""
    return ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn"), initializer=django.setup
    )


def _in_parallel(pool: Executor, calls: list[tuple[Any, tuple[Any, ...]]]) -> Iterator[Any]:
    """Results as they come."""
    for future in as_completed(
        [pool.submit(function, *arguments) for function, arguments in calls]
    ):
        yield future.result()


def _store(group: list[fleet.DemoNode], past: bulk.Past, now: datetime) -> bulk.Stored:
    return bulk.store(group, past, received_at=now)


def _tile(posted_day: Interval, shift: int) -> tuple[datetime, int]:
    _keep(posted_day)
    return tiling.tile(posted_day, shift)


@cache
def _keep(posted_day: Interval) -> None:
    """Once in each process: its calls share a connection."""
    tiling.keep(posted_day)


def _post(now: datetime) -> int:
    return post(now, NO_LIMIT)["hours"]
