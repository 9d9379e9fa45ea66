"""What causes wasted in the last hour, in dollars that sum to those of the ledger of their jobs."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from fleetwatch.diagnosis import cause_columns
from fleetwatch.diagnosis.cause_time import CauseTime
from fleetwatch.diagnosis.cause_totals import Caused
from fleetwatch.figures import engine
from fleetwatch.figures.cells import by_groups, waste
from fleetwatch.figures.ledger_time import LedgerTime
from fleetwatch.figures.posted import posted_hour
from fleetwatch.figures.totals import ZERO, Scope
from fleetwatch.lib.intervals import Interval


@dataclass(frozen=True, slots=True)
class Lately:
    """What one cause took of one job; of its dollars x milliseconds what counts as wasted."""

    caused: Caused
    wasted_usd_ms: Decimal

    @property
    def job_id(self) -> int:
        """0 = of none."""
        return self.caused.job_id or 0


def last_hour(job_ids: Collection[int], now: datetime) -> list[Lately]:
    """A job is diagnosed after it was posted: what no cause explains yet of what it wasted is its
    causes' by their shares.
    """
    hour = posted_hour(now)
    scope = Scope(jobs=tuple(job_ids))
    caused = _caused(hour, scope)
    ledger = by_groups(engine.read(LedgerTime(), hour, by=("job",), scope=scope), "job")
    posted = {job_id: waste(cells).wasted_usd_ms for (job_id,), cells in ledger.items()}
    explained: defaultdict[int | None, Decimal] = defaultdict(Decimal)
    for each in caused:
        explained[each.job_id] += each.headline_usd_ms
    return [
        Lately(each, _shared(each, explained[each.job_id], posted.get(each.job_id or 0, ZERO)))
        for each in caused
    ]


def caused_lately(job_ids: Collection[int], now: datetime) -> list[Caused]:
    """What each cause took of each of these jobs in the last hour, as far as it is diagnosed."""
    return _caused(posted_hour(now), Scope(jobs=tuple(job_ids)))


def _caused(hour: Interval, scope: Scope) -> list[Caused]:
    return cause_columns.lines(engine.read(CauseTime(), hour, scope=scope), by_job=True).caused()


def _shared(caused: Caused, explained: Decimal, posted: Decimal) -> Decimal:
    """Its share of what was posted; of a ledger with less than was explained its own."""
    if posted <= explained or not explained:
        return caused.headline_usd_ms
    return posted * (caused.headline_usd_ms / explained)
