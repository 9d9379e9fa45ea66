"""What owners of simulated jobs say: the finding of a recurring job is fixed from the moment on
from which its runs are mended.

They say it, and it is measured, by the product's own ways; only the moment is of the past, as the
history is.
"""

from datetime import UTC, datetime, timedelta

from agent.sources.simulated.archetypes import BY_NAME
from agent.sources.simulated.recurring import Mending, mendings_between
from fleetwatch.accounts.models import User
from fleetwatch.demo.cast import acting_as
from fleetwatch.diagnosis.findings import fixing
from fleetwatch.diagnosis.findings.deciding import Decision, decide
from fleetwatch.diagnosis.findings.machine_findings import progress
from fleetwatch.diagnosis.models import Finding
from fleetwatch.ledger.check import waiting_hours
from fleetwatch.lib.intervals import Interval, from_ms, to_ms
from fleetwatch.lib.sql import advisory_lock

# it has three runs: as many as a fix needs on each side of it to be measured
DAY = timedelta(days=1)


def is_diagnosed(now: datetime, *, days: int) -> bool:
    """Whether the causes of the last `days`, as far as they are over, are those of the ledger as it
    will stay.
    """
    past = Interval(now - days * DAY, _today(now))
    hours = progress(past, now=now)
    return (
        bool(hours.posted)
        and hours.diagnosed == hours.posted
        and not waiting_hours(past.start, past.end)
    )


def decide_fixes(now: datetime, *, days: int) -> int:
    """How many findings their owners call fixed now; what those of the last `days` brought is
    measured. Safe again: a finding of which anybody said anything is left alone.
    """
    admin = User.objects.filter(role=User.Role.ADMIN, is_active=True).earliest("pk")
    mendings = mendings_between(to_ms(now - (days - 1) * DAY), to_ms(_today(now)))
    fixes = [
        (finding, mending) for mending in mendings if (finding := _finding(mending)) is not None
    ]
    for finding, mending in fixes:
        at = from_ms(mending.at_ms)
        with acting_as(admin, at):
            decide(finding.pk, Decision("fixed", note=mending.series.change), by=admin, now=at)
    with advisory_lock("diagnosis.measure_fixes") as held:
        if held:
            fixing.measure(now)
    return len(fixes)


def _today(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _finding(mending: Mending) -> Finding | None:
    """The newest of the runs before; None where there is none, or somebody said something of it."""
    before = Finding.objects.filter(
        job__user=mending.series.user,
        job__name=mending.name,
        job__end_ms__lte=mending.at_ms,
        cause=BY_NAME[mending.series.wasteful].truth,
    )
    newest = before.order_by("-last_ms").first()
    return None if newest is None or newest.said.exists() else newest
