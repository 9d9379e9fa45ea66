"""Who has jobs here and no account: whose waste nobody is told of."""

from collections import defaultdict
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
    account of the same name ("" = there is none). Who runs services alone is hardly a person.
    """

    name: str
    system: str
    totals: Totals
    namesake: str
    runs_services_alone: bool


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
    kinds = _kinds(groups)
    namesakes = set(User.objects.filter(username__in=groups).values_list("username", flat=True))
    for name, totals in groups.items():
        of_name = kinds.get(name, set())
        is_unix = any(scheduler != KUBERNETES for scheduler, _ in of_name)
        system = Identity.System.UNIX if is_unix else Identity.System.KUBERNETES
        is_service = {kind for _, kind in of_name} == {Job.Kind.SERVICE}
        yield Accountless(name, system, totals, name if name in namesakes else "", is_service)


def _dearest_first(line: Accountless) -> tuple[Decimal, int, str]:
    return -line.totals.cost_usd, -line.totals.capacity_ms, line.name


def _kinds(names: Collection[str]) -> dict[str, set[tuple[str, str]]]:
    """By the user the schedulers and kinds of his jobs."""
    jobs = Job.objects.filter(user__in=names).order_by()
    kinds: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for name, scheduler, kind in jobs.values_list("user", "scheduler", "kind").distinct():
        kinds[name].add((scheduler, kind))
    return kinds
