"""Alerts: CPU seconds of evaluating rules each minute, and of trying them on a month; and pages of
the fleet that was diagnosed for that.

A fleet's newest day is posted from windows and diagnosed; the month before is tiled from it (other
GPUs, jobs and people), and GPU faults, budgets and dear days are added. A rule is evaluated once,
which opens what goes on, and then minute by minute while the fleet goes on doing what it does.
"""

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from benchmarks import opened_pages, reference
from benchmarks.apart import apart, say
from benchmarks.fleet import DAY, Fleet
from benchmarks.opened_pages import Opened
from benchmarks.servers import Hub, running_hub
from benchmarks.tables import Cell, Goal, Size, Table

DAYS = 30
# GPUs and days; the first says what does not grow with a fleet
FLEETS = {
    Size.QUICK: ((104, 1), (1000, DAYS)),
    Size.FULL: ((104, 1), (1000, DAYS), (10_000, 1)),
}
ROUNDS = 3  # of opening each page
DISTINCT = 16  # nodes whose windows are drawn, the others echo them: drawing takes most of the time
Found = TypeVar("Found")
POLICY = "job_idle, by a policy that ends jobs"
MINUTE = timedelta(minutes=1)
EVALUATIONS = 3  # of each rule, beside its first
MINUTES = 15  # of all rules together: each that is not asked every hour is in them
# the target is for so many GPUs
TARGET_GPUS = 10_000
TARGET_S = 2.0


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU seconds."""

    python_s: float
    postgres_s: float

    @property
    def both_s(self) -> float:
        """Of Python and Postgres."""
        return self.python_s + self.postgres_s


@dataclass
class Measured:
    """What one size of fleet showed, CPU seconds of Python and Postgres by condition."""

    gpus: int
    days: int
    rows: dict[str, int] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    live: dict[str, float] = field(default_factory=dict)  # a minute
    tried: dict[str, Spent] = field(default_factory=dict)
    incidents: dict[str, int] = field(default_factory=dict)
    episodes: dict[str, int] = field(default_factory=dict)
    accused: Counter[str] = field(default_factory=Counter)  # incidents of how jobs work, by truth
    together: float = 0.0  # all that ship switched on, a minute, and telling of them
    kernels: list[float] = field(default_factory=list)  # CPU seconds of one, before and after
    opened: Opened | None = None  # pages, of a fleet of more than a day

    @property
    def kernel_s(self) -> float:
        """Of a reference kernel (reference.py), on the mean."""
        return statistics.mean(self.kernels)


@dataclass(frozen=True, slots=True)
class Growth:
    """From a small fleet through a larger one, in a straight line."""

    small_gpus: int
    gpus: int

    def at_target(self, small_s: float, spent_s: float) -> float:
        """CPU seconds at TARGET_GPUS of what took so many in each; no less than in the larger."""
        slope = (spent_s - small_s) / (self.gpus - self.small_gpus)
        return spent_s + max(0.0, slope) * (TARGET_GPUS - self.gpus)


def run(size: Size) -> list[Table]:
    """CPU seconds a minute of evaluating every rule, and of trying each on 30 days; pages of a
    fleet that was diagnosed.
    """
    small, *measured = [apart(measure_fleet, *fleet) for fleet in FLEETS[size]]
    return [
        *(table(each, small) for each in measured),
        *(
            opened_pages.table(each.opened, each.gpus, f"{each.rows['findings']:,} findings")
            for each in measured
            if each.opened is not None
        ),
    ]


def measure_fleet(gpus: int, days: int) -> Measured:
    """What alerts cost on a fleet of so many GPUs and days, which is made for that."""
    with running_hub(with_web=True) as hub:
        fleet = Fleet(gpus, ledger_days=days, distinct=DISTINCT)
        fleet.fill(os.cpu_count() or 1)
        say(f"{gpus:,} GPUs are filled")
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
    from fleetwatch.lib.intervals import Interval

    measured = Measured(gpus, days, rows=alert_fleet.counts())
    measured.kernels.append(reference.kernel_s(hub))
    if days > 1:
        measured.opened = opened_pages.opened(hub, ROUNDS)
        _try_all(hub, measured, end)
    else:
        measured.accused = alert_fleet.accused(Interval(end - DAY, end))
    now = _evaluate_each(hub, measured, end)
    _evaluate_together(hub, measured, now)
    measured.kernels.append(reference.kernel_s(hub))
    return measured


def _try_all(hub: Hub, measured: Measured, end: datetime) -> None:
    from fleetwatch.alerts.back_test import back_test
    from fleetwatch.alerts.conditions import CONDITIONS
    from fleetwatch.lib import allocator
    from fleetwatch.lib.intervals import Interval

    allocator.spare_loaded()  # as the processes do that answer
    month = Interval(end - measured.days * DAY, end)
    for each in CONDITIONS:
        if each.no_history:
            continue
        spent, done = _spent(hub, partial(back_test, each, each.usual, (), month))
        measured.tried[each.name] = spent
        measured.episodes[each.name] = len(done.trials)
        say(f"{each.name}: back-test {spent.both_s:.2f} CPU-s, {len(done.trials)} episodes")
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
        spent, done = _spent(hub, partial(try_on_history, policy, month))
        transaction.set_rollback(True)
    measured.tried[POLICY] = spent
    measured.episodes[POLICY] = len(done.ladders)
    say(f"{POLICY}: {spent.both_s:.2f} CPU-s, {len(done.ladders)} jobs ended")


def _evaluate_each(hub: Hub, measured: Measured, end: datetime) -> datetime:
    """Each condition's own rule alone; up to when the fleet went on for that."""
    from benchmarks import alert_fleet
    from fleetwatch.alerts.conditions import CONDITIONS
    from fleetwatch.alerts.models import Incident, Rule

    now = end
    alert_fleet.go_on(now, now)
    for each in CONDITIONS:
        rule = Rule.objects.get(condition=each.name, is_shipped=True)
        measured.first[each.name] = _spent(hub, partial(_evaluate, rule, now))[0].both_s
        spent = []
        for _ in range(EVALUATIONS):
            alert_fleet.go_on(now, now + MINUTE)
            now += MINUTE
            spent.append(_spent(hub, partial(_evaluate, rule, now))[0].both_s)
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
        spent_s += _spent(hub, partial(announcing.run, now))[0].both_s
    measured.together = spent_s / MINUTES
    say(f"all together: {measured.together:.3f} CPU-s a minute")


