"""What seldom happens in a large fleet, and rules ask for: GPUs that fail, count memory errors or
are slowed by heat, budgets that are used up, days that are far dearer than others.
"""

from collections.abc import Iterator
from datetime import timedelta

from fleetwatch.accounts.models import Team
from fleetwatch.budgets import daily_dollars, outlooks, unusual
from fleetwatch.budgets.budgets import set_budget
from fleetwatch.budgets.models import Budget, SpendDay
from fleetwatch.costs.day_sums import SETTLED
from fleetwatch.diagnosis.causes import SLOWED
from fleetwatch.diagnosis.judgement.rules import HIGH
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.figures.pricing import CENT
from fleetwatch.ledger.models import Posted
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms
from fleetwatch.telemetry.models import HealthEvent

DAY = timedelta(days=1)
# denser than in a real fleet, so that a small one has some
FAILING = 50  # one GPU of so many fails once, as many count memory errors, as many are slowed a day
OUTAGE_MS = 6 * HOUR_MS
MEMORY_XIDS = (63, 92, 94)
# of dollars: whole months before the first day, and weeks that say what is usual
HISTORY_DAYS = 91
BUDGET_DAYS = 12  # for which a month's budget suffices
DEAR_DAYS = (1, 3)  # back from the newest
DEAR = 2  # times the dollars of another day
SOLD = ("fleet", "team")  # whose dear days are told


def add(period: Interval) -> None:
    """All of it, over the period, the ledger of which is there; not safe twice."""
    _break_gpus(period)
    _tile_dollars(period)
    _set_budgets(period)
    outlooks.make(period.end, is_whole=True)
    unusual.refresh_anomalies(period.end)


def _break_gpus(period: Interval) -> None:
    """At moments spread over the period; the last GPU that failed does not come back."""
    rows = Posted.objects.filter(gpu__parent=None).select_related("gpu").order_by("pk")
    failing = list(rows[::FAILING])
    for at_ms, row in zip(_moments(period, len(failing)), failing, strict=True):
        end_ms = None if row is failing[-1] else at_ms + OUTAGE_MS
        row.outages = [*row.outages, [at_ms, end_ms, "xid_79", False]]
    Posted.objects.bulk_update(failing, ["outages"])
    erring = [row.gpu for row in rows[1::FAILING]]
    HealthEvent.objects.bulk_create(
        HealthEvent(node_id=gpu.node_id, gpu=gpu, at_ms=at_ms, kind="xid", code=code)
        for at_ms, gpu in zip(_moments(period, len(erring)), erring, strict=True)
        for code in MEMORY_XIDS
    )
    slowed = [row.gpu for row in rows[2::FAILING]]
    for at_ms, gpu in zip(_moments(period, len(slowed)), slowed, strict=True):
        day = CauseEntry.objects.filter(
            node=gpu.node_id, gpu=gpu, start__range=(from_ms(at_ms) - DAY, from_ms(at_ms))
        )
        day.update(cause=SLOWED, confidence=HIGH)


def _moments(period: Interval, count: int) -> Iterator[int]:
    step_ms = period.duration_ms // max(1, count)
    return (period.start_ms + place * step_ms + step_ms // 2 for place in range(count))


def _tile_dollars(period: Interval) -> None:
    """The newest day's dollars are those of all days before it, but for the dear ones; of nodes and
    models no rule asks.
    """
    daily_dollars.note_days(period.end + SETTLED, days=1, limit=1)
    SpendDay.objects.bulk_create(
        _earlier(row, back)
        for row in SpendDay.objects.filter(start=period.end - DAY, kind__in=SOLD)
        for back in range(1, HISTORY_DAYS)
    )


def _earlier(row: SpendDay, back: int) -> SpendDay:
    times = DEAR if back in DEAR_DAYS else 1
    return SpendDay(
        kind=row.kind,
        key=row.key,
        start=row.start - back * DAY,
        usd=times * row.usd,
        wasted_usd=times * row.wasted_usd,
        hours=_scaled(row.hours, times),
        wasted_hours=_scaled(row.wasted_hours, times),
    )


def _scaled(hours: list[float | None], times: int) -> list[float | None]:
    return [None if usd is None else times * usd for usd in hours]


def _set_budgets(period: Interval) -> None:
    """Of each team and the fleet, from the period's first month on."""
    teams = {team.slug: team for team in Team.objects.all()}
    first = period.start.date().replace(day=1)
    for row in SpendDay.objects.filter(kind__in=SOLD, start=period.end - DAY, usd__gt=0):
        team = teams.get(row.key)
        if team or row.kind == "fleet":
            amount = max(CENT, (BUDGET_DAYS * row.usd).quantize(CENT))
            budget = Budget(team=team, month=first, repeats=True, amount=amount)
            set_budget(budget, now=period.start, by="bench")
