"""Who has jobs here and no account: whose waste nobody is told of."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from fleetwatch.accounts.models import Identity, User
from fleetwatch.accounts.names.holders import KUBERNETES, OF_JOBS
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import NOBODY, UNALLOCATED, Totals
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval

DAYS = 7


@dataclass(frozen=True, slots=True)
class Accountless:
    """A user of jobs: the system that names him, what his time of the last DAYS cost, and the
    account of the same name ("" = there is none).
    """

    name: str
    system: str
    totals: Totals
    namesake: str


def accountless(now: datetime, *, text: str = "") -> list[Accountless]:
    """The users of the last DAYS' jobs whose name, with the text in it, is no account's; the
    dearest first. A name that is somebody's on one cluster is somebody's.
    """
    owned = _names_of_accounts()
    week = Interval(now - timedelta(days=DAYS), now)
    groups = {
        group.key: group.totals
        for group in costs.totals_by(week, "user")
        if group.key not in owned and text.casefold() in group.key.casefold()
    }
    return sorted(_lines(groups) if groups else (), key=_dearest_first)


def _names_of_accounts() -> set[str]:
    held = Identity.objects.filter(system__in=OF_JOBS, confirmed_at__isnull=False)
    return {UNALLOCATED, NOBODY, *held.values_list("name", flat=True)}


def _lines(groups: Mapping[str, Totals]) -> Iterator[Accountless]:
    unix = _outside_kubernetes(groups)
    namesakes = set(User.objects.filter(username__in=groups).values_list("username", flat=True))
    for name, totals in groups.items():
        system = Identity.System.UNIX if name in unix else Identity.System.KUBERNETES
        yield Accountless(name, system, totals, name if name in namesakes else "")


def _dearest_first(line: Accountless) -> tuple[Decimal, int, str]:
    return -line.totals.cost_usd, -line.totals.capacity_ms, line.name


def _outside_kubernetes(names: Collection[str]) -> set[str]:
    """Those of the users who have a job that is no pod."""
    jobs = Job.objects.filter(user__in=names).exclude(scheduler=KUBERNETES)
    return set(jobs.order_by().values_list("user", flat=True).distinct())
