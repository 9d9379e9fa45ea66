"""The condition budget_spent: a share of a month's budget is spent."""

from collections.abc import Sequence
from decimal import Decimal

from fleetwatch.accounts.selectors import zone
from fleetwatch.alerts.breach import Breach, Condition, Line, Settings, Watch
from fleetwatch.alerts.episodes import End, Episode, Level, Measured, Span
from fleetwatch.alerts.measuring.budget_months import (
    BudgetMonth,
    budget_months,
    forecasts,
    known_ms,
    labels_of,
    month_end,
    newest_budget_at,
    slug_of,
    usd_of,
)
from fleetwatch.budgets.month_end import MAY_EXCEED, PARTIAL, MonthEnd
from fleetwatch.budgets.month_end import risk as month_end_risk
from fleetwatch.figures.selectors import not_recorded_before
from fleetwatch.lib.intervals import DAY_MS, clock_ms, from_ms
from fleetwatch.lib.rounding import about_range
from fleetwatch.notify import wording

NEW_MONTH = "a new month began, the budget was raised, or what was spent was corrected"
NO_BUDGET = "there is no budget any more"
LASTS = "the budget lasts"
# of a forecast within the budget, by what /budgets says of it
OUTCOMES = {
    MAY_EXCEED: "the budget may be passed",
    PARTIAL: "within it, but days of the month were not recorded",
}
ACTION = (
    "Fix: see what spends most; give back GPUs that are held for nothing, or have the budget"
    " raised on its page."
)


def measure(watch: Watch) -> Measured:
    """From when on each budget's share was spent, until its month ends."""
    spans: dict[str, list[Span]] = {}
    running = set()
    for month in budget_months(watch.start_ms, watch.end_ms):
        spans.setdefault(month.subject, []).extend(_spans(month, watch))
        if month.interval.end_ms > watch.end_ms:
            running.add(month.subject)
    ends = {name: End(watch.end_ms, NO_BUDGET) for name in watch.firing if name not in running}
    return Measured(spans, ends, cleared=NEW_MONTH)


def _spans(month: BudgetMonth, watch: Watch) -> list[Span]:
    """Clear up to where the share was reached, as far as dollars are known, and in breach from
    there on: what is spent stays spent.
    """
    start_ms = month.interval.start_ms
    end_ms = min(month.interval.end_ms, watch.end_ms)
    reached_ms = month.spending.reached_ms(month.usd * watch.settings.threshold / 100)
    spans = []
    if reached_ms is None or reached_ms >= end_ms:
        known_until_ms = min(known_ms(watch.end_ms), end_ms)
        return [Span(start_ms, known_until_ms, Level.CLEAR)] if known_until_ms > start_ms else []
    if reached_ms > start_ms:
        spans.append(Span(start_ms, reached_ms, Level.CLEAR))
    return [*spans, Span(reached_ms, end_ms, Level.BREACH)]


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode what was spent of which budget; None where there is none any more."""
    first_ms = min(each.since_ms for each in episodes)
    months: dict[str, list[BudgetMonth]] = {}
    for each_month in budget_months(first_ms, watch.end_ms):
        months.setdefault(each_month.subject, []).append(each_month)
    labels = labels_of({slug_of(each.subject) for each in episodes})
    newest = forecasts()
    of_episodes = [(each, _month_of(each, months.get(each.subject, ()))) for each in episodes]
    return [
        None
        if month is None
        else _breach(
            each,
            month,
            labels[slug_of(each.subject)],
            watch,
            month_end(month, newest.get(slug_of(each.subject)), each.until_ms),
        )
        for each, month in of_episodes
    ]


def _month_of(episode: Episode, months: Sequence[BudgetMonth]) -> BudgetMonth | None:
    """The month in which the episode was seen last."""
    last_ms = max(episode.until_ms - 1, episode.since_ms)
    holding = [
        month for month in months if month.interval.start_ms <= last_ms < month.interval.end_ms
    ]
    return holding[0] if holding else None


def _breach(
    episode: Episode, month: BudgetMonth, label: str, watch: Watch, end: MonthEnd | None
) -> Breach:
    limit = f"{watch.settings.threshold:g} %"
    where = f"budget of {label}"
    over = _over(month, episode.until_ms, limit)
    return Breach(
        subject=month.subject,
        kind="budget",
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word=f"over {limit}",
        tag="budget",
        title=f"budget · {_title(month, label, episode.until_ms)}",
        where=where,
        what=f"The {where} was over {limit}",
        does=f"The {where} is over {over}",
        has=f"The {where} has been over {limit}",
        had=f"It had been over {limit}",
        limit=f"spent ≥ {limit}",
        name=label,
        has_cost=False,  # what is spent is no waste: beside idle GPUs it would be summed as such
        lines=_lines(month, episode.until_ms, end),
        actions=(ACTION,),
        labels=month.labels,
        facts=_facts(month, episode.until_ms),
    )


def _facts(month: BudgetMonth, at_ms: int) -> dict[str, str | int | None]:
    return {
        "spent_usd": str(usd_of(month.spending.by(at_ms))),
        "budget_usd": str(usd_of(month.usd)),
        "spent_until_ms": month.spending.known_ms(at_ms),
        "passed_ms": _passed_ms(month, at_ms),
        "spending_path": month.spending_path(at_ms),
    }


def _over(month: BudgetMonth, at_ms: int, limit: str) -> str:
    """What it is over: the rule's limit; where all of it is spent by how much."""
    over_usd = usd_of(month.spending.by(at_ms)) - usd_of(month.usd)
    return f"by {wording.usd(over_usd)}" if over_usd > 0 else limit


