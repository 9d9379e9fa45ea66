"""The condition unusual_spending: a team, or the fleet, spends or wastes far more than is usual at
that hour.
"""

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from urllib.parse import quote

from fleetwatch.alerts.breach import Breach, Condition, Settings, Watch
from fleetwatch.alerts.episodes import Episode, Level, Measured, Span
from fleetwatch.alerts.measuring.budget_months import known_ms, subject_of
from fleetwatch.alerts.measuring.merged_spans import clear_between
from fleetwatch.budgets.models import Anomaly
from fleetwatch.budgets.unusual import Seen, anomalies_of
from fleetwatch.figures import pricing
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms, to_ms
from fleetwatch.notify import wording
from fleetwatch.notify.message import one_line

USUAL = "it is as usual again"
KINDS = ("fleet", "team")
SPENT = {"cost": "spent", "wasted": "wasted"}
MOVERS = 3


def measure(watch: Watch) -> Measured:
    """The hours that are unusual by at least so many dollars more, in the series of teams and of
    the fleet.
    """
    breaches: dict[str, list[Span]] = defaultdict(list)
    for each in _seen(watch.start_ms, watch.end_ms, watch):
        row = each.anomaly
        # what may still grow is judged an hour or two behind: until then it goes on
        end_ms = watch.end_ms if each.is_open else to_ms(row.end)
        breaches[_subject(row)].append(Span(to_ms(row.start), end_ms, Level.BREACH))
    clear_ms = known_ms(watch.end_ms)
    subjects = breaches.keys() | watch.firing.keys()
    return Measured(
        {name: clear_between(breaches[name], watch.start_ms, clear_ms) for name in subjects},
        cleared=USUAL,
    )


def _seen(start_ms: int, end_ms: int, watch: Watch) -> list[Seen]:
    """Those with more dollars than usual, by at least the rule's."""
    interval = Interval(from_ms(start_ms), from_ms(max(end_ms, start_ms + 1)))
    rows = anomalies_of(interval, now=from_ms(watch.end_ms))
    least = Decimal(repr(watch.settings.threshold))
    return [
        each
        for each in rows
        if each.anomaly.kind in KINDS and each.excess_usd > 0 and each.excess_usd >= least
    ]


def _subject(row: Anomaly) -> str:
    return f"{row.kind}/{row.key}/{row.metric}"


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode what was unusual and what moved most; None of what is usual by now."""
    first_ms = min(each.since_ms for each in episodes)
    last_ms = max(each.until_ms for each in episodes)
    seen: dict[str, list[Seen]] = defaultdict(list)
    for row in _seen(first_ms, last_ms, watch):
        seen[_subject(row.anomaly)].append(row)
    of_episodes = [(each, _of(each, seen[each.subject])) for each in episodes]
    return [None if row is None else _breach(each, row, watch) for each, row in of_episodes]


def _of(episode: Episode, rows: Sequence[Seen]) -> Seen | None:
    """The newest of those that lie in the episode."""
    within = [
        row
        for row in rows
        if to_ms(row.anomaly.start) < episode.until_ms and to_ms(row.anomaly.end) > episode.since_ms
    ]
    return max(within, key=lambda row: row.anomaly.start, default=None)


def _breach(episode: Episode, seen: Seen, watch: Watch) -> Breach:
    row = seen.anomaly
    label = one_line(seen.label, 60)
    did = SPENT.get(row.metric, row.metric)
    amounts = f"{wording.usd(row.usd)} where {wording.usd(row.usual_usd)} are usual"
    return Breach(
        subject=episode.subject,
        kind="series",
        address=_address(row),
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="unusual",
        tag="unusual spending",
        title=f"unusual · {label} {did} {amounts}",
        where=label,
        what=f"{label} {did} more than is usual at these hours",
        has=f"{label} has {did} more than is usual at these hours",
        had="It had been unusual",
        limit=f"${watch.settings.threshold:g} more than usual",
        name=label,
        cost_usd=seen.excess_usd,
        usd_per_hour=_per_hour(seen),
        lines=((did.capitalize(), amounts), *_movers(seen)),
        actions=("Fix: ask those who are named whether that was intended.",),
        labels=_labels(row),
        facts=_facts(row),
    )


def _facts(row: Anomaly) -> dict[str, str]:
    return {"usd": str(row.usd), "usual_usd": str(row.usual_usd), "metric": row.metric}


def _per_hour(seen: Seen) -> Decimal:
    """Dollars more than usual, an hour."""
    row = seen.anomaly
    return pricing.usd(seen.excess_usd * HOUR_MS / (to_ms(row.end) - to_ms(row.start)))


def _labels(row: Anomaly) -> dict[str, tuple[str, ...]]:
    return {"team": (row.key,)} if row.kind == "team" and row.key else {}


def _address(row: Anomaly) -> str:
    """The budget's page, which lists them; what no team held has none."""
    if row.kind == "team" and not row.key:
        return "/budgets"
    return f"/budgets/{quote(subject_of(row.key))}"


def _movers(seen: Seen) -> list[tuple[str, str]]:
    """By kind what changed most; the names come from hosts."""
    return [
        (
            f"{kind.capitalize()}s that moved most",
            "; ".join(
                f"{one_line(mover.label or mover.key, 40)} {wording.usd(mover.usd)}"
                for mover in movers[:MOVERS]
            ),
        )
        for kind, movers in seen.movers
    ]


CONDITION = Condition(
    name="unusual_spending",
    label="Unusual spending",
    sentence=(
        "Fires when a team, or the fleet, has spent or wasted at least ${threshold} more than is"
        " usual at that weekday and hour."
    ),
    kind="series",
    unit="dollars",
    low=0,
    high=1_000_000,
    usual=Settings(threshold=100, minutes=60),
    measure=measure,
    describe=describe,
    is_on=True,
    every_minutes=15,
    covers="what is more than usual",
)
