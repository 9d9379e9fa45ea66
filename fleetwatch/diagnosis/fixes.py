"""Reads of realised savings: the top fixes of a period, and what they saved in sum."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from django.db import connection

from fleetwatch.costs import pricing
from fleetwatch.diagnosis.caused import ZERO, Saving, together
from fleetwatch.diagnosis.models import Fix
from fleetwatch.diagnosis.realised import Outcome
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import read_statement

_RATES = read_statement(Path(__file__).parent / "sql" / "rates_of_fixes.sql")


@dataclass(frozen=True, slots=True)
class Realised:
    """A fix with what it saved since; dollars at what the series' GPU time cost, 0 where none of it has a rate.

    A saving of 0 with outcome "improved" reads "utilisation improved": that hours were saved is not known.
    """

    fix: Fix
    saving: Saving

    @property
    def effect(self) -> float | None:
        """By how much the useful share rose, in points of 1; None without runs enough."""
        if self.fix.useful_before is None or self.fix.useful_after is None:
            return None
        return self.fix.useful_after - self.fix.useful_before


def top_fixes(interval: Interval) -> list[Realised]:
    """Fixes of that time: most dollars saved first, then most hours, then by how much utilisation improved; the unproven last."""
    fixes = list(Fix.objects.filter(at__gte=interval.start, at__lt=interval.end).select_related("finding__job"))
    rates = _rates(fixes)
    return sorted((Realised(fix, _saving(fix, rates.get(fix.pk))) for fix in fixes), key=_rank)


def realised(several: Sequence[Realised]) -> Saving:
    """What they saved in sum: kept apart from what is potential and what is accepted."""
    return together(one.saving for one in several)


def _rank(one: Realised) -> tuple[bool, Decimal, int, float, int]:
    saving = one.saving
    is_unproven = one.fix.outcome != Outcome.IMPROVED
    return (is_unproven, -(saving.low_usd + saving.high_usd), -saving.high_ms, -(one.effect or 0.0), one.fix.pk)


def _saving(fix: Fix, rate: tuple[Decimal, int] | None) -> Saving:
    low_usd, high_usd = (
        pricing.divided(saved_ms * rate[0] / rate[1]) if rate else ZERO for saved_ms in (fix.saved_low_ms, fix.saved_high_ms)
    )
    return Saving(fix.saved_low_ms, fix.saved_high_ms, low_usd, high_usd)


def _rates(fixes: Iterable[Fix]) -> dict[int, tuple[Decimal, int]]:
    """Fix -> (sum of GPU time x dollars per GPU-hour, that GPU time): of the series' priced time."""
    with connection.cursor() as cursor:
        cursor.execute(_RATES, {"fix_ids": [fix.pk for fix in fixes if fix.saved_high_ms]})
        return {fix_id: (usd_ms, int(held_ms)) for fix_id, usd_ms, held_ms in cursor.fetchall()}
