"""Where the dollars of a budget's month went, as its message says it to this reader: who spent
most, and the cause that wasted most.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial

from django.db import transaction

from fleetwatch.accounts.selectors import zone
from fleetwatch.accounts.visibility import narrowed, sight, visible_teams
from fleetwatch.alerts.breach import Breach, Line
from fleetwatch.alerts.measuring.budget_months import slug_of
from fleetwatch.budgets import calendar
from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.causes import UNDETERMINED
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Group, Scope
from fleetwatch.figures.totals import NOBODY, UNALLOCATED, UNMAPPED
from fleetwatch.lib.fences import Fences
from fleetwatch.lib.intervals import Interval, from_ms, to_ms
from fleetwatch.notify import wording
from fleetwatch.notify.message import one_line

NO_NAMES = (UNALLOCATED, NOBODY, UNMAPPED)  # nobody can be asked


def with_drivers(breach: Breach, now: datetime) -> Breach:
    """A budget's with them; as it is of anything else, and where nothing is known of them, or the
    reader does not see all of its dollars. That they can't be read keeps no message from being
    sent.
    """
    interval = month_until(breach, now, is_over=False) if breach.kind == "budget" else None
    slug = slug_of(breach.subject)
    if interval is None or not _is_seen(slug):
        return breach
    read = partial(_lines, interval, slug)
    lines: tuple[Line, ...] = Fences().within(f"drivers of {breach.subject}", read, ())
    return replace(breach, lines=(*breach.lines, *lines))


def opens_budget(breach: Breach) -> bool:
    """Whether the reader may open the pages of what it is about, where that is a budget: a team's
    are for who sees the team, the fleet's for who sees everything.
    """
    if breach.kind != "budget" or sight() is None:
        return True
    return visible_teams().filter(slug=slug_of(breach.subject)).exists()


def month_until(breach: Breach, now: datetime, *, is_over: bool) -> Interval | None:
    """The part of the budget's month that was over when its dollars were told; None: nothing
    was.
    """
    last_ms = breach.spent_until_ms or (breach.until_ms if is_over else to_ms(now))
    month = calendar.month(calendar.month_of(from_ms(last_ms - 1), zone()), zone())
    return Interval(month.start, from_ms(last_ms)) if month.start_ms < last_ms else None


def scope_of(slug: str) -> Scope:
    """Of the team's time, or of all."""
    return Scope(team=slug) if slug else Scope()


def spender_group(slug: str) -> str:
    """Who spends a budget: a team's its people, the fleet's the teams."""
    return "user" if slug else "team"


def by_cost(groups: Iterable[Group]) -> list[Group]:
    """Those that spent most first."""
    return sorted(groups, key=lambda group: -group.totals.cost_usd)


def _is_seen(slug: str) -> bool:
    return narrowed() is None or visible_teams().filter(slug=slug).exists()


@transaction.atomic
def _lines(interval: Interval, slug: str) -> tuple[Line, ...]:
    return *_top_spender(interval, slug), *_top_cause(interval, slug)


def _top_spender(interval: Interval, slug: str) -> tuple[Line, ...]:
    by = spender_group(slug)
    seen = costs.look(interval, by, "job", scope=scope_of(slug))
    usd = seen.totals().cost_usd
    named = [each for each in by_cost(seen.held().by(by)) if each.key not in NO_NAMES]
    if not named or not usd or named[0].totals.cost_usd <= 0:
        return ()
    label = "Top spender" if slug else "Top team"
    return ((label, _worth(named[0], named[0].totals.cost_usd, usd, "of what was spent")),)


def _top_cause(interval: Interval, slug: str) -> tuple[Line, ...]:
    causes = diagnosis.waste_by_cause(interval, scope=scope_of(slug)).lines
    named = [each for each in causes if each.key != UNDETERMINED and each.totals.wasted_usd > 0]
    if not named:
        return ()
    usd = sum((each.totals.wasted_usd for each in causes), Decimal(0))
    return (("Top cause", _worth(named[0], named[0].totals.wasted_usd, usd, "of what was wasted")),)


def _worth(group: Group, usd: Decimal, whole: Decimal, of: str) -> str:
    share = wording.share(float(usd / whole))
    return f"{one_line(group.label, 60)}: {wording.usd(usd)}, {share} {of}"
