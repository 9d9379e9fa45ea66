"""Alerts: CPU seconds of evaluating rules each minute, and of trying them on a month.

A fleet's newest day is posted from windows and diagnosed; the month before is tiled from it (other
GPUs, jobs and people). A rule is evaluated once, which opens what goes on, and then minute by
minute while the fleet goes on doing what it does.
"""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from benchmarks.apart import apart, say
from benchmarks.fleet import DAY, Fleet
from benchmarks.servers import Hub, running_hub
from benchmarks.tables import Cell, Goal, Size, Table

# GPUs, and whether there is a month before the day
FLEETS = {Size.QUICK: ((1000, True),), Size.FULL: ((1000, True), (10_000, False))}
DAYS = 30
Found = TypeVar("Found")
POLICY = "job_idle, by a policy that ends jobs"
MINUTE = timedelta(minutes=1)
EVALUATIONS = 3  # of each rule, beside its first
MINUTES = 15  # of all rules together: each that is not asked every hour is in them
# the target is for so many GPUs
TARGET_GPUS = 10_000
TARGET_S = 2.0


@dataclass
class Measured:
    """What one size of fleet showed, CPU seconds of Python and Postgres by condition."""

    gpus: int
    rows: dict[str, int] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    live: dict[str, float] = field(default_factory=dict)  # a minute
    tried: dict[str, float] = field(default_factory=dict)
    incidents: dict[str, int] = field(default_factory=dict)
    episodes: dict[str, int] = field(default_factory=dict)
    together: float = 0.0  # all that ship switched on, a minute, and telling of them


def run(size: Size) -> list[Table]:
    """CPU seconds a minute of evaluating every rule, and of trying each on 30 days."""
    measured = [apart(_measure, *fleet) for fleet in FLEETS[size]]
    return [table for each in measured for table in (_live_table(each), *_back_test_table(each))]


def _measure(gpus: int, has_month: bool) -> Measured:
    with running_hub() as hub:
        days = DAYS if has_month else 1
        fleet = Fleet(gpus, ledger_days=days)
        fleet.fill(os.cpu_count() or 1)
        from benchmarks import alert_fleet
        from fleetwatch.lib.intervals import Interval

        alert_fleet.complete(Interval(fleet.end - DAY, fleet.end), days - 1)
        say(f"{gpus:,} GPUs are made")
        return measure(hub, gpus, fleet.end, days)


def measure(hub: Hub, gpus: int, end: datetime, days: int) -> Measured:
    """What alerts cost on a fleet whose newest data ends at `end`; a back-test where it has more
    than a day.
    """
    from benchmarks import alert_fleet

    measured = Measured(gpus, rows=alert_fleet.counts())
    if days > 1:
        _try_all(hub, measured, end)
    now = _evaluate_each(hub, measured, end)
    _evaluate_together(hub, measured, now)
    return measured


def _try_all(hub: Hub, measured: Measured, end: datetime) -> None:
    from fleetwatch.alerts.back_test import back_test
    from fleetwatch.alerts.conditions import CONDITIONS
    from fleetwatch.lib.intervals import Interval

    month = Interval(end - DAYS * DAY, end)
    for each in CONDITIONS:
        if each.no_history:
            continue
        spent_s, done = _spent(hub, partial(back_test, each, each.usual, (), month))
        measured.tried[each.name] = spent_s
        measured.episodes[each.name] = len(done.trials)
        say(f"{each.name}: tried on {DAYS} days, {spent_s:.2f} CPU-s, {len(done.trials)} episodes")
    _try_policy(hub, measured, month)


def _try_policy(hub: Hub, measured: Measured, month: Any) -> None:
    """A policy that ends idle jobs, of which a holder can be warned; taken back, for rules that are
    evaluated next know nobody.
    """
    from django.db import transaction

    from benchmarks import alert_fleet
    from fleetwatch.actions.past_ladders import try_on_history

    with transaction.atomic():
        policy = alert_fleet.a_policy(month.end)
        spent_s, done = _spent(hub, partial(try_on_history, policy, month))
        transaction.set_rollback(True)
    measured.tried[POLICY] = spent_s
    measured.episodes[POLICY] = len(done.ladders)
    say(f"{POLICY}: {spent_s:.2f} CPU-s, {len(done.ladders)} jobs ended")


