"""`manage.py try_policy FILE|KEY=VALUE…`: what another policy would have said of the telemetry that
is kept; nothing is stored.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from fleetwatch.figures.pricing import CENT, usd
from fleetwatch.finance import policy_trial
from fleetwatch.finance.trial_sums import GROUPS, Line
from fleetwatch.ledger.changed_policy import changed
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.selectors import current_policy
from fleetwatch.ledger.trial import bounds
from fleetwatch.lib.commands import HubCommand
from fleetwatch.lib.intervals import HOUR_MS, Interval


class Command(HubCommand):
    help = (
        "Compares the policy in force with another one over past hours, in GPU-hours and dollars;"
        " stores nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "changes",
            nargs="+",
            metavar="FILE|KEY=VALUE",
            help="a JSON file of thresholds, or changes to the policy in force",
        )
        parser.add_argument(
            "--from",
            dest="start",
            metavar="TIME",
            help="ISO 8601, UTC unless it says otherwise; default: 7 days ago",
        )
        parser.add_argument("--to", dest="end", metavar="TIME", help="ISO 8601; default: now")
        parser.add_argument("--group-by", default="state", choices=GROUPS)

    def handle(
        self,
        *args: Any,
        changes: list[str],
        start: str | None,
        end: str | None,
        group_by: str,
        **options: Any,
    ) -> None:
        now = timezone.now()
        in_force = current_policy()[1]
        try:
            tried = _policy(in_force, changes)
            asked = Interval(_moment(start, now - timedelta(days=7)), _moment(end, now))
            interval = bounds(asked, now=now)
            lines = policy_trial.compare(in_force, tried, interval, group_by=group_by)
        except (ValueError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{interval.start:%Y-%m-%d %H:%M} to {interval.end:%Y-%m-%d %H:%M} UTC; GPU-hours and"
            " dollars: is, would be, more"
        )
        for line in lines:
            self.stdout.write(_row(line))


def _row(line: Line) -> str:
    return (
        f"{line.group:<20} {line.state:<12} {line.tier:<10}{line.is_ms / HOUR_MS:12.3f}"
        f" {line.would_ms / HOUR_MS:12.3f}"
        f" {line.more_ms / HOUR_MS:+12.3f}{usd(line.is_usd, CENT):12}"
        f" {usd(line.would_usd, CENT):12} {usd(line.more_usd, CENT):+12}"
    )


def _policy(in_force: Policy, changes: list[str]) -> Policy:
    """Raises ValueError or OSError."""
    if len(changes) == 1 and "=" not in changes[0]:
        thresholds = json.loads(Path(changes[0]).read_text(encoding="utf-8"))
        if not isinstance(thresholds, dict):
            raise ValueError(f"{changes[0]}: expected an object of thresholds")
        return Policy.from_json(thresholds)
    return changed(in_force, changes)


def _moment(text: str | None, otherwise: datetime) -> datetime:
    if text is None:
        return otherwise
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
