"""The weekly digest of the fleet, a team or a person: which week, whether there is anything to say,
and the message. Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from fleetwatch.budgets import month_end
from fleetwatch.figures import boundaries, pricing
from fleetwatch.figures.totals import Totals, nothing
from fleetwatch.lib.intervals import Interval
from fleetwatch.notify import wording
from fleetwatch.notify.message import Listing, Message, one_line
from fleetwatch.reports import months
from fleetwatch.reports.digest_lists import PEOPLE, by_step, could_save, lists
from fleetwatch.reports.statement import Shape

FLEET = "weekly_digest"  # the kinds of their Reports
TEAM = "team_digest"
PERSON = "person_digest"
KINDS = (FLEET, TEAM, PERSON)
SEND_AT = time(9)  # Monday, by the clock of who gets it
TOP_CAUSES = 5
TOP_TEAMS = 5  # named in a message
TEAMS = "Teams"  # the field that names them
NEWS = 0.01  # of the week before: what changed by no more is no news
LEAST_TOLD = 0.001  # of the time: less would be read as 0.0 GPU-h
FULL_COVERAGE = 0.95  # below it what nobody saw is worth a sentence
NO_EARLIER = "no earlier week to compare"
# where it is said who gets one
SETTINGS = {FLEET: "/settings/channels", TEAM: "/alerts/routes", PERSON: "/me#notifications"}
HEAD = ("Could save", "Cause", "Job or node", "Owner")
RISKS = {
    month_end.OVER: "it is passed",
    month_end.WILL_EXCEED: "it will be passed",
    month_end.MAY_EXCEED: "it may be passed",
    month_end.WITHIN: "within it",
    month_end.PARTIAL: "days missing",
    month_end.UNKNOWN: "no forecast yet",
}
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
    """What is stored of a week and said about it.

    `kind` is one of KINDS, `name` of whom it is, "" for the fleet's. `before` None: no GPU was
    capacity; `before_from` is when recording began, None: before that week. `causes` are what could
    save most, with owner and first step; `budget` is the running month's, None without one; `won`
    what the quarter's fixes saved, None without a fix; `incidents` those that fired in the week.
    """

    kind: str
    name: str
    week: str
    zone: str
    this: Totals
    before: Totals | None
    before_from: datetime | None
    causes: list[Shape]
    budget: Shape | None
    won: Shape | None
    incidents: Shape
    teams: Sequence[Shape] = ()  # of the fleet's: lines that sum to what was spent, dearest first
    people: Sequence[Shape] = ()  # of a team's: lines that sum to it, who wasted most first

    @property
    def has_news(self) -> bool:
        """Whether anything is other than the week before: GPU time, dollars spent or wasted by more
        than 1 %, or the useful share of cost by more than a point.
        """
        if self.before is None or self.before_from is not None:
            return True
        both = zip(_amounts(self.this), _amounts(self.before), strict=True)
        return any(_differs(*pair) for pair in both) or _is_other_share(
            self.this.spend_efficiency, self.before.spend_efficiency
        )

    def content(self) -> Shape:
        """What the Report says, but for the message."""
        return {
            "week": self.week,
            "zone": self.zone,
            "name": self.name,
            "has_news": self.has_news,
            "this": _figures(self.this),
            "before": self.before and _figures(self.before),
            "causes": self.causes,
            "budget": self.budget,
            "won": self.won,
            "incidents": self.incidents,
            "teams": list(self.teams),
            "people": list(self.people),
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
    return last_due(now, zone) >= last_week(now, zone).end


def last_due(now: datetime, zone: ZoneInfo) -> datetime:
    """The last Monday 09:00 that has come."""
    monday = last_week(now, zone).end.astimezone(zone)
    due = datetime.combine(monday, SEND_AT, tzinfo=zone)
    return due if due <= now else due - timedelta(days=7)


def week_name(week: Interval, zone: ZoneInfo) -> str:
    """ISO week, e.g. 2026-W47."""
    return f"{week.start.astimezone(zone):%G-W%V}"


def days_of(week: str) -> str:
    """The days of an ISO week as people say them: "16 to 22 Nov 2026"; in ASCII, for subjects."""
    year, _, number = week.partition("-W")
    first = date.fromisocalendar(int(year), int(number), 1)
    last = first + timedelta(days=6)
    if first.year != last.year:
        return f"{first:%-d %b %Y} to {last:%-d %b %Y}"
    month = "" if first.month == last.month else f" {first:%b}"
    return f"{first:%-d}{month} to {last:%-d %b %Y}"


def _lists(digest: Digest, url: str, base: str) -> tuple[Listing, ...]:
    is_own = digest.kind == PERSON
    return tuple(
        lists(digest.causes, digest.teams, digest.people, is_own=is_own, url=url, base=base)
    )


def message(digest: Digest, *, url: str, base: str = "") -> Message:
    """The digest for people: what it cost, what was wasted and why, what to do first, and how much
    of it was seen. `url` is its page, `base` where our pages are.
    """
    this = digest.this
    return Message(
        title=f"{_whose(digest)}, {days_of(digest.week)}: {_headline(this)}",
        summary=(
            f"{could_save(digest.causes)}{wording.share(this.wasted_share_of_observed)} of the"
            " observed GPU time was wasted (certain and probable)."
        ),
        fields=_fields(digest),
        rows=_table(digest),
        url=url,
        text="\n".join(filter(None, [*_suggestions(digest.causes), *_notes(digest)])),
        settings_url=f"{base}{SETTINGS[digest.kind]}",
        lists=_lists(digest, url, base),
        notes="\n".join(_notes(digest)),
    )


def footnotes(text: str, causes: Sequence[Shape]) -> list[str]:
    """The lines of a message's text that advise nothing: what its figures rest on."""
    advice = {line for cause in causes for line in _advice_on(cause)}
    return [line for line in text.splitlines() if line not in advice]


