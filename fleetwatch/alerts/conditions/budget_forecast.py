"""The condition budget_forecast: what is expected of the month is above its budget. One that is
spent already is the condition budget_spent's: nothing about it is to be expected any more.
"""

from collections.abc import Sequence

from fleetwatch.alerts.breach import BELOW, Breach, Condition, Settings, Watch
from fleetwatch.alerts.episodes import End, Episode, Level, Measured, Span
from fleetwatch.alerts.measuring.budget_months import (
    BudgetMonth,
    budget_months,
    forecasts,
    labels_of,
    month_end,
    newest_budget_at,
    slug_of,
    usd_of,
)
from fleetwatch.budgets.models import Outlook
from fleetwatch.lib.intervals import DAY_MS, to_ms
from fleetwatch.notify import wording

WITHIN = "the forecast is within the budget again"
NO_BUDGET = "there is no budget any more"
SPENT = "all of the budget is spent: see the incident of what is spent"
# a forecast is made each day: an older one is none
FRESH_MS = 2 * DAY_MS
ACTION = (
    "Fix: see what spends most; give back GPUs that are held for nothing, move what can wait, or"
    " have the budget raised on its page."
)


def measure(watch: Watch) -> Measured:
    """Since its newest forecast, or since it was set where that was later, how each budget of the
    running month that is not spent yet stands to it.
    """
    running = _running(watch)
    spent = {subject: _spent_ms(month, watch) for subject, month in running.items()}
    months = {subject: month for subject, month in running.items() if spent[subject] is None}
    newest = forecasts()
    every = {
        subject: _spans(month, newest.get(slug_of(subject)), watch)
        for subject, month in months.items()
    }
    spans = {subject: own for subject, own in every.items() if own}
    ends = {name: _end(spent.get(name), watch) for name in watch.firing if name not in months}
    return Measured(spans, ends, cleared=WITHIN)


def _spent_ms(month: BudgetMonth, watch: Watch) -> int | None:
    """When all of it was spent; None: it is not, as far as dollars are known by then."""
    reached_ms = month.spending.reached_ms(month.usd)
    return reached_ms if reached_ms is not None and reached_ms <= watch.end_ms else None


def _end(spent_ms: int | None, watch: Watch) -> End:
    return End(watch.end_ms, NO_BUDGET) if spent_ms is None else End(spent_ms, SPENT)


def _spans(month: BudgetMonth, outlook: Outlook | None, watch: Watch) -> list[Span]:
    share = None if outlook is None else _share(month, outlook, watch)
    if outlook is None or share is None:
        return []
    made_ms = to_ms(outlook.made_at)
    since_ms = max(made_ms, month.interval.start_ms, month.set_ms)
    if made_ms <= watch.end_ms - FRESH_MS or since_ms >= watch.end_ms:
        return []
    return [Span(since_ms, watch.end_ms, _level(share * 100, watch.settings))]


def _level(percent: float, settings: Settings) -> Level:
    if percent >= settings.threshold:
        return Level.BREACH
    return Level.CLEAR if percent < settings.clear_at else Level.BETWEEN


def _running(watch: Watch) -> dict[str, BudgetMonth]:
    months = budget_months(watch.end_ms - 1, watch.end_ms)
    return {month.subject: month for month in months}


def _share(month: BudgetMonth, outlook: Outlook, watch: Watch) -> float | None:
    """Expected at the month's end ÷ budget, 0 and more; None where nothing can be said."""
    end = month_end(month, outlook, watch.end_ms)
    return None if end is None else end.end.expected_usd / month.usd


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode what is expected of which budget; None where there is none any more."""
    months = _running(watch)
    labels = labels_of({slug_of(each.subject) for each in episodes})
    newest = forecasts()
    expected = [
        _expected(months.get(each.subject), newest.get(slug_of(each.subject)), watch)
        for each in episodes
    ]
    return [
        None if of is None else _breach(each, of, labels[slug_of(each.subject)], watch)
        for each, of in zip(episodes, expected, strict=True)
    ]


def _expected(
    month: BudgetMonth | None, outlook: Outlook | None, watch: Watch
) -> tuple[BudgetMonth, float] | None:
    """The month, and the share of its budget that is expected at its end."""
    share = _share(month, outlook, watch) if month and outlook else None
    return None if month is None or share is None else (month, share)


def _breach(
    episode: Episode, expected: tuple[BudgetMonth, float], label: str, watch: Watch
) -> Breach:
    month, share = expected
    whole = wording.usd(usd_of(month.usd))
    amount = wording.about(usd_of(share * month.usd))
    return Breach(
        subject=month.subject,
        kind="budget",
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="forecast above",
        tag="budget",
        title=f"budget · {label} is expected to spend {amount} of {whole}",
        where=f"budget of {label}",
        what=f"The forecast for {label} was above its budget",
        does=f"The forecast for {label} is above its budget",
        has=f"The forecast for {label} has been above its budget",
        had="The forecast had been above the budget",
        limit=f"forecast ≥ {watch.settings.threshold:g} %",
        name=label,
        has_cost=False,
        lines=(("Expected", f"{amount} of {whole} ({wording.share(share)})"),),
        actions=(ACTION,),
        labels=month.labels,
        facts=_facts(month, share, episode.until_ms),
    )


def _facts(month: BudgetMonth, share: float, at_ms: int) -> dict[str, str]:
    return {
        "expected_usd": str(usd_of(share * month.usd)),
        "budget_usd": str(usd_of(month.usd)),
        "spending_path": month.spending_path(at_ms),
    }


CONDITION = Condition(
    name="budget_forecast",
    label="Budget forecast",
    sentence=(
        "Fires when the forecast for the month's end has been at {threshold} % of the budget or"
        " more for {minutes} minutes, of a budget that is not spent already."
    ),
    kind="budget",
    unit="% of the budget",
    low=1,
    high=1000,
    clears=BELOW,
    usual=Settings(threshold=100, minutes=60),
    measure=measure,
    describe=describe,
    is_on=True,
    every_minutes=5,  # as the days of dollars are made again
    renewed_at=newest_budget_at,
    no_history="Only the newest forecast is kept, so there is no history to test on.",
)