def _spent(hub: Hub, work: Callable[[], Found]) -> tuple[Spent, Found]:
    # to look for Postgres' processes takes a hundredth of a second: that is not the work's
    postgres_s = hub.postgres_s()
    own_s = time.process_time()
    found = work()
    own_s = time.process_time() - own_s
    return Spent(own_s, hub.postgres_s() - postgres_s), found


def table(measured: Measured, small: Measured) -> Table:
    """A line of each condition, scaled by what it took in a small fleet; of a fleet of one day
    without back-tests.
    """
    size = f"{measured.gpus:,} GPUs x {measured.days} d"
    growth = Growth(small.gpus, measured.gpus)
    rows = [_row(measured, small, name) for name in {**measured.live, **measured.tried}]
    together_s = growth.at_target(small.together, measured.together)
    whole = "all that ship switched on, and telling of them"
    rows.append([whole, *[None] * 6, small.together, measured.together, together_s])
    return Table(
        f"Rules: {size}, {_sizes(measured)}",
        (
            "condition",
            "episodes",
            "back-test, CPU-s",
            "Python",
            "Postgres",
            "open incidents",
            "first evaluation, CPU-s",
            f"then a minute: {small.gpus:,} GPUs, CPU-s",
            f"{measured.gpus:,} GPUs",
            f"{TARGET_GPUS:,} GPUs",
        ),
        rows,
        notes=_notes(measured, small),
        goals=[*_goals(measured, size, together_s), _accused(small)],
    )


def _row(measured: Measured, small: Measured, name: str) -> list[Cell]:
    tried = measured.tried.get(name)
    row: list[Cell] = [
        name,
        measured.episodes.get(name),
        tried and tried.both_s,
        tried and tried.python_s,
        tried and tried.postgres_s,
    ]
    if name not in measured.live:
        return [*row, *[None] * 5]
    minutes = (small.live[name], measured.live[name])
    return [
        *row,
        measured.incidents[name],
        measured.first[name],
        *minutes,
        Growth(small.gpus, measured.gpus).at_target(*minutes),
    ]


def _notes(measured: Measured, small: Measured) -> tuple[str, ...]:
    kernels = " and ".join(f"{spent_s:.2f}" for spent_s in measured.kernels)
    notes = [
        (
            "a back-test is what the page of a rule does: measured, judged, described and priced;"
            " conditions without one have no history"
        ),
        (
            "a minute is Python and Postgres; a condition that is asked each five minutes costs a"
            " fifth a minute of what one evaluation does"
        ),
        (
            f"a reference kernel took {kernels} CPU-s before and after: targets are judged by how"
            " many of these were spent"
        ),
    ]
    truths = ", ".join(f"{count} {truth}" for truth, count in small.accused.most_common())
    notes.append(f"low, stalled, underused, hung and spinning jobs, by what was wrong: {truths}")
    if measured.gpus < TARGET_GPUS:
        notes.append(
            f"at {TARGET_GPUS:,} GPUs: scaled, on the straight line through {small.gpus:,} GPUs x"
            f" {small.days} d and {measured.gpus:,}"
        )
    return tuple(notes)


def _goals(measured: Measured, size: str, together_s: float) -> list[Goal]:
    is_scaled = measured.gpus < TARGET_GPUS
    goals = [
        Goal(
            "evaluating the rules that ship switched on, a minute",
            together_s,
            TARGET_S,
            TARGET_S / 2,
            "CPU-s",
            where=f"{TARGET_GPUS:,} GPUs" + f", scaled from {measured.gpus:,}" * is_scaled,
            kernel_s=measured.kernel_s,
        )
    ]
    if measured.tried:
        slowest = max(measured.tried, key=lambda name: measured.tried[name].both_s)
        spent_s = measured.tried[slowest].both_s
        name = f"back-test, the slowest condition ({slowest})"
        kernel_s = measured.kernel_s
        goals.append(Goal(name, spent_s, 5, 1, "CPU-s", where=size, kernel_s=kernel_s))
    return goals


def _accused(small: Measured) -> Goal:
    name = "incidents of how jobs work that accuse a healthy job"
    where = f"{small.accused.total()} incidents of a day of {small.gpus:,} GPUs"
    return Goal(name, small.accused["healthy"], 0, None, "", where=where)


def _sizes(measured: Measured) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in measured.rows.items())