def _evaluate_each(hub: Hub, measured: Measured, end: datetime) -> datetime:
    """Each condition's own rule alone; up to when the fleet went on for that."""
    from benchmarks import alert_fleet
    from fleetwatch.alerts.conditions import CONDITIONS
    from fleetwatch.alerts.models import Incident, Rule

    now = end
    alert_fleet.go_on(now, now)
    for each in CONDITIONS:
        rule = Rule.objects.get(condition=each.name, is_shipped=True)
        measured.first[each.name], _ = _spent(hub, partial(_evaluate, rule, now))
        spent = []
        for _ in range(EVALUATIONS):
            alert_fleet.go_on(now, now + MINUTE)
            now += MINUTE
            spent.append(_spent(hub, partial(_evaluate, rule, now))[0])
        measured.live[each.name] = statistics.median(spent) / each.every_minutes
        measured.incidents[each.name] = Incident.objects.filter(rule=rule, ended_ms=None).count()
        say(f"{each.name}: {measured.live[each.name]:.3f} CPU-s a minute")
    return now


def _evaluate(rule: Any, now: datetime) -> None:
    from django.db import transaction

    from fleetwatch.alerts.services import evaluate_rule

    with transaction.atomic():
        evaluate_rule(rule, now)


def _evaluate_together(hub: Hub, measured: Measured, now: datetime) -> None:
    """What the task does each minute, with the rules that ship switched on."""
    from benchmarks import alert_fleet
    from fleetwatch.alerts.messaging import announcing
    from fleetwatch.notify.services import create_channel

    create_channel("webhook", "bench", {"url": "https://127.0.0.1/", "secret": "s" * 32}, now=now)
    announcing.run(now)
    spent_s = 0.0
    for _ in range(MINUTES):
        alert_fleet.go_on(now, now + MINUTE)
        now += MINUTE
        spent_s += _spent(hub, partial(announcing.run, now))[0]
    measured.together = spent_s / MINUTES
    say(f"all together: {measured.together:.3f} CPU-s a minute")


def _spent(hub: Hub, work: Callable[[], Found]) -> tuple[float, Found]:
    # to look for Postgres' processes takes a hundredth of a second: that is not the work's
    postgres_s = hub.postgres_s()
    own_s = time.process_time()
    found = work()
    own_s = time.process_time() - own_s
    return own_s + hub.postgres_s() - postgres_s, found


def _live_table(measured: Measured) -> Table:
    where = f"{measured.gpus:,} GPUs"
    rows: list[list[Cell]] = [
        [name, measured.incidents[name], measured.first[name], spent_s]
        for name, spent_s in measured.live.items()
    ]
    rows.append(["all that ship switched on, and telling of them", None, None, measured.together])
    share = measured.gpus / TARGET_GPUS
    goal = Goal(
        "evaluating the rules that ship switched on, a minute",
        measured.together,
        TARGET_S,
        TARGET_S * share / 2,
        "CPU-s",
        where=where,
    )
    return Table(
        f"Evaluating rules: {where}, {_sizes(measured)}",
        ["condition", "open incidents", "first evaluation, CPU-s", "then a minute, CPU-s"],
        rows,
        notes=(
            "Python and Postgres; a condition that is asked each five minutes costs a fifth a"
            " minute of what one evaluation does",
        ),
        goals=(goal,),
    )


def _back_test_table(measured: Measured) -> list[Table]:
    if not measured.tried:
        return []
    where = f"{measured.gpus:,} GPUs x {DAYS} d"
    rows: list[list[Cell]] = [
        [name, measured.episodes[name], spent_s] for name, spent_s in measured.tried.items()
    ]
    slowest = max(measured.tried, key=measured.tried.__getitem__)
    goal = Goal(
        f"back-test, the slowest condition ({slowest})",
        measured.tried[slowest],
        5,
        1,
        "CPU-s",
        where=where,
    )
    return [
        Table(
            f"Trying rules on history: {where}",
            ["condition", "episodes", "CPU-s"],
            rows,
            notes=("as the page of a rule does it: measured, judged, described and priced",),
            goals=(goal,),
        )
    ]


def _sizes(measured: Measured) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in measured.rows.items())
