"""The demo's months are asked for as soon as its history is diagnosed: nobody waits for the clock
that computes a month on the day after it ends.
"""

from datetime import datetime

from django.db.models import Min

from fleetwatch.accounts.selectors import zone
from fleetwatch.budgets import services as budgets
from fleetwatch.demo.demo_fixes import is_diagnosed
from fleetwatch.demo.demo_money import enter_money
from fleetwatch.ledger.models import Entry
from fleetwatch.operations.services import record_run, run_alone
from fleetwatch.reports import monthly, months
from fleetwatch.reports.digest import last_due
from fleetwatch.reports.models import MonthRun
from fleetwatch.reports.services import compute_weekly_digests


def ask_for_months(now: datetime, *, days: int) -> int:
    """How many months were asked for: those of the ledger of which a day is over, and that were not
    computed yet. None of them before all of the last `days` is diagnosed.
    """
    names = _missing(now)
    if not names or not is_diagnosed(now, days=days):
        return 0
    # what was forecast while days were still told knows some of them, and a report tells it
    run_alone("budgets.refresh", budgets.remake)
    enter_money(now)
    for name in names:
        monthly.ask(name, now=now)
    return len(names)


def write_digests(now: datetime) -> dict[str, int]:
    """How many digests were written and queued: those that the clock would have written last, as of
    then.
    """
    with record_run("reports.weekly_digest") as did:
        did.update(compute_weekly_digests(last_due(now, zone())))
    return did


def _missing(now: datetime) -> list[str]:
    first = Entry.objects.aggregate(first=Min("start"))["first"]
    if first is None:
        return []
    # a run without inputs found nothing: the history was not there yet
    computed = set(MonthRun.objects.exclude(inputs="").values_list("month", flat=True))
    return [name for name in months.names(first, now=now, zone=zone()) if name not in computed]