def _advice_on(cause: Shape) -> tuple[str, ...]:
    """What a message may say to do about it, wherever it stands."""
    step = f"{one_line(cause['name'], 40)}: {one_line(cause['step'], 300)}"
    return f"Begin with {step}", f"Then {step}", one_line(cause["command"], 120)


def _whose(digest: Digest) -> str:
    name = one_line(digest.name, 60)
    return {FLEET: "GPU week", TEAM: f"GPU week of {name}", PERSON: "Your GPU week"}[digest.kind]


def _headline(this: Totals) -> str:
    """What was wasted of what, in GPU time where nothing has a rate."""
    cost = _usd(this, this.cost_usd)
    if cost is None:
        return (
            f"{wording.gpu_hours(this.wasted_ms)} wasted of {wording.gpu_hours(this.capacity_ms)}"
        )
    return f"{wording.usd(_usd(this, this.wasted_usd))} wasted of {wording.usd(cost)}"


def _usd(totals: Totals, amount: Decimal) -> Decimal | None:
    """The amount as it is told; None where nothing has a rate: no dollar is known then, not 0."""
    has_dollars = totals.unpriced_ms < totals.capacity_ms or not totals.capacity_ms
    return pricing.usd(amount) if has_dollars else None


def _amounts(totals: Totals) -> tuple[Decimal, ...]:
    return Decimal(totals.capacity_ms), totals.cost_usd, totals.wasted_usd


def _differs(this: Decimal, before: Decimal) -> bool:
    return abs(this - before) > abs(before) * Decimal(str(NEWS))


def _is_other_share(this: float | None, before: float | None) -> bool:
    if this is None or before is None:
        return this is not before
    return round(abs(this - before), 9) > NEWS  # of floats: 0.51 - 0.5 is a point


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


def _fields(digest: Digest) -> Fields:
    this = digest.this
    before = digest.before or nothing()  # with nothing there is nothing to compare
    short = _short_week(digest)
    spend, wasted = _dollars(this, before, short)
    return (
        ("Spend", spend),
        *_budget(digest.budget),
        ("Wasted", wasted),
        *_teams(digest.teams),
        *_people(digest.people),
        ("Useful share of cost", _efficiency(this, before, is_alone=bool(short))),
        *_unverified(this),
        *savings_won(digest.won),
        *_incidents(digest.incidents),
        ("Telemetry coverage", wording.share(this.coverage)),
    )


