"""Where the dollars of a budget's month went: the largest teams or people, jobs and causes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from urllib.parse import urlencode

from django.urls import reverse

from fleetwatch.alerts.breach import Breach
from fleetwatch.alerts.measuring.budget_months import slug_of
from fleetwatch.alerts.measuring.month_drivers import (
    NO_NAMES,
    by_cost,
    month_until,
    scope_of,
    spender_group,
)
from fleetwatch.dashboard.decided_jobs import decided_jobs
from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.cause_look import WASTING
from fleetwatch.figures import ranking
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.posted import posted_hour
from fleetwatch.figures.pricing import exact_sum
from fleetwatch.figures.selectors import Group, Look, Scope
from fleetwatch.jobs.outcomes import running_ids
from fleetwatch.lib.intervals import Interval

MAX_OF_A_KIND = 3
LOOKED_AT = 20  # running jobs that waste most; of those that are decided nothing is to be done
CAUSE = "cause of waste"
CENT = Decimal("0.01")
NO_TEAM = "Free and no team"
NOBODY_NAMED = "Nobody named"
NO_JOB = "Free: held by no job"


@dataclass(frozen=True, slots=True)
class Driver:
    """One that took `usd`, a `share` (0 to 1) of what the budget's month cost; of a cause what it
    wasted. `key` is a job's, where its name is another.
    """

    name: str
    key: str
    address: str
    kind: str
    usd: Decimal
    share: Decimal


@dataclass(frozen=True, slots=True)
class DriverKind:
    """The largest of one kind, the dollars of all of it, and the page of all; `rest_usd` what of
    the month is of none of it, and `rest` what that is ("": it is no part of the month).
    """

    title: str
    usd: Decimal
    lines: list[Driver]
    address: str
    rest: str = ""
    rest_usd: Decimal = Decimal(0)

    @property
    def has_rest(self) -> bool:
        """Whether that is a cent or more."""
        return bool(self.rest) and self.rest_usd >= CENT


@dataclass(frozen=True, slots=True)
class Drivers:
    """The largest of each kind in the part of the month that is looked at, and all its dollars;
    `recorded_since` where the month's begin is in none of them. Where it goes on, `wasting` are the
    jobs that run now and wasted most in the last hour, with its dollars, without those that people
    decided about; `open_findings` is the page of what can be saved.
    """

    interval: Interval
    usd: Decimal
    kinds: list[DriverKind]
    recorded_since: datetime | None = None
    wasting: Sequence[Group] = ()
    open_findings: str = ""

    @property
    def lines(self) -> list[Driver]:
        return [line for kind in self.kinds for line in kind.lines]

    @property
    def largest(self) -> Driver | None:
        """The person, or team, that took most."""
        return next((line for line in self.lines if line.kind in ("person", "team")), None)

    @property
    def cause(self) -> Driver | None:
        """The cause that wasted most."""
        return next((line for line in self.lines if line.kind == CAUSE), None)


def drivers_of(breach: Breach, now: datetime, *, is_over: bool) -> Drivers | None:
    """Of the budget's month, to now while it goes on; None of what is no budget's, and where the
    reader sees no dollars of it.
    """
    interval = month_until(breach, now, is_over=is_over) if breach.kind == "budget" else None
    slug = slug_of(breach.subject)
    drivers = None if interval is None else drivers_in(interval, slug)
    if drivers is None or is_over:
        return drivers
    page = _Telling(drivers.interval, slug, drivers.usd).page
    return replace(
        drivers, wasting=_wasting(slug, now), open_findings=page("findings", status="open")
    )


def _wasting(slug: str, now: datetime) -> Sequence[Group]:
    held = costs.look(posted_hour(now), "job", scope=scope_of(slug)).held()
    most = held.of("job", running_ids()).ranked("job", LOOKED_AT, sort=ranking.WASTE).groups
    wasting = [each for each in most if each.totals.wasted_usd > 0]
    decided = decided_jobs((each.key for each in wasting), now)
    return [each for each in wasting if each.key not in decided][:MAX_OF_A_KIND]


def drivers_in(interval: Interval, slug: str) -> Drivers | None:
    """Of a team's dollars in the period, or the fleet's; None where there are none."""
    scope = scope_of(slug)
    by = spender_group(slug)
    seen = costs.look(interval, by, "job", scope=scope)
    usd = seen.totals().cost_usd
    if not usd:
        return None
    held = seen.held()
    telling = _Telling(interval, slug, usd)
    kinds = [
        _spenders(held, by, telling),
        _jobs(held, telling),
        _causes(interval, scope, telling),
    ]
    since = costs.not_recorded_before(interval.start, interval.end)
    return Drivers(interval, usd, [kind for kind in kinds if kind.lines], since)


def _spenders(held: Look, by: str, telling: "_Telling") -> DriverKind:
    spenders = by_cost(held.by(by))
    usd = exact_sum(each.totals.cost_usd for each in spenders if each.key not in NO_NAMES)
    title, rest = ("People", NOBODY_NAMED) if by == "user" else ("Teams", NO_TEAM)
    address = telling.page("costs", group_by=by)
    lines = telling.by(by, spenders)
    return DriverKind(title, usd, lines, address, rest, telling.usd - usd)


def _jobs(held: Look, telling: "_Telling") -> DriverKind:
    jobs = held.ranked("job", MAX_OF_A_KIND, sort=ranking.COST).groups
    address = telling.page("costs", group_by="job")
    usd = held.totals().cost_usd
    return DriverKind("Jobs", usd, telling.jobs(jobs), address, NO_JOB, telling.usd - usd)


def _causes(interval: Interval, scope: Scope, telling: "_Telling") -> DriverKind:
    causes = diagnosis.waste_by_cause(interval, scope=scope).lines
    usd = exact_sum(map(_wasted_usd, causes))
    address = telling.page("waste", group_by="cause")
    return DriverKind("Causes of waste", usd, telling.causes(causes), address)


@dataclass(frozen=True, slots=True)
class _Telling:
    interval: Interval
    slug: str
    usd: Decimal

    def by(self, name: str, groups: Iterable[Group]) -> list[Driver]:
        """Of teams, or people of a team, with what each spent."""
        kind, then = ("person", "job") if name == "user" else ("team", "user")

        def address(group: Group) -> str:
            return self.page("costs", group_by=then, **{name: group.key})

        return self._drivers(kind, groups, address)

    def jobs(self, groups: Iterable[Group]) -> list[Driver]:
        """Of jobs, with their pages."""
        return self._drivers("job", groups, lambda group: self.page("job", group.key))

    def causes(self, groups: Iterable[Group]) -> list[Driver]:
        """Of causes what each wasted, and where: that has their dollars, and leads to findings."""

        def address(group: Group) -> str:
            of = {"cause": group.key} if group.key in WASTING else {"group_by": "cause"}
            return self.page("waste", **of)

        return self._drivers(CAUSE, groups, address, of=_wasted_usd)

    def _drivers(
        self,
        kind: str,
        groups: Iterable[Group],
        address: Callable[[Group], str],
        of: Callable[[Group], Decimal] = lambda group: group.totals.cost_usd,
    ) -> list[Driver]:
        named = [group for group in groups if group.key not in NO_NAMES and of(group) > 0]
        return [
            Driver(
                group.label,
                group.key if kind == "job" and group.key != group.label else "",
                address(group),
                kind,
                of(group),
                of(group) / self.usd,
            )
            for group in named[:MAX_OF_A_KIND]
        ]

    def page(self, page: str, *args: str, **narrowed: str) -> str:
        """Its address over the same time; of a list narrowed to the team."""
        team = {"team": self.slug} if self.slug and not args else {}
        meanwhile = {"from": self.interval.start_ms, "to": self.interval.end_ms}
        return f"{reverse(page, args=args)}?{urlencode(team | narrowed | meanwhile)}"


def _wasted_usd(group: Group) -> Decimal:
    return group.totals.wasted_usd
