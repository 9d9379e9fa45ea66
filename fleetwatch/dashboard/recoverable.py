"""From what was wasted to what could have been recovered, step by step, so that the two are never
taken for one.
"""

from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.selectors import CAUSED_STATES
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import Scope
from fleetwatch.lib.intervals import Interval

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Dollars: wasted (certain and probable) and what jobs left unused beside it; what of both open
    findings explain; the saving.
    """

    wasted_usd: Decimal
    unused_usd: Decimal
    explained_usd: Decimal
    saving: Saving

    @property
    def open_usd(self) -> Decimal:
        """What no open finding explains: not determined, too small, or decided already."""
        return max(ZERO, self.wasted_usd + self.unused_usd - self.explained_usd)


def waterfall(
    interval: Interval, scope: Scope, explained_usd: Decimal, saving: Saving
) -> Waterfall:
    """Of the period and scope; unused is underused time and services that wait (potential), not
    free GPUs.
    """
    whole = costs.look(interval, scope=scope)
    unused = whole.within(CAUSED_STATES).totals().waste_usd["potential"]
    return Waterfall(whole.totals().wasted_usd, unused, explained_usd, saving)
