"""The condition waste_of_person: a user's jobs waste so many dollars an hour, hour after hour."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from urllib.parse import urlencode

from django.db.models import Q

from fleetwatch.accounts.names.holders import Holder, people
from fleetwatch.alerts.breach import BELOW, Breach, Condition, Highest, Settings, Watch
from fleetwatch.alerts.episodes import End, Episode, Level, Measured, Span
from fleetwatch.alerts.measuring import waste_rates
from fleetwatch.alerts.measuring.waste_rates import Waster
from fleetwatch.jobs.models import Job
from fleetwatch.notify.message import one_line

SHARED = "jobs of several people run under this name"


def measured(watch: Watch) -> Measured:
    """By user how each whole hour stood to the rule. Nobody is accused of what runs under a name
    that several people have in different clusters: whose of it is which is not known here.
    """
    seen = waste_rates.measured(watch, "user")
    high = [name for name, spans in seen.spans.items() if _is_high(spans)]
    shared = _shared({*high, *watch.firing}, watch)
    return replace(
        seen,
        spans={name: spans for name, spans in seen.spans.items() if name not in shared},
        ends={
            **seen.ends,
            **{name: End(watch.end_ms, SHARED) for name in watch.firing if name in shared},
        },
    )


def _is_high(spans: Sequence[Span]) -> bool:
    return any(span.level == Level.BREACH for span in spans)


def _shared(users: Collection[str], watch: Watch) -> set[str]:
    """Those of the users' names that are not one account's (or nobody's) in all the schedulers and
    clusters where jobs ran under them.
    """
    ran = Q(end_ms=None) | Q(end_ms__gt=watch.start_ms)
    jobs = Job.objects.filter(ran, user__in=users, start_ms__lt=watch.end_ms)
    rows = jobs.order_by().values_list("scheduler", "cluster", "user").distinct()
    holders = [Holder(*row) for row in rows]
    accounts = people(holders)
    persons: dict[str, set[int | None]] = defaultdict(set)
    for holder in holders:
        account = accounts.get(holder)
        persons[holder.user].add(account.pk if account else None)
    return {user for user, of_user in persons.items() if len(of_user) > 1}


def highest(watch: Watch) -> list[Highest]:
    """What each of them wasted an hour at most; nobody's of what runs under a shared name."""
    rows = waste_rates.highest(watch, "user")
    shared = _shared({row.episode.subject for row in rows}, watch)
    return [row for row in rows if row.episode.subject not in shared]


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode whose jobs they are and what they wasted; None of who has no time in it."""
    wasted = waste_rates.wasted_in(episodes, "user", watch)
    agreed = waste_rates.agreed_in(episodes, "user", watch)
    labels = waste_rates.holder_labels({each.subject for each in episodes}, watch)
    return [
        waste_rates.breach(
            each,
            Waster(one_line(each.subject, 60), totals, usd, labels[each.subject], _address(each)),
            watch,
            kind="person",
        )
        if totals
        else None
        for each, totals, usd in zip(episodes, wasted, agreed, strict=True)
    ]


def _address(episode: Episode) -> str:
    return f"/waste?{urlencode({'user': episode.subject, 'group_by': 'job'})}"


CONDITION = Condition(
    name="waste_of_person",
    label="Waste of a person",
    sentence=(
        "Fires when a person's jobs have wasted ${threshold} an hour or more for {minutes} minutes,"
        " what is agreed as not waste apart."
    ),
    kind="person",
    unit="dollars an hour",
    low=0.01,
    high=100_000,
    clears=BELOW,
    usual=Settings(threshold=20, minutes=120),
    measure=measured,
    describe=describe,
    highest=highest,
    every_minutes=15,
    covers="what was wasted",
    judged_ms=waste_rates.JUDGED_MS,
)
