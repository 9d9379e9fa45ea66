"""What of the waste could be brought back, which the overview fetches after itself."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from urllib.parse import urlencode

from django.http import HttpRequest

from fleetwatch.dashboard.decided_jobs import NOT_WASTE, decided_jobs
from fleetwatch.dashboard.parameters import filtered
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.recorded_part import record_of_findings
from fleetwatch.dashboard.showing import Context
from fleetwatch.dashboard.wasting_now import wasting_now
from fleetwatch.diagnosis.cause import Cause
from fleetwatch.diagnosis.causes import of_kind
from fleetwatch.diagnosis.findings.inbox import RECOVERABLE, inbox
from fleetwatch.diagnosis.findings.patterns import (
    HABIT,
    NOW,
    Pattern,
    Patterns,
    going_on,
    patterns,
)
from fleetwatch.figures.selectors import Scope
from fleetwatch.lib import timeframes
from fleetwatch.lib.timeframes import ZONE

TOP = 4
LOOKED_AT = 4 * TOP  # patterns of the period; by the month their order is another
LAST_HOUR = {"from": "now-1h", "to": "now"}


def recoverable(request: HttpRequest, period: Period) -> Context:
    """What open findings could bring back, the running jobs that waste most now, and the first
    patterns of what comes back, each with its cause.
    """
    scope, filters = filtered(request)
    every = inbox(period.interval, now=period.now, scope=scope)
    still_open = patterns(every.of_jobs.of_status("open"), period.so_far, now=period.now)
    recurring = still_open.of(HABIT)
    return {
        "filters": filters,
        **record_of_findings(every, period),
        **_wasting(period, scope),
        **_going_on(period, scope, filters, still_open),
        "pattern_counts": still_open.counts(),
        "recurring": _with_causes(_dearest(recurring[:LOOKED_AT] if len(recurring) else [])),
        "savings_total": every.saving(*RECOVERABLE),
        "savings_count": every.counts()["open"],
        "places_count": len(every.of_status("open").of_places),
    }


def _going_on(
    period: Period, scope: Scope, filters: Mapping[str, str], still_open: Patterns
) -> Context:
    """How many patterns go on now, of those that waste and of the others, and the query of the
    list that has as many: where the page's own period is over, that of the last hour, for few of
    what goes on is in it.
    """
    if period.interval.end >= period.minute:
        frame = period.timeframe
    else:
        asked = LAST_HOUR | {ZONE: period.timeframe.tz}
        frame = timeframes.parse(asked, now=period.minute, zone=period.zone, clock=period.clock)
        every = inbox(frame.interval, now=period.now, scope=scope).of_jobs.of_status("open")
        still_open = patterns(every, frame.interval, now=period.now)
    query = f"{frame.query}&{urlencode(dict(filters) | {'when': NOW})}"
    return {"going_on": going_on(still_open), "now_query": query}


def _wasting(period: Period, scope: Scope) -> Context:
    """The running jobs that waste most now, and what was decided of them: what is no waste comes
    last.
    """
    wasting = wasting_now(period.minute, size=2 * TOP, scope=scope)
    decided = decided_jobs((line.group.key for line in wasting), period.now) if wasting else {}
    in_order = sorted(wasting, key=lambda line: decided.get(line.group.key) == NOT_WASTE)
    return {"wasting": in_order[:TOP], "decided": decided}


def _dearest(several: Sequence[Pattern]) -> list[Pattern]:
    """Those that could save most, by the amounts that are shown."""
    return sorted(several, key=_shown_usd, reverse=True)[:TOP]


def _shown_usd(pattern: Pattern) -> Decimal:
    """The middle of what a month of it, else the period, could have saved."""
    saving = pattern.per_month or pattern.caused.saving
    return (saving.low_usd + saving.high_usd) / 2


def _with_causes(several: Sequence[Pattern]) -> list[tuple[Pattern, Cause]]:
    return [(each, of_kind(each.line.finding.cause, each.line.job.kind)) for each in several]