def _dollars(this: Totals, before: Totals, short: str) -> tuple[str, str]:
    """What was spent and wasted, each with its change; `short`: what is said once instead of
    them.
    """
    cost = _usd(this, this.cost_usd)
    wasted = _usd(this, this.wasted_usd)
    amount = _amount(wasted, this.wasted_ms)
    if short:
        return _beside(wording.usd(cost), short), amount
    cost_change = wording.change(cost, _usd(before, before.cost_usd))
    waste_change = wording.change(wasted, _usd(before, before.wasted_usd))
    return _beside(wording.usd(cost), cost_change), _beside(amount, waste_change)


def _beside(amount: str, change: str) -> str:
    """With its change in parentheses, where there is one."""
    return f"{amount} ({change})" if change else amount


def _short_week(digest: Digest) -> str:
    """What is said instead of a change where the week before was recorded in part; "" else."""
    if digest.before_from is None:
        return ""
    began = digest.before_from.astimezone(ZoneInfo(digest.zone))
    end = boundaries.midnight(began, ZoneInfo(digest.zone), days=7 - began.weekday())
    days = (end - began) // timedelta(days=1)
    return f"the week before has only {days} of 7 days" if days else NO_EARLIER


def _teams(teams: Sequence[Shape]) -> Fields:
    """The dearest teams in one line; a page has all of them as a table."""
    if not teams:
        return ()
    named = [
        f"{one_line(team['name'], 40)} {wording.usd(team['cost_usd'])}"
        for team in teams[:TOP_TEAMS]
    ]
    return ((TEAMS, ", ".join(named) + _more(teams[TOP_TEAMS:])),)


def _people(people: Sequence[Shape]) -> Fields:
    """Who of a team wasted most, in one line."""
    wasting = [each for each in people if Decimal(each["wasted_usd"])][:TOP_TEAMS]
    named = [
        f"{one_line(each['name'], 40)} {wording.usd(Decimal(each['wasted_usd']))} wasted"
        for each in wasting
    ]
    return ((PEOPLE, ", ".join(named)),) if named else ()


def _more(teams: Sequence[Shape]) -> str:
    """How many more there are, and what they spent."""
    if not teams:
        return ""
    usd = pricing.exact_sum(Decimal(team["cost_usd"]) for team in teams)
    return f" and {len(teams)} more, {wording.usd(usd)}"


def _efficiency(this: Totals, before: Totals, *, is_alone: bool) -> str:
    """With its change, unless there is no whole week to compare with."""
    share = wording.share(this.spend_efficiency)
    change = wording.points(this.spend_efficiency, before.spend_efficiency)
    return share if is_alone else _beside(share, change)


def _budget(budget: Shape | None) -> Fields:
    if budget is None:
        return ()
    spent = f"{wording.usd(budget['spent_usd'])} of {wording.usd(budget['budget_usd'])}"
    expected = budget["expected_usd"]
    ahead = "" if expected is None else f"{_ahead(budget)} expected at its end, "
    month = months.in_words(budget["month"])
    until = f"{date.fromisoformat(budget['until']):%-d %b}"
    return (
        (f"Budget {month}", f"{spent} by {until}: {ahead}{RISKS[budget['risk']]}{_also(budget)}"),
    )


def _also(budget: Shape) -> str:
    """What else its reader has to know of the budget."""
    is_partial = budget.get("is_partial") and budget["risk"] != month_end.PARTIAL
    partial = f"; {RISKS[month_end.PARTIAL]}" if is_partial else ""
    later = "; the budget was set after the week" if budget.get("is_set_later") else ""
    return partial + later


def _ahead(budget: Shape) -> str:
    """What is expected, with its range where that is kept."""
    expected = wording.about(budget["expected_usd"])
    if budget.get("low_usd") is None:
        return expected
    return f"{expected} ({wording.between(budget['low_usd'], budget['high_usd'])})"


def savings_won(won: Shape | None) -> Fields:
    """What fixes of the quarter saved, to which day, and how many of them held for a while."""
    if won is None:
        return ()
    fixes = wording.counted(won["fixes"], "fix", "fixes")
    made_by, measured_to = (
        f"{date.fromisoformat(won[name]):%-d %b}" for name in ("made_by", "measured_to")
    )
    made = f"by {fixes} made in {won['quarter']} until {made_by}"
    by = f"{made}, measured until {measured_to}{_came_back(won)}"
    if not won["high_ms"]:
        return (("Savings won", f"utilisation improved {by}"),)
    saved = wording.between(won["low_usd"], won["high_usd"])
    return (("Savings won", f"{saved}, up to {wording.gpu_hours(won['high_ms'])}, {by}"),)