def _lines(month: BudgetMonth, at_ms: int, end: MonthEnd | None) -> tuple[Line, ...]:
    spent_usd = usd_of(month.spending.by(at_ms))
    known_ms = month.spending.known_ms(at_ms)
    until = "" if known_ms is None else f" until {_clock(known_ms, at_ms)}"
    return (
        ("Spent", f"{wording.usd(spent_usd)}{until}, {_amounts(month, spent_usd)}"),
        _left(month, spent_usd, at_ms),
        *(_run_rate(month, spent_usd, at_ms) if end is None else [_forecast(month, end, at_ms)]),
    )


def _left(month: BudgetMonth, spent_usd: Decimal, at_ms: int) -> Line:
    """What is left of it; of one that is passed by how much, and since when."""
    left_usd = usd_of(month.usd) - spent_usd
    budget = wording.usd(usd_of(month.usd))
    if left_usd >= 0:
        return "Left", f"{wording.usd(left_usd)} of {budget}"
    return "Over", f"{wording.usd(-left_usd)} beyond {budget}{_since(month, at_ms)}"


def _clock(moment_ms: int, now_ms: int) -> str:
    return wording.moment(from_ms(moment_ms), zone(), now=from_ms(now_ms))


def _title(month: BudgetMonth, label: str, at_ms: int) -> str:
    """How much of it is spent; of one that is passed by how much it is over, and as of when: what
    is spent grows with each hour.
    """
    spent_usd = usd_of(month.spending.by(at_ms))
    if _passed_ms(month, at_ms) is None:
        return f"{label} spent {_amounts(month, spent_usd)}"
    over, budget = (wording.usd(usd) for usd in (spent_usd - usd_of(month.usd), usd_of(month.usd)))
    return f"{label} is {over} over its {budget} budget {_as_of(month, at_ms)}".rstrip()


def _passed_ms(month: BudgetMonth, at_ms: int) -> int | None:
    """Since when more than all of it is spent; None where it is not."""
    is_passed = usd_of(month.spending.by(at_ms)) > usd_of(month.usd)
    return month.spending.reached_ms(month.usd) if is_passed else None


