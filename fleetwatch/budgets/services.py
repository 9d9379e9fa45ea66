"""The work of budgets that a clock does: hours, forecasts and anomalies kept up to date."""

from datetime import datetime

from fleetwatch.budgets import daily_dollars, outlooks, unusual

RECENT_DAYS = 2  # looked at each hour; all of the history once a day
DAYS_PER_RUN = 40  # of each kind made anew, so that a first run ends; the next one goes on


def refresh(now: datetime) -> dict[str, int]:
    """What changed.

    Does nothing between two full hours; safe twice, and killed at any moment: what is missing is
    seen again.
    """
    if outlooks.is_due(now):
        return remake(now)
    return _with_anomalies(now, daily_dollars.note_days(now, days=RECENT_DAYS, limit=DAYS_PER_RUN))


def remake(now: datetime) -> dict[str, int]:
    """What changed of all of the history, and the forecasts made of it, whether they are due or
    not. Safe twice.
    """
    did = daily_dollars.note_days(now, days=daily_dollars.DAYS, limit=DAYS_PER_RUN)
    did |= outlooks.make(now, is_whole=not did["left"])
    return _with_anomalies(now, did)


def _with_anomalies(now: datetime, did: dict[str, int]) -> dict[str, int]:
    return did | unusual.refresh_anomalies(now) if did["days"] else did
