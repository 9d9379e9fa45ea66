"""Forecasts of teams and of the fleet: made once a day from the days that are over, read with what
was spent since.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
from django.db import transaction

from fleetwatch.accounts.selectors import zone
from fleetwatch.budgets import daily_dollars, forecast, month_end
from fleetwatch.budgets.arrays import Floats
from fleetwatch.budgets.forecast import Rhythm, Trial
from fleetwatch.budgets.models import Outlook
from fleetwatch.budgets.month_end import MonthEnd
from fleetwatch.figures import boundaries
from fleetwatch.lib.intervals import Interval

KINDS = ("fleet", "team")
ENOUGH_TRIES = 14  # two weeks: each weekday twice
TOLD_DAYS = (1, 7, 14, 28)  # ahead: the errors that are shown
NO_HISTORY = "Not enough history for a forecast yet: no full day with costs in the last four weeks."
AWAITED = "The forecast is being computed: it comes minutes after the first full day with costs."
# that make the level: none of them known is no level, not one of 0
NEWEST_DAYS = len(forecast.LEVEL_WEIGHTS) * forecast.WEEK
ONE_SIDED = (
    "Earlier forecasts were nearly all off to one side: shown from {enough} days of history on,"
    " {days} are there."
)
SHIFTED = "Spending moved: the level is that of the last 7 days."


@dataclass(frozen=True, slots=True)
class Tried:
    """How far off the same forecast was, so many days ahead, in the median of so many
    earlier days.
    """

    days: int
    median_error: float
    tries: int

    @property
    def are_few(self) -> bool:
        """Whether so few that chance alone may make the error small."""
        return self.tries < ENOUGH_TRIES


def is_due(now: datetime) -> bool:
    """Whether the forecasts of today still have to be made, or were made of a part of the
    history.
    """
    return not Outlook.objects.filter(
        kind="fleet", origin=boundaries.midnight(now, zone()), is_whole=True
    ).exists()


def make(now: datetime, *, is_whole: bool) -> dict[str, int]:
    """How many forecasts were made; those of who spent nothing in the history are forgotten."""
    rows = [row for kind in KINDS for row in _of_kind(kind, now, is_whole)]
    with transaction.atomic():
        Outlook.objects.all().delete()
        Outlook.objects.bulk_create(rows)
    return {"forecasts": len(rows)}


def all_of(kind: str) -> dict[str, Outlook]:
    """The forecasts of a kind by key."""
    return {row.key: row for row in Outlook.objects.filter(kind=kind)}


def until_month_end(
    outlook: Outlook | None,
    rest: Interval | None,
    spent_usd: Decimal,
    *,
    budget_usd: Decimal | None,
) -> MonthEnd | None:
    """The rest of the month; None without a forecast of enough history, or where nothing is left of
    the month.
    """
    if outlook is None or rest is None or _is_short(outlook):
        return None
    end = month_end.predict(outlook, rest, spent_usd, budget_usd=budget_usd, zone=zone())
    # a lean that more history would take away is an error that is known, not a forecast
    return None if outlook.days < NEWEST_DAYS and end.end.leans else end


def reason(outlook: Outlook | None, spent_usd: Decimal, end: MonthEnd | None) -> str:
    """What to know of a forecast, or why there is none (`end` None); "" where there is nothing to
    say.
    """
    if outlook is None:
        return AWAITED if spent_usd else NO_HISTORY
    if end is None and outlook.days < NEWEST_DAYS:
        if _is_short(outlook):
            return f"Needs {forecast.ENOUGH_DAYS} days of history, has {outlook.days}."
        return ONE_SIDED.format(days=outlook.days, enough=NEWEST_DAYS)
    return SHIFTED if outlook.has_shifted else ""


def _is_short(outlook: Outlook) -> bool:
    """Whether its history is so short that nothing of it was seen twice."""
    return outlook.days < forecast.ENOUGH_DAYS


def tried(outlook: Outlook | None) -> list[Tried]:
    """The back-tested errors for TOLD_DAYS, as far as there were any."""
    if outlook is None or _is_short(outlook):
        return []
    errors = [(days, outlook.median_error[days - 1], outlook.tries[days - 1]) for days in TOLD_DAYS]
    return [Tried(days, error, tries) for days, error, tries in errors if error is not None]


def _of_kind(kind: str, now: datetime, is_whole: bool) -> list[Outlook]:
    kept = daily_dollars.read_history(kind, now)
    usd = kept.usd["cost"]
    if not np.isfinite(usd[:, -NEWEST_DAYS:]).any():
        return []
    usd = daily_dollars.without_gaps(usd, kept.hours)
    known_days = usd.shape[1] - forecast.first_days(np.nansum(usd, axis=2))
    rhythm = forecast.rhythm(usd, kept.hours)
    trial = forecast.backtest(usd, kept.hours)
    facts = {"kind": kind, "origin": kept.days[-1].end, "made_at": now, "is_whole": is_whole}
    return [
        _outlook(rhythm, trial, i, facts | {"key": key, "days": int(known_days[i])})
        for i, key in enumerate(kept.keys)
        if known_days[i]
    ]


def _outlook(rhythm: Rhythm, trial: Trial, series: int, facts: dict[str, Any]) -> Outlook:
    return Outlook(
        **facts,
        has_shifted=bool(rhythm.has_shifted[series]),
        usd_per_hour=np.round(rhythm.usd_per_hour[series], 6).tolist(),
        low=_or_none(trial.low[series]),
        high=_or_none(trial.high[series]),
        median_error=_or_none(trial.median_error[series]),
        tries=trial.tries[series].tolist(),
    )


def _or_none(values: Floats) -> list[float | None]:
    return [round(float(value), 6) if np.isfinite(value) else None for value in values]
