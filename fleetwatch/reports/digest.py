"""The weekly digest: which week, what it says, and the message. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from fleetwatch.figures import pricing
from fleetwatch.figures.totals import Group, Totals
from fleetwatch.lib.intervals import Interval
from fleetwatch.notify import wording
from fleetwatch.notify.message import Message, one_line

SEND_AT = time(9)  # Monday, the organisation's clock
TOP_ITEMS = 5
UNALLOCATED = "GPUs that no job held"


@dataclass(frozen=True, slots=True)
class WasteItem:
    """One of the biggest wasters of the week; dollars as a decimal string."""

    key: str
    name: str
    owner: str
    wasted_usd: str
    wasted_ms: int


@dataclass(frozen=True, slots=True)
class Figures:
    """A week in numbers; ratios 0 to 1, None = not known; dollars as decimal strings."""

    cost_usd: str
    wasted_usd: str
    wasted_ms: int
    capacity_ms: int
    busy_unverified_ms: int
    busy_unverified_usd: str
    wasted_share_of_observed: float | None
    spend_efficiency: float | None
    coverage: float | None
    unpriced_ms: int
    has_example_rates: bool


@dataclass(frozen=True, slots=True)
class Digest:
    """What is stored of a week and said about it."""

    week: str
    zone: str
    this: Figures
    before: Figures | None
    top: tuple[WasteItem, ...]

    def to_json(self) -> dict[str, Any]:
        """The digest as plain data, for the Report row."""
        return asdict(self)


def last_week(now: datetime, zone: ZoneInfo) -> Interval:
    """The last full week, Monday to Monday, of the zone; 167 or 169 hours where clocks change."""
    monday = _monday(now, zone)
    return Interval(_midnight(monday - timedelta(days=7), zone), _midnight(monday, zone))


def week_before(week: Interval, zone: ZoneInfo) -> Interval:
    """The week before that one."""
    return last_week(week.start, zone)


def is_due(now: datetime, zone: ZoneInfo) -> bool:
    """Whether this week's Monday 09:00 has come: a hub that was down then sends later in
    the week.
    """
    return now >= datetime.combine(_monday(now, zone), SEND_AT, tzinfo=zone)


def week_name(week: Interval, zone: ZoneInfo) -> str:
    """ISO week, e.g. 2026-W47."""
    year, number, _ = week.start.astimezone(zone).isocalendar()
    return f"{year}-W{number:02}"


def figures(totals: Totals) -> Figures:
    """The totals as the digest keeps them."""
    return Figures(
        cost_usd=str(pricing.usd(totals.cost_usd)),
        wasted_usd=str(pricing.usd(totals.wasted_usd)),
        wasted_ms=totals.wasted_ms,
        capacity_ms=totals.capacity_ms,
        busy_unverified_ms=totals.busy_only_ms,
        busy_unverified_usd=str(pricing.usd(totals.busy_only_usd)),
        wasted_share_of_observed=totals.wasted_share_of_observed,
        spend_efficiency=totals.spend_efficiency,
        coverage=totals.coverage,
        unpriced_ms=totals.unpriced_ms,
        has_example_rates=totals.has_example_rates,
    )


def top_items(groups: Sequence[Group], owners: Mapping[str, str]) -> tuple[WasteItem, ...]:
    """The biggest wasters of `groups` (by job, biggest first); `owners` by job key."""
    wasters = [group for group in groups if group.totals.wasted_ms > 0][:TOP_ITEMS]
    return tuple(
        WasteItem(
            key=group.key,
            name=group.label if group.key else UNALLOCATED,
            owner=owners.get(group.key) or ("platform" if not group.key else "nobody known"),
            wasted_usd=str(pricing.usd(group.totals.wasted_usd)),
            wasted_ms=group.totals.wasted_ms,
        )
        for group in wasters
    )


def message(digest: Digest, *, url: str) -> Message:
    """The digest for people: what it cost, what was wasted, by whom, and how much of it was
    seen.
    """
    this, before = digest.this, digest.before
    cost, wasted = Decimal(this.cost_usd), Decimal(this.wasted_usd)
    was_cost = Decimal(before.cost_usd) if before else None
    was_wasted = Decimal(before.wasted_usd) if before else None
    was_efficiency = before.spend_efficiency if before else None
    rows = [("Wasted", "GPU time", "Job", "Owner")]
    rows += [
        (
            wording.usd(Decimal(item.wasted_usd)),
            wording.gpu_hours(item.wasted_ms),
            one_line(item.name, 40),
            one_line(item.owner, 40),
        )
        for item in digest.top
    ]
    return Message(
        title=f"GPU week {digest.week}: {wording.usd(wasted)} wasted of {wording.usd(cost)}",
        summary=(
            f"{wording.share(this.wasted_share_of_observed)} of the observed GPU time was wasted"
            " (certain and probable)."
        ),
        fields=(
            ("Spend", f"{wording.usd(cost)} ({wording.change(cost, was_cost)})"),
            (
                "Wasted",
                (
                    f"{wording.usd(wasted)}, {wording.gpu_hours(this.wasted_ms)}"
                    f" ({wording.change(wasted, was_wasted)})"
                ),
            ),
            (
                "Spend efficiency",
                (
                    f"{wording.share(this.spend_efficiency)}"
                    f" ({wording.points(this.spend_efficiency, was_efficiency)})"
                ),
            ),
            *_unverified(this),
            ("Telemetry coverage", wording.share(this.coverage)),
        ),
        rows=tuple(rows) if digest.top else (),
        url=url,
        text="\n".join(_notes(digest)),
    )


def _unverified(this: Figures) -> tuple[tuple[str, str], ...]:
    """What only utilisation says is busy: of its efficiency nobody knows."""
    if not this.busy_unverified_ms:
        return ()
    amount = (
        f"{wording.usd(Decimal(this.busy_unverified_usd))},"
        f" {wording.gpu_hours(this.busy_unverified_ms)}"
    )
    return (
        (
            "Busy, unverified",
            f"{amount}: utilisation alone tells of it; left out of spend efficiency",
        ),
    )


def _notes(digest: Digest) -> list[str]:
    notes = [f"Compared with the week before. Weeks begin on Monday, {digest.zone}."]
    if digest.this.has_example_rates:
        notes.append("Dollars rest on example list prices: set your own under settings.")
    if digest.this.unpriced_ms:
        notes.append(
            f"{wording.gpu_hours(digest.this.unpriced_ms)} had no rate and are in no dollar figure."
        )
    return notes


def _monday(now: datetime, zone: ZoneInfo) -> date:
    """The Monday of the zone's week that `now` falls in."""
    today = now.astimezone(zone).date()
    return today - timedelta(days=today.weekday())


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time.min, tzinfo=zone).astimezone(UTC)
