"""The weekly digest: which week, what it says, and the message. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from decimal import Decimal
from zoneinfo import ZoneInfo

from fleetwatch.figures import boundaries, pricing
from fleetwatch.figures.totals import Group, Totals, nothing
from fleetwatch.lib.intervals import Interval
from fleetwatch.notify import wording
from fleetwatch.notify.message import Message, one_line
from fleetwatch.reports.statement import Shape

SEND_AT = time(9)  # Monday, the organisation's clock
TOP_ITEMS = 5
UNALLOCATED = "GPUs that no job held"
HEAD = ("Wasted", "GPU time", "Job", "Owner")
# of a week's totals, as they are
KEPT = (
    "wasted_ms",
    "capacity_ms",
    "wasted_share_of_observed",
    "spend_efficiency",
    "coverage",
    "unpriced_ms",
    "has_example_rates",
)

Fields = tuple[tuple[str, str], ...]  # what is told, and how much it is


@dataclass(frozen=True, slots=True)
class Digest:
    """What is stored of a week and said about it."""

    week: str
    zone: str
    this: Totals
    before: Totals | None  # None = no GPU was capacity
    top: list[Shape]  # the biggest wasters

    def content(self) -> Shape:
        """What the Report says."""
        return {
            "week": self.week,
            "zone": self.zone,
            "this": _figures(self.this),
            "before": self.before and _figures(self.before),
            "top": self.top,
        }


def last_week(now: datetime, zone: ZoneInfo) -> Interval:
    """The last full week, Monday to Monday, of the zone; 167 or 169 hours where clocks change."""
    weekday = now.astimezone(zone).weekday()
    return Interval(
        boundaries.midnight(now, zone, days=-weekday - 7),
        boundaries.midnight(now, zone, days=-weekday),
    )


def is_due(now: datetime, zone: ZoneInfo) -> bool:
    """Whether this week's Monday 09:00 has come: a hub that was down then sends later in
    the week.
    """
    monday = last_week(now, zone).end.astimezone(zone)
    return now >= datetime.combine(monday, SEND_AT, tzinfo=zone)


def week_name(week: Interval, zone: ZoneInfo) -> str:
    """ISO week, e.g. 2026-W47."""
    return f"{week.start.astimezone(zone):%G-W%V}"


def _figures(totals: Totals) -> Shape:
    """The totals as they are kept; None = not known."""
    dollars = {
        "cost_usd": totals.cost_usd,
        "wasted_usd": totals.wasted_usd,
        "busy_unverified_usd": totals.busy_only_usd,
    }
    return {
        **{name: pricing.usd(amount) for name, amount in dollars.items()},
        "busy_unverified_ms": totals.busy_only_ms,
        **{name: getattr(totals, name) for name in KEPT},
    }


def top_items(groups: Sequence[Group], owners: Mapping[str, str]) -> list[Shape]:
    """The biggest wasters of `groups` (by job, biggest first); `owners` by job key."""
    return [
        {
            "key": group.key,
            "name": group.label if group.key else UNALLOCATED,
            "owner": owners.get(group.key) or ("nobody known" if group.key else "platform"),
            "wasted_usd": pricing.usd(group.totals.wasted_usd),
            "wasted_ms": group.totals.wasted_ms,
        }
        for group in groups[:TOP_ITEMS]
        if group.totals.wasted_ms > 0
    ]


def message(digest: Digest, *, url: str) -> Message:
    """The digest for people: what it cost, what was wasted, by whom, and how much of it was
    seen.
    """
    this = digest.this
    return Message(
        title=(
            f"GPU week {digest.week}: {wording.usd(pricing.usd(this.wasted_usd))} wasted of"
            f" {wording.usd(pricing.usd(this.cost_usd))}"
        ),
        summary=(
            f"{wording.share(this.wasted_share_of_observed)} of the observed GPU time was wasted"
            " (certain and probable)."
        ),
        # with nothing there is nothing to compare
        fields=_fields(this, digest.before or nothing()),
        rows=(HEAD, *map(_row, digest.top)) if digest.top else (),
        url=url,
        text="\n".join(_notes(digest)),
    )


def _fields(this: Totals, before: Totals) -> Fields:
    cost = pricing.usd(this.cost_usd)
    wasted = pricing.usd(this.wasted_usd)
    cost_change = wording.change(cost, pricing.usd(before.cost_usd))
    waste_change = wording.change(wasted, pricing.usd(before.wasted_usd))
    efficiency_change = wording.points(this.spend_efficiency, before.spend_efficiency)
    return (
        ("Spend", f"{wording.usd(cost)} ({cost_change})"),
        ("Wasted", f"{_amount(wasted, this.wasted_ms)} ({waste_change})"),
        ("Spend efficiency", f"{wording.share(this.spend_efficiency)} ({efficiency_change})"),
        *_unverified(this),
        ("Telemetry coverage", wording.share(this.coverage)),
    )


def _row(item: Shape) -> tuple[str, ...]:
    return (
        wording.usd(item["wasted_usd"]),
        wording.gpu_hours(item["wasted_ms"]),
        one_line(item["name"], 40),
        one_line(item["owner"], 40),
    )


def _unverified(this: Totals) -> Fields:
    """What only utilisation says is busy: of its efficiency nobody knows."""
    if not this.busy_only_ms:
        return ()
    amount = _amount(pricing.usd(this.busy_only_usd), this.busy_only_ms)
    return (
        (
            "Busy, unverified",
            f"{amount}: utilisation alone tells of it; left out of spend efficiency",
        ),
    )


def _amount(usd: Decimal, gpu_ms: int) -> str:
    return f"{wording.usd(usd)}, {wording.gpu_hours(gpu_ms)}"


def _notes(digest: Digest) -> list[str]:
    notes = [f"Compared with the week before. Weeks begin on Monday, {digest.zone}."]
    if digest.this.has_example_rates:
        notes.append("Dollars rest on example list prices: set your own under settings.")
    if digest.this.unpriced_ms:
        notes.append(
            f"{wording.gpu_hours(digest.this.unpriced_ms)} had no rate and are in no dollar figure."
        )
    return notes
