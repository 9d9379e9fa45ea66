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
    is_due = outlooks.is_due(now)
    did = daily_dollars.note_days(
        now, days=daily_dollars.DAYS if is_due else RECENT_DAYS, limit=DAYS_PER_RUN
    )
    if is_due:
        did |= outlooks.make(now, is_whole=not did["left"])
    if did["days"]:
        did |= unusual.refresh_anomalies(now)
    return did
