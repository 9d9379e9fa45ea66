"""A team's statements month by month: the one of a month, what the months before it came to, and
who may decide about them.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models.fields.json import KeyTextTransform

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.people import leads
from fleetwatch.accounts.permissions import Right, may
from fleetwatch.accounts.selectors import zone
from fleetwatch.accounts.visibility import visible_teams
from fleetwatch.figures.pricing import EXACT
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.notify.models import Channel
from fleetwatch.notify.transports.delivery_log import DELIVERY_LOG, KEPT
from fleetwatch.reports import months
from fleetwatch.reports.models import Report, StatementRecipient
from fleetwatch.reports.monthly import STATEMENT
from fleetwatch.reports.selectors import SAID, visible
from fleetwatch.reports.statement import NO_USD, amount_or_none, summed

TREND_MONTHS = 6


@dataclass(frozen=True, slots=True)
class TeamMonth:
    """What a month came to: its newest version, and its change against the month before, None where
    that one is not there, or one of the two is not over.
    """

    name: str  # 2026-10
    report: Report
    cost_usd: Decimal
    wasted_usd: Decimal
    change_ratio: Decimal | None


@dataclass(frozen=True, slots=True)
class RateLine:
    """A GPU model's time on a statement, and what its hour cost, from the least to the most, and
    on average of what had a rate (None: nothing had).
    """

    gpu_model: str
    gpu_ms: int
    priced_ms: int
    least_usd: Decimal | None
    most_usd: Decimal | None
    usd_per_gpu_hour: Decimal | None
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class TeamLine:
    """A team's newest version in a month: `before_usd` is what it cost by then in the month before
    (None: that is not known), `approved_by` is "" where nobody approved it, and `recipients` names
    to whom it goes when the month is over: a channel, or an address by one.
    """

    slug: str
    name: str
    report: Report
    cost_usd: Decimal
    wasted_usd: Decimal | None
    before_usd: Decimal | None
    approved_by: str
    recipients: list[str]


def may_decide(user: User, team: Team, now: datetime) -> bool:
    """Whether the user sends and approves the team's statements: finance, and the team's leads."""
    return may(user, Right.MONEY) or leads(user, team, now)


def unreached(slugs: Collection[str]) -> dict[str, str]:
    """Those of the teams whose statements reach nobody when a month is over, each with why."""
    if not slugs:
        return {}
    rows = StatementRecipient.objects.filter(team__slug__in=slugs).select_related("channel", "team")
    by_team: dict[str, list[Channel]] = {slug: [] for slug in slugs}
    for row in rows:
        by_team[row.team.slug].append(row.channel)
    why = {slug: _why_nobody(channels) for slug, channels in by_team.items()}
    return {slug: reason for slug, reason in why.items() if reason}


def _why_nobody(channels: Sequence[Channel]) -> str:
    """Why what goes to these channels reaches nobody; "" where it reaches somebody."""
    if not channels:
        return "no recipient"
    ways = [channel for channel in channels if channel.kind != DELIVERY_LOG.kind]
    if not ways:
        return KEPT
    return "" if any(channel.is_enabled for channel in ways) else "its channel is switched off"


def newest(slug: str) -> list[TeamMonth]:
    """The newest version of each month's statement of the team that the reader sees, the newest
    month first.
    """
    rows: Iterable[Any] = (
        visible()
        .filter(kind=STATEMENT, subject=slug)
        .order_by("-start", "-version")
        .distinct("start")
        .annotate(
            wasted=KeyTextTransform("wasted_usd", KeyTextTransform("total", "content")),
        )
        .defer("content")
    )
    reports = list(rows)
    before = [*reports[1:], None][: len(reports)]
    return [
        TeamMonth(
            months.name_at(each.start, zone()),
            each,
            each.cost_usd,
            Decimal(each.wasted or 0),
            _change(each, previous),
        )
        for each, previous in zip(reports, before, strict=True)
    ]


def lines_of(start: datetime) -> list[TeamLine]:
    """The statements of the month that began then, of the teams that the reader sees, the dearest
    first.
    """
    names = {team.slug: team.label for team in visible_teams()}
    recipients = _recipients()
    newest_of: Iterable[Any] = (
        visible()
        .filter(kind=STATEMENT, start=start, subject__in=names)
        .order_by("subject", "-version")
        .distinct("subject")
        .select_related("approval")
        .annotate(**SAID)
        .defer("content")
    )
    lines = [
        TeamLine(
            slug=each.subject,
            name=names[each.subject],
            report=each,
            cost_usd=each.cost_usd or NO_USD,
            wasted_usd=amount_or_none(each.wasted),
            before_usd=amount_or_none(each.before),
            approved_by=each.approval.approved_by if hasattr(each, "approval") else "",
            recipients=recipients[each.subject],
        )
        for each in newest_of
    ]
    return sorted(lines, key=lambda line: (-line.cost_usd, line.slug))


def _recipients() -> Mapping[str, list[str]]:
    """By team to whom its statement goes, and of which nothing is sent."""
    by_team = defaultdict(list)
    rows = StatementRecipient.objects.order_by("channel__name", "address")
    for row in rows.select_related("team", "channel"):
        name = row.address or row.channel.name
        is_kept = row.channel.kind == DELIVERY_LOG.kind
        by_team[row.team.slug].append(f"{name} ({KEPT})" if is_kept else name)
    return by_team


def _change(month: Any, before: Any) -> Decimal | None:
    """None where the two are no whole months in a row, or the first was free."""
    is_over = months.name_at(month.end, zone()) != months.name_at(month.start, zone())
    if before is None or before.end != month.start or not is_over or not before.cost_usd:
        return None
    change: Decimal = month.cost_usd / before.cost_usd - 1
    return change


def trend(months_of: Sequence[TeamMonth], name: str) -> list[TeamMonth]:
    """The month of that name and the ones before it, six in all, the oldest first."""
    until = [each for each in months_of if each.name <= name]
    return until[:TREND_MONTHS][::-1]


def rate_lines(lines: Iterable[Mapping[str, Any]]) -> list[RateLine]:
    """By GPU model what its hours cost, dearest first; they sum to what the lines do."""
    by_model: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        by_model.setdefault(line["gpu_model"], []).append(line)
    rates = [_rate_line(model, held) for model, held in by_model.items()]
    return sorted(rates, key=lambda line: (-line.cost_usd, line.gpu_model))


def _rate_line(model: str, held: Sequence[Mapping[str, Any]]) -> RateLine:
    prices = [line["usd_per_gpu_hour"] for line in held if line["usd_per_gpu_hour"] is not None]
    least_usd = min(prices, default=None)
    most_usd = max(prices, default=None)
    priced_ms = sum(line["priced_ms"] for line in held)
    cost_usd = summed(line["cost_usd"] for line in held) if held else NO_USD
    return RateLine(
        model,
        sum(line["gpu_ms"] for line in held),
        priced_ms,
        least_usd,
        most_usd,
        least_usd if least_usd == most_usd else EXACT.divide(cost_usd * HOUR_MS, priced_ms),
        cost_usd,
    )