def _since(month: BudgetMonth, at_ms: int) -> str:
    """Since when, and for how long."""
    passed_ms = _passed_ms(month, at_ms)
    if passed_ms is None:
        return ""
    return f", since {_clock(passed_ms, at_ms)} ({wording.duration(clock_ms(passed_ms, at_ms))})"


def _forecast(month: BudgetMonth, end: MonthEnd, at_ms: int) -> Line:
    """What is expected by the month's end, its range, and what of it is over the budget."""
    last = end.end
    expected_usd = usd_of(last.expected_usd)
    between = about_range(usd_of(last.low_usd), usd_of(last.high_usd))
    words = f"{_as_of(month, at_ms)}≈ {wording.about(expected_usd)} by the month's end ({between})"
    over_usd = expected_usd - usd_of(month.usd)
    if over_usd <= 0:
        since = not_recorded_before(month.interval.start, from_ms(at_ms))
        spent_usd = usd_of(month.spending.by(at_ms))
        is_partial = since is not None
        risk = month_end_risk(spent_usd, usd_of(month.usd), last, is_partial=is_partial)
        return "Forecast", f"{words}: {OUTCOMES.get(risk, LASTS)}"
    return "Forecast", f"{words}, {_over_budget(expected_usd, month)}"


def _as_of(month: BudgetMonth, at_ms: int) -> str:
    """What is spent later is in no part of it."""
    known_ms = month.spending.known_ms(at_ms)
    return "" if known_ms is None else f"as of {_clock(known_ms, at_ms)} "


def _over_budget(expected_usd: Decimal, month: BudgetMonth) -> str:
    return f"{wording.about_over(expected_usd, usd_of(month.usd))} over the budget"


def _run_rate(month: BudgetMonth, spent_usd: Decimal, at_ms: int) -> tuple[Line, ...]:
    """What the last days cost, and whether and when that spends the budget; () where it is not
    known.
    """
    rate = month.run_rate(at_ms)
    known_ms = month.spending.known_ms(at_ms)
    if rate is None or known_ms is None:
        return ()
    end_usd = spent_usd + rate.usd_left
    over_usd = end_usd - usd_of(month.usd)
    by_end = f"≈ {wording.about(end_usd)} by the month's end"
    if over_usd <= 0:
        words = f"{by_end}: {LASTS}"
    else:
        spent_up = _spent_up(month, spent_usd, rate.usd_per_day, known_ms)
        words = f"{spent_up}{by_end}, {_over_budget(end_usd, month)}"
    return ("Spending", f"{wording.usd(rate.usd_per_day)} a day, {_mean_of(rate.days)}"), (
        "At the run rate",
        words,
    )


def _mean_of(days: int) -> str:
    return "the last full day" if days == 1 else f"mean of the last {days} full days"


def _spent_up(month: BudgetMonth, spent_usd: Decimal, usd_per_day: Decimal, known_ms: int) -> str:
    left_usd = usd_of(month.usd) - spent_usd
    if left_usd <= 0:
        return ""
    at = from_ms(known_ms + int(left_usd / usd_per_day * DAY_MS)).astimezone(zone())
    return f"all of it spent on {at:%a %-d %b}, "


def _amounts(month: BudgetMonth, spent_usd: Decimal) -> str:
    """The share and the whole: "84 % of $600.00"."""
    share = wording.share(float(spent_usd) / month.usd)
    return f"{share} of {wording.usd(usd_of(month.usd))}"


CONDITION = Condition(
    name="budget_spent",
    label="Budget spent",
    sentence="Fires when {threshold} % of a month's budget is spent.",
    kind="budget",
    unit="% of the budget",
    low=1,
    high=1000,
    usual=Settings(threshold=80, minutes=1),
    measure=measure,
    describe=describe,
    is_on=True,
    severities="critical once more than the whole budget is spent",
    every_minutes=5,  # as the days of dollars are made again
    renewed_at=newest_budget_at,
)
