"""Why a team, or the fleet, wasted in a month, and what was done about a team's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fleetwatch.accounts.models import Team
from fleetwatch.dashboard import words
from fleetwatch.dashboard.showing import Context
from fleetwatch.dashboard.waste_causes import CauseLine, cause_lines
from fleetwatch.diagnosis.causes import BY_CODE, UNDETERMINED, title
from fleetwatch.diagnosis.findings import fixes
from fleetwatch.diagnosis.findings.agreed_waste import largest_but
from fleetwatch.diagnosis.findings.inbox import AGREED, RECOVERABLE, agreed_causes, inbox
from fleetwatch.diagnosis.findings.realised import Outcome
from fleetwatch.figures import pricing
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import ZERO, Group, Scope, Totals, together
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports import printed
from fleetwatch.reports.selectors import by_cause
from fleetwatch.reports.statement import Shape

TOP_FIXES = 5
TRIFLE = 0.001  # of what was wasted: less says nothing on a line of its own


@dataclass(frozen=True, slots=True)
class WasteLine:
    """A cause with its dollars to the cent, one at least: the lines sum to what was wasted; what of
    them people agreed is no waste; `sentence` says what it is ("": nobody knows, or it is several).
    """

    cause: CauseLine
    wasted_usd: Decimal
    agreed_usd: Decimal

    @property
    def sentence(self) -> str:
        code = self.cause.group.key
        return BY_CODE[code].sentence if code in BY_CODE and not self.cause.parts else ""


def team_waste(
    team: Team, interval: Interval, now: datetime, zone: ZoneInfo, *, version_usd: Decimal
) -> Context:
    """What each cause took of the team's dollars in the interval as diagnosis has it now, and
    whether that is all of `version_usd`, the waste of a stored version; how its findings stand, and
    what the fixes of the quarter in which it ends were measured to save.
    """
    scope = Scope(team=team.slug)
    findings = inbox(interval, now=now, scope=scope)
    causes = _causes(interval, scope, findings.agreed_causes())
    counts = findings.counts()
    return {
        "of_team": f"&{urlencode({'team': team.slug})}",
        **causes,
        "is_of_version": causes["wasted_usd"] == version_usd,
        "standing": counts,
        "agreed_count": sum(counts[status] for status in AGREED),
        "agreed_usd": findings.agreed_usd,
        "agreed_jobs": findings.agreed_jobs(),
        "standing_at": now,
        "recoverable": findings.saving(*RECOVERABLE),
        "accepted": findings.saving("accepted"),
        **fixes_of_team(team, interval, zone),
    }


def fleet_waste(interval: Interval, total: Shape, now: datetime) -> Context:
    """The same causes of all the fleet's waste, beside the printed `total` of a stored version:
    where they are all of that, they sum to what it prints.
    """
    totals = costs.look(interval).totals()
    wasted_usd = pricing.usd(totals.wasted_usd, pricing.CENT)
    is_of_version = wasted_usd == pricing.usd(total["wasted_usd"], pricing.CENT)
    shown_usd = total["printed"]["wasted_usd"] if is_of_version else wasted_usd
    return {
        "of_team": "",
        **_lines(interval, Scope(), totals, shown_usd, agreed_causes(interval, now=now)),
        "is_of_version": is_of_version,
    }


def _causes(interval: Interval, scope: Scope, agreed: Mapping[str, Totals]) -> Context:
    totals = costs.look(interval, scope=scope).totals()
    wasted_usd = pricing.usd(totals.wasted_usd, pricing.CENT)
    return _lines(interval, scope, totals, wasted_usd, agreed)


def _lines(
    interval: Interval,
    scope: Scope,
    totals: Totals,
    wasted_usd: Decimal,
    agreed: Mapping[str, Totals],
) -> Context:
    """`agreed` by cause: without it the largest is told, which need not be the first line."""
    every = cause_lines(by_cause(interval, scope, totals), totals)
    lines = _without_trifles([line for line in every if line.group.totals.wasted_usd])
    most = _most([line.group for line in every if line.group.key], agreed)
    return {
        "wasted_usd": wasted_usd,
        "wasted_ms": totals.wasted_ms,
        "waste_lines": _to_the_cent(lines, wasted_usd, agreed),
        "most_wasted": most,
        "is_agreed_larger": _is_agreed(lines[:1], but=most, agreed=agreed),
    }


def _is_agreed(
    first: Sequence[CauseLine], *, but: Group | None, agreed: Mapping[str, Totals]
) -> bool:
    """Whether the first line is another one than that, by what of it is agreed."""
    return but is not None and any(
        line.group.key in agreed and line.group.key != but.key for line in first
    )


def _most(causes: Sequence[Group], agreed: Mapping[str, Totals]) -> Group | None:
    """What wasted most beside what of it is agreed, also where nobody knows the cause."""
    largest = largest_but({group.key: group.totals for group in causes}, agreed)
    unknown = next((group for group in causes if group.key == UNDETERMINED), None)
    if unknown is None or not unknown.totals.wasted_usd:
        return largest
    is_more = largest is None or unknown.totals.wasted_usd > largest.totals.wasted_usd
    return unknown if is_more else largest


def _without_trifles(lines: Sequence[CauseLine]) -> list[CauseLine]:
    """The causes, those of less than a trifle of the waste as one line where they are several."""
    small = [line for line in lines if line.share is not None and line.share < TRIFLE]
    if len(small) < 2:
        return list(lines)
    totals = together(line.group.totals for line in small)
    others = CauseLine(
        Group("", f"{len(small)} others, each below 0.1 %", totals),
        sum(line.share or 0.0 for line in small),
    )
    return [*(line for line in lines if line not in small), others]


def _to_the_cent(
    lines: Sequence[CauseLine], wasted_usd: Decimal, agreed: Mapping[str, Totals]
) -> list[WasteLine]:
    """Together `wasted_usd`: where that is itself the sum of rounded ones, and so many cents beside
    the lines that rounding can't reach it, the largest line has them.
    """
    dollars = [line.group.totals.wasted_usd for line in lines]
    parts = printed.apportioned(dollars, wasted_usd)
    if parts:
        parts[0] += wasted_usd - pricing.exact_sum(parts)
    return [
        WasteLine(line, usd, agreed[key].wasted_usd if key in agreed else ZERO)
        for line, usd in zip(lines, parts, strict=True)
        for key in [line.group.key]
        if usd
    ]


def fixes_of_team(team: Team, interval: Interval, zone: ZoneInfo) -> Context:
    """What the team's fixes of the quarter in which the interval ends were measured to save."""
    quarter = fixes.quarter(interval.end - timedelta(microseconds=1), zone)
    effects = fixes.top_fixes(quarter, {"team": team.slug})
    regressed = sum(each.fix.outcome == Outcome.REGRESSED for each in effects)
    return {
        "realised": fixes.realised(effects),
        "regressed": regressed,
        "fixes_count": len(effects),
        "quarter": words.quarter(quarter.start),
        "fixes": [(each, title(each.fix.cause)) for each in effects[:TOP_FIXES]],
    }