def _came_back(won: Shape) -> str:
    """How many of the fixes held for a while alone, as of the day to which they are measured."""
    back = won.get("came_back", 0)
    if not back:
        return ""
    is_only_one = back == won["fixes"] == 1
    if is_only_one:
        return "; then its waste came back"
    return f"; the waste of {back} of them came back, which counts until then"


def _incidents(incidents: Shape) -> Fields:
    """Nothing where none fired and no rule watched yet."""
    if not incidents["count"] and not incidents["is_watched"]:
        return ()
    return (("Incidents", _acknowledged(incidents)),)


def _acknowledged(incidents: Shape) -> str:
    count = incidents["count"]
    if not count:
        return "none"
    if not incidents["acknowledged"]:
        return f"{count}, none acknowledged"
    mean = wording.duration(incidents["acknowledge_ms"] // incidents["acknowledged"])
    return f"{count}, {incidents['acknowledged']} acknowledged after {mean} on average"


def _unverified(this: Totals) -> Fields:
    """What only utilisation says is busy, where it is no trifle: of its efficiency nobody knows."""
    if this.busy_only_ms < this.capacity_ms * LEAST_TOLD:
        return ()
    amount = _amount(_usd(this, this.busy_only_usd), this.busy_only_ms)
    return (
        (
            "Busy, unverified",
            f"{amount}: utilisation alone tells of it; left out of the useful share",
        ),
    )


def _amount(usd: Decimal | None, gpu_ms: int) -> str:
    hours = wording.gpu_hours(gpu_ms)
    return hours if usd is None else f"{wording.usd(usd)}, {hours}"


def _table(digest: Digest) -> tuple[tuple[str, ...], ...]:
    """The causes; a person's are all his own."""
    rows = [HEAD, *map(_row, digest.causes)]
    if digest.kind == PERSON:
        rows = [row[:-1] for row in rows]
    return tuple(rows) if digest.causes else ()


def _row(cause: Shape) -> tuple[str, ...]:
    return (
        wording.between(cause["low_usd"], cause["high_usd"]),
        cause["title"],
        one_line(cause["name"], 40),
        one_line(cause["owner"], 40),
    )


def _notes(digest: Digest) -> list[str]:
    this = digest.this
    notes = [
        f"{_compared_with(digest)}Weeks begin on Monday, {digest.zone}.",
        *_before_in_part(digest),
    ]
    if this.coverage is not None and this.coverage < FULL_COVERAGE:
        notes.append(
            f"{wording.share(1 - this.coverage)} of the GPU time nobody saw: it is in what was"
            " spent, and in no waste."
        )
    if this.has_example_rates:
        notes.append("Dollars rest on example list prices: set your own under Pricing.")
    if this.unpriced_ms:
        notes.append(f"{wording.gpu_hours(this.unpriced_ms)} had no rate: in no dollar figure.")
    return list(filter(None, notes))


def _compared_with(digest: Digest) -> str:
    is_compared = digest.before is not None and digest.before_from is None
    return "Compared with the week before. " if is_compared else ""


def _before_in_part(digest: Digest) -> Iterable[str]:
    """What of the week before nobody recorded, or saw: so much less there was to compare with."""
    if digest.before is None:
        return
    if digest.before_from is not None:
        since = digest.before_from.astimezone(ZoneInfo(digest.zone))
        yield f"Of the week before only what is after {since:%A %H:%M} was recorded."
    if digest.before.coverage is not None and digest.before.coverage < FULL_COVERAGE:
        unseen = wording.share(1 - digest.before.coverage)
        yield f"Of the week before nobody saw {unseen} of the GPU time: its waste may be more."


def _suggestions(causes: Sequence[Shape]) -> list[str]:
    """What to do first, with what to type, and what then; a step that helps several once."""
    if not causes:
        return []
    first, *others = (several[0] for several in by_step(causes))
    begin = f"Begin with {one_line(first['name'], 40)}: {one_line(first['step'], 300)}"
    typed = one_line(first["command"], 120)
    then = [f"Then {one_line(each['name'], 40)}: {one_line(each['step'], 300)}" for each in others]
    return [begin, typed, *then]
