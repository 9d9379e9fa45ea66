"""GPU time of the jobs under somebody's names."""

from collections.abc import Collection, Sequence

from fleetwatch.accounts.models import Identity
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.comparison import Change
from fleetwatch.figures.totals import Scope, Totals
from fleetwatch.jobs.selectors import held_by
from fleetwatch.lib.intervals import Interval


def scope_of(names: Sequence[Identity]) -> Scope:
    """As narrow as one reading can be; who has several names is picked out by job."""
    texts = {name.name for name in names}
    return Scope(user=texts.pop()) if len(texts) == 1 else Scope(is_allocated=True)


def time_of(names: Sequence[Identity], held: Collection[int], interval: Interval) -> costs.Look:
    """The time of the interval of the jobs `held`, which are those under the names."""
    return costs.look(interval, "job", scope=scope_of(names)).of("job", held)


def totals_of(names: Sequence[Identity], interval: Interval) -> Totals | None:
    """What the jobs under these names cost and wasted; None without a name."""
    if not names:
        return None
    return time_of(names, held_by(names, since_ms=interval.start_ms), interval).totals()


def wasted_change(names: Sequence[Identity], totals: Totals, interval: Interval) -> Change | None:
    """What the jobs wasted beside what they wasted in as long right before; None where not all of
    that was recorded.
    """
    before = Interval(interval.start - (interval.end - interval.start), interval.start)
    began = costs.ledger_began()
    then = totals_of(names, before) if began is not None and began <= before.start else None
    return None if then is None else Change("", totals.wasted_usd, then.wasted_usd)
