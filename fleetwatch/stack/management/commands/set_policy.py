"""`manage.py set_policy KEY=VALUE…`: the next version of the policy; exit 1 and one sentence where
it can't be.
"""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from django.utils.dateparse import parse_date

from fleetwatch.ledger import services
from fleetwatch.ledger.changed_policy import changed
from fleetwatch.ledger.selectors import current_policy
from fleetwatch.lib.commands import HubCommand
from fleetwatch.lib.intervals import from_ms
from fleetwatch.lib.refusal import RefusedFieldError


class Command(HubCommand):
    refusals = (RefusedFieldError,)
    help = (
        "Puts a new version of the policy in force: the newest one with other values for the named"
        " thresholds."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "changes",
            nargs="+",
            metavar="KEY=VALUE",
            help="a threshold (ledger/policy.py), like idle_batch_s=600",
        )
        parser.add_argument(
            "--repost-from",
            metavar="DAY",
            help="judge what is open and kept since that day (UTC) again; default: nothing",
        )

    def handle(
        self, *args: Any, changes: list[str], repost_from: str | None, **options: Any
    ) -> None:
        now = timezone.now()
        since = None if repost_from is None else services.repost_start(_day(repost_from), now=now)
        row = services.set_policy(changed(current_policy()[1], changes), now=now)
        self.stdout.write(f"policy {row.version} is in force")
        if since is not None:
            hours = services.repost_since(since)
            self.stdout.write(
                f"{hours} hours since {from_ms(since):%Y-%m-%d %H:%M} UTC will be judged by it"
            )


def _day(text: str) -> Any:
    try:
        day = parse_date(text)
    except ValueError:
        day = None
    if day is None:
        raise CommandError(f"--repost-from: expected a day like 2026-11-01, not {text!r}")
    return day
