"""What a rate would do, before anybody sets it: to what is charged already, and to the last 30 days
had it held in all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from fleetwatch.costs import difference
from fleetwatch.costs.changing import RATES, open_book
from fleetwatch.costs.difference import DryRun, Imported
from fleetwatch.costs.models import Rate
from fleetwatch.costs.rates.subjects import rates_like
from fleetwatch.costs.services import set_rate
from fleetwatch.lib.intervals import Interval


@dataclass(frozen=True, slots=True)
class Effect:
    """`charged`: what changes of the dollars that pages show already; `whole`: the same days at the
    new rate beside those at the old, which begins at `begins_at`; None where no rate is set.
    """

    charged: DryRun
    whole: DryRun | None = None
    begins_at: datetime | None = None


def effect_of_rate(rate: Rate, now: datetime) -> Effect:
    """What the rate would do to the dollars of the last closed 30 days, by team.

    Nothing is written. Raises RateError as set_rate does.
    """
    charged = effect_of(lambda: set_rate(rate, now=now), now).charged
    interval = charged.interval
    begins_at = rate.valid_from
    whole = difference.dry_run(_counted(lambda: _as_if_held(rate, interval, now)), now)
    return Effect(charged, whole, begins_at)


def effect_of(change: Callable[[], object], now: datetime) -> Effect:
    """What any change of the rate book would do to what is charged already; nothing is written."""
    return Effect(difference.dry_run(_counted(change), now))


def _counted(change: Callable[[], object]) -> Callable[[], Imported]:
    def made() -> Imported:
        change()
        return Imported(set=1, stood=0)

    return made


def _as_if_held(rate: Rate, interval: Interval, now: datetime) -> None:
    """The rate in the place of all of its subject's over the interval: nothing that may stay, for
    the others are gone with all of their time, and a closed month is no hindrance.
    """
    open_book(RATES)
    others = rates_like(rate).exclude(valid_to__lte=interval.start)
    others.filter(valid_from__lt=interval.end).delete()
    rate.pk = None
    rate.valid_from = interval.start
    rate.valid_to = interval.end
    rate.created_at = now
    rate.save(force_insert=True)
