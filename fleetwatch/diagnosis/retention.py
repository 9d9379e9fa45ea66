"""What goes by age: causes go with the ledger's entries that they explain, findings with the last
of their causes.
"""

from collections import Counter
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Min

from fleetwatch.diagnosis.models import CapacityEntry, CauseEntry, DiagnosedDay, Finding
from fleetwatch.inventory.models import Node
from fleetwatch.ledger.retention import MAX_DAYS_PER_RUN, horizon
from fleetwatch.lib.intervals import to_ms

DAY = timedelta(days=1)
FINDINGS_PER_RUN = 10_000


def apply(now: datetime) -> dict[str, int]:
    """How many causes, summed days and findings were deleted, the oldest days first; a day at a
    time, as the ledger's entries are.

    A finding that somebody called fixed stays while its fix is told.
    """
    end = horizon(now)
    did = Counter(causes=0, days=0)
    for _ in range(MAX_DAYS_PER_RUN):
        oldest = _oldest()
        if oldest is None or oldest >= end:
            break
        did += _forget(min(oldest + DAY, end))
    # a day in which no job held anything has no causes
    did["days"] += _forget_days(end)
    old = Finding.objects.filter(last_ms__lte=to_ms(end), fixes=None).order_by("last_ms")
    pks = list(old.values_list("pk", flat=True)[:FINDINGS_PER_RUN])
    Finding.objects.filter(pk__in=pks).delete()
    return {"causes": did["causes"], "days": did["days"], "findings": len(pks)}


def _oldest() -> datetime | None:
    firsts = [
        rows.objects.aggregate(first=Min("start"))["first"] for rows in (CauseEntry, CapacityEntry)
    ]
    return min(filter(None, firsts), default=None)


@transaction.atomic
def _forget(end: datetime) -> Counter[str]:
    """How many causes and days were deleted; the day that goes in part is summed again from what is
    left of it.
    """
    causes = (
        CauseEntry.objects.filter(start__lt=end).delete()[0]
        + CapacityEntry.objects.filter(start__lt=end).delete()[0]
    )
    # every node's, by the index: who sums one now was before us (cause_rows.replace)
    DiagnosedDay.objects.filter(node__in=_nodes(), day=end.date()).update(is_summed=False)
    return Counter(causes=causes, days=_forget_days(end))


def _forget_days(end: datetime) -> int:
    return DiagnosedDay.objects.filter(node__in=_nodes(), day__lt=end.date()).delete()[0]


def _nodes() -> list[int]:
    """Of all: rows of days are found by node and day, and are too many to be looked through."""
    return list(Node.objects.values_list("pk", flat=True))
