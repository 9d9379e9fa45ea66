"""What a change of rates or rules does to the dollars of the last days, before anybody makes it:
made, looked at, taken back.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from fleetwatch.accounts.selectors import zone
from fleetwatch.figures import boundaries, selectors
from fleetwatch.figures.pricing import usd
from fleetwatch.figures.totals import ZERO, Totals, nothing
from fleetwatch.lib.csv_rows import Fault
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import taken_back

LOOKS_BACK_DAYS = 30


@dataclass(frozen=True, slots=True)
class Imported:
    """How many lines of a file were set, how many of it stood already, and which of all these are
    like a slip of the pen.
    """

    set: int
    stood: int
    doubts: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """What a line's time costs before and after, in dollars; `label` as totals_by names it."""

    owner: str  # team, project or cost_centre
    label: str
    before_usd: Decimal
    after_usd: Decimal

    @property
    def difference_usd(self) -> Decimal:
        """To the micro-dollar: lines are divided each by itself, and what that cuts off is no
        difference.
        """
        return usd(self.after_usd) - usd(self.before_usd)


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a file would do to the dollars of the last closed 30 days."""

    interval: Interval
    # every team (then project, cost centre) and what no job held, the largest difference first
    changes: list[Change]
    total: Change
    unpriced_ms_before: int
    unpriced_ms_after: int
    would: Imported


def dry_run(
    change: Callable[[], Imported], now: datetime, *, owners: Iterable[str] = ("team",)
) -> DryRun:
    """What the import would change in the dollars of the last closed 30 days, per team and what
    else `owners` names; nothing is written.

    It is the import itself, taken back: what is shown is what comes. Raises RefusedError as it
    does.
    """
    interval = closed_days(now)
    told = tuple(owners)
    before, would, after = taken_back(
        lambda: (_by_owners(interval, told), change(), _by_owners(interval, told))
    )
    changes = [each for owner in told for each in _changes(owner, before[owner], after[owner])]
    of_first = [each for each in changes if each.owner == told[0]]
    return DryRun(
        interval=interval,
        changes=changes,
        total=Change(
            "",
            "",
            sum((each.before_usd for each in of_first), ZERO),
            sum((each.after_usd for each in of_first), ZERO),
        ),
        unpriced_ms_before=sum(group.totals.unpriced_ms for group in before[told[0]].values()),
        unpriced_ms_after=sum(group.totals.unpriced_ms for group in after[told[0]].values()),
        would=would,
    )


def closed_days(now: datetime) -> Interval:
    """The last 30 days of the organisation that are over."""
    organisation_zone = zone()
    end = boundaries.midnight(now, organisation_zone)
    return Interval(boundaries.midnight(end, organisation_zone, days=-LOOKS_BACK_DAYS), end)


def _by_owners(interval: Interval, owners: Iterable[str]) -> dict[str, dict[str, selectors.Group]]:
    return {
        owner: {group.key: group for group in selectors.totals_by(interval, owner)}
        for owner in owners
    }


def _changes(
    owner: str, before: dict[str, selectors.Group], after: dict[str, selectors.Group]
) -> list[Change]:
    changes = [
        _change(owner, before.get(key), after.get(key)) for key in before.keys() | after.keys()
    ]
    return sorted(changes, key=lambda change: (-abs(change.difference_usd), change.label))


def _change(owner: str, before: selectors.Group | None, after: selectors.Group | None) -> Change:
    group = after or before
    return Change(
        owner, group.label if group else "", _totals(before).cost_usd, _totals(after).cost_usd
    )


def _totals(group: selectors.Group | None) -> Totals:
    return nothing() if group is None else group.totals
