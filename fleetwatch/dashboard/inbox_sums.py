"""What stands above the savings inbox: what its findings could bring back, what was agreed as not
waste, and what fixes brought.
"""

from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from decimal import Decimal

from fleetwatch.dashboard import words
from fleetwatch.dashboard.asked_findings import scope_of_findings, tab_counts
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.recorded_part import record_of_findings
from fleetwatch.dashboard.showing import Context
from fleetwatch.diagnosis import selectors
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.causes import title
from fleetwatch.diagnosis.findings import fixes, machine_findings
from fleetwatch.diagnosis.findings.inbox import RECOVERABLE, Inbox, Which
from fleetwatch.diagnosis.findings.realised import Outcome
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import Scope
from fleetwatch.lib.intervals import Interval

OF_LISTED = [field.name for field in fields(Which)]  # what findings alone are narrowed to
TOP_FIXES = 10


def savings(every: Inbox, filters: Mapping[str, str], period: Period) -> Context:
    """How many there are, what they could bring back, and how that comes from what was wasted, or,
    where they are narrowed to what waste is not told by, from what they took.
    """
    saving = every.saving(*RECOVERABLE)
    explained_usd = every.wasted_usd(*RECOVERABLE)
    if not filters.keys().isdisjoint(OF_LISTED):
        steps = {"is_narrowed": True, "explained_usd": explained_usd, "saving": saving}
    else:
        scope = scope_of_findings(filters)
        steps = _waterfall(period.interval, scope, explained_usd, saving)
    return {
        **record_of_findings(every, period),
        "counts": tab_counts(every),
        "progress": machine_findings.progress(period.interval, now=period.now),
        "recoverable": saving,
        "steps": steps,
        "accepted": every.saving("accepted"),
        "capacity": every.capacity(),
        "agreed": every.agreed,
    }


def _waterfall(interval: Interval, scope: Scope, explained_usd: Decimal, saving: Saving) -> Context:
    """From what was wasted to what could have been recovered, step by step, in dollars, so that the
    two are never taken for one.

    Wasted is certain and probable, unused the underused time and the services that wait
    (potential), not free GPUs; open is what no open finding explains: not determined, too small, or
    decided already.
    """
    whole = costs.look(interval, scope=scope)
    wasted_usd = whole.totals().wasted_usd
    unused_usd = whole.within(selectors.CAUSED_STATES).totals().waste_usd["potential"]
    return {
        "wasted_usd": wasted_usd,
        "unused_usd": unused_usd,
        "open_usd": max(Decimal(0), wasted_usd + unused_usd - explained_usd),
        "explained_usd": explained_usd,
        "saving": saving,
    }


def fixed(period: Period, filters: Mapping[str, str]) -> Context:
    """What fixes of the quarter brought, narrowed as the page is as far as they know of it."""
    quarter = fixes.quarter(period.interval.end - timedelta(microseconds=1), period.zone)
    effects = fixes.top_fixes(quarter, filters)
    regressed = [each for each in effects if each.fix.outcome == Outcome.REGRESSED]
    came_back = fixes.realised(regressed)
    return {
        "realised": fixes.realised(effects),
        "came_back": came_back if came_back.high_ms else None,
        "came_back_count": len(regressed),
        "is_realised": fixes.are_measured(effects),
        "quarter": words.quarter(quarter.start),
        "not_of_fixes": [name for name in filters if name not in fixes.NARROWS],
        "fixes": [(effect, title(effect.fix.cause)) for effect in effects[:TOP_FIXES]],
    }
