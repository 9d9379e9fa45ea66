"""`fleetwatch top`: what the fleet costs at this moment, and which jobs waste most of it."""

import sys
import time
from argparse import Namespace
from typing import Any, Dict

from cli import units
from cli.printed_reports import print_jobs, print_json, say
from cli.report_commands import filters_of, hub_of

LAST = "now-1h"
CLEAR = "\x1b[H\x1b[2J"


def top(asked: Namespace) -> None:
    """Once where nobody looks, else again and again until Ctrl-C. Raises CommandError."""
    hub = hub_of(asked)
    is_looked_at = sys.stdout.isatty() and not (asked.json or asked.once)
    while True:
        query = {"from": asked.start or LAST, "limit": asked.limit, **filters_of(asked)}
        jobs = hub.get("jobs", query)
        now = (hub.seen("fleet/summary", {"from": LAST}) or {}).get("now")
        if asked.json:
            return print_json({**jobs, "now": now})
        if is_looked_at:
            sys.stdout.write(CLEAR)
        _print(jobs, now)
        sys.stdout.flush()
        if not is_looked_at:
            return None
        time.sleep(asked.every)


def _print(jobs: Dict[str, Any], now: Any) -> None:
    if now:
        say(
            "%s/h now for %d GPUs, of which %d are idle: %s/h"
            % (
                units.money(now["usd_per_hour"]),
                now["gpus"],
                now["idle_gpus"],
                units.money(now["idle_usd_per_hour"]),
            ),
            "bold",
        )
    say(units.period(jobs), "dim")
    running = [job for job in jobs["rows"] if job["end_at"] is None]
    print_jobs("Running, most wasted first", running)
    for queue in jobs["queues"]:
        if queue["pending_gpus"]:
            say(
                "%s: jobs wait for %d GPUs"
                % (queue["partition"] or queue["cluster"], queue["pending_gpus"])
            )
