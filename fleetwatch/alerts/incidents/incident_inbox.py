"""The inbox of incidents: which of them a reader sees, narrowed and in order, page by page."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    DecimalField,
    F,
    Min,
    Q,
    QuerySet,
    Sum,
    Value,
    When,
)
from django.db.models.expressions import Combinable
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce, Greatest, Round
from django.db.models.lookups import GreaterThan

from fleetwatch.accounts.colleagues import known
from fleetwatch.accounts.models import User
from fleetwatch.accounts.visibility import sight
from fleetwatch.alerts.incidents.muting import ACCEPTED, EXEMPT
from fleetwatch.alerts.models import Incident, Severity
from fleetwatch.alerts.selectors import IncidentView, views_of, visible_incidents
from fleetwatch.lib.intervals import HOUR_MS

State = Incident.State
MICRO = 1_000_000
BURNING = 10**15  # micro-dollars: what burns comes before what cost less than a billion dollars
CRITICAL = 10**17  # micro-dollars: before all that burns
NO_DOLLARS = -1  # micro-dollars of what has no rate: behind all that has one
MAX_NUMBER = 2**63
MAX_OWNED = 1000  # incidents whose owners a list can be narrowed to
ZERO = Decimal(0)
DOLLARS: "DecimalField[Decimal, Decimal]" = DecimalField(max_digits=18, decimal_places=6)
IS_ACCEPTED = Q(muted__startswith=ACCEPTED, state__in=(State.FIRING, State.ACKNOWLEDGED))
# of those that are over: somebody said so then, or of it since
WAS_ACCEPTED = Q(state=State.RESOLVED) & (
    Q(verdict=Incident.Verdict.REJECTED)
    | Q(muted__startswith=ACCEPTED)
    | Q(muted__startswith=EXEMPT)
)
OPEN_STATES = ("firing", "acknowledged", "snoozed", "accepted", "pending")
STATES = (*OPEN_STATES, "resolved")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an inbox is narrowed to; "" and None narrow nothing. `person` is an account's user name,
    or an owner's (see owners()); `mine` are those of this person, or given to this person.
    """

    team: str = ""
    person: str = ""
    rule: str = ""
    severity: str = ""
    mine: User | None = None


@dataclass(frozen=True, slots=True)
class InboxPage:
    """Some incidents in order; `after` makes the next page and is "" on the last."""

    lines: list[IncidentView]
    after: str


def narrowed_to(wanted: Wanted) -> QuerySet[Incident]:
    """Those that the reader sees and asks for."""
    given = {
        "team__slug": wanted.team,
        "rule__pk": wanted.rule,
    }
    rows = visible_incidents().filter(**{name: value for name, value in given.items() if value})
    if wanted.severity:
        rows = rows.filter(of_severity(wanted.severity))
    if wanted.person:
        rows = rows.filter(of_person(wanted.person) | of_owner(wanted.person))
    if wanted.mine is None:
        return rows
    return rows.filter(Q(person=wanted.mine) | Q(assignee=wanted.mine))


def of_severity(severity: str) -> Q:
    """Those of it, as Incident.severity has it."""
    passes = GreaterThan(_usd("facts__spent_usd"), _usd("facts__budget_usd"))
    is_over = Q(passes, facts__facts__has_keys=["spent_usd", "budget_usd"])
    if severity == Severity.CRITICAL:
        return Q(rule__severity=severity) | is_over
    return Q(rule__severity=severity) & ~is_over


def of_person(name: str) -> Q:
    """Those of the person of that user name, if the reader knows one."""
    return Q(person__in=known(User.objects.filter(username=name)))


def of_owner(name: str) -> Q:
    """Those whose holder the scheduler or the node calls so, if the reader knows the holder."""
    return Q(facts__contains={"labels": {"user": [name]}}) & _of_known_owners()


def owners(rows: QuerySet[Incident]) -> list[str]:
    """What the holders of the newest of them are called, in order."""
    newest = rows.filter(_of_known_owners()).order_by("-pk")[:MAX_OWNED]
    users = newest.values_list("facts__labels__user", flat=True)
    return sorted({name for names in users for name in names or ()})


def _of_known_owners() -> Q:
    """To who does not see everything an incident may be given whose owner is of another team."""
    seen = sight()
    return Q() if seen is None else Q(person=seen.user_id) | Q(team__in=seen.team_ids)


def in_state(state: str, now: datetime) -> Q:
    """Those in one of STATES: what was said to be no waste is in no other while it goes on, and
    still in that state once it is over; what is snoozed is neither firing nor acknowledged
    meanwhile.
    """
    if state == "accepted":
        return IS_ACCEPTED | WAS_ACCEPTED
    is_snoozed = Q(snoozed_until__gt=now) & ~Q(state=State.RESOLVED)
    which = is_snoozed if state == "snoozed" else Q(state=state) & ~is_snoozed
    return which & ~IS_ACCEPTED


def counts(rows: QuerySet[Incident], now: datetime) -> dict[str, int]:
    """How many are in each state but resolved; of what was said to be no waste too, those that are
    over are not counted.
    """
    states = {state: Count("pk", filter=in_state(state, now)) for state in OPEN_STATES}
    counted: dict[str, int] = rows.exclude(state=State.RESOLVED).aggregate(**states)
    return counted


def state_counts(rows: QuerySet[Incident], now: datetime) -> dict[str, int]:
    """How many are in each of STATES, each counted once: those that are over as resolved, and of
    these beside it how many `were_accepted`.
    """
    states = {state: Count("pk", filter=in_state(state, now)) for state in STATES}
    once = {"accepted": Count("pk", filter=IS_ACCEPTED)}
    counted: dict[str, int] = rows.aggregate(
        **(states | once), were_accepted=Count("pk", filter=WAS_ACCEPTED)
    )
    return counted


@dataclass(frozen=True, slots=True)
class OpenSums:
    """What goes on: dollars so far and an hour, of those whose GPUs have a rate (None: of none);
    of what has no data now nothing burns that is known. `accepted`: how many more were accepted
    with a reason, which are in nothing else.
    """

    count: int
    accepted: int
    cost_usd: Decimal | None
    usd_per_hour: Decimal | None
    unpriced: int
    oldest_ms: int | None


def open_sums(rows: QuerySet[Incident], now: datetime) -> OpenSums:
    """Of those that fire, acknowledged and snoozed ones among them; what is snoozed is no
    dollars that somebody has to end, neither an hour nor so far; what stopped is none an hour.
    """
    going_on = rows.filter(state__in=(State.FIRING, State.ACKNOWLEDGED))
    is_waste = ~IS_ACCEPTED
    is_left = is_waste & ~_is_put_off(now)
    is_unpriced = Q(facts__cost_usd=None, facts__has_cost=True)
    return OpenSums(
        **going_on.aggregate(
            count=Count("pk", filter=is_waste),
            accepted=Count("pk", filter=IS_ACCEPTED),
            cost_usd=Sum(_cost_usd(), filter=is_left),
            usd_per_hour=Sum(_usd("usd_per_hour"), filter=is_left & Q(note="")),
            unpriced=Count("pk", filter=is_left & is_unpriced),
            oldest_ms=Min("since_ms", filter=is_waste),
        )
    )


def _is_put_off(now: datetime) -> Q:
    return Q(snoozed_until__isnull=False, snoozed_until__gt=now)


@dataclass(frozen=True, slots=True)
class OverSums:
    """What is resolved: how many in all, how many since a moment, and the dollars of these;
    `accepted`: how many of all were said to be no waste.
    """

    count: int
    lately: int
    usd: Decimal | None
    accepted: int


def over_sums(rows: QuerySet[Incident], since: datetime) -> OverSums:
    """Of those that are resolved, and lately: since then."""
    is_lately = Q(resolved_at__gte=since)
    return OverSums(
        **rows.filter(state=State.RESOLVED).aggregate(
            count=Count("pk"),
            lately=Count("pk", filter=is_lately),
            usd=Sum(_cost_usd(), filter=is_lately),
            accepted=Count("pk", filter=WAS_ACCEPTED),
        )
    )


def page_of_incidents(rows: QuerySet[Incident], *, sort: str, after: str, size: int) -> InboxPage:
    """The page after the cursor; a bad cursor is the start. `sort` is one of PLACES."""
    ordered = rows.annotate(hourly=_usd("usd_per_hour")).annotate(place=PLACES[sort]())
    cursor = read_cursor(after)
    if cursor is not None:
        place, pk = cursor
        ordered = ordered.filter(Q(place__lt=place) | Q(place=place, pk__lt=pk))
    fetched = list(ordered.order_by("-place", "-pk")[: size + 1])
    shown = fetched[:size]
    more = f"{shown[-1].place}~{shown[-1].pk}" if len(fetched) > size else ""
    return InboxPage(views_of(shown), more)


def read_cursor(after: str) -> tuple[int, int] | None:
    """The place and the id after which a page starts; None for what is no cursor of ours."""
    try:
        numbers = [int(part) for part in after.split("~")]
    except ValueError:
        return None
    is_ours = len(numbers) == 2 and all(abs(number) < MAX_NUMBER for number in numbers)
    return (numbers[0], numbers[1]) if is_ours else None


def _usd(name: str) -> Cast:
    """Dollars of a breach; null where they are not known."""
    return Cast(KT(f"facts__{name}"), DOLLARS)


def _cost_usd() -> Combinable:
    """Dollars of a breach until it was judged last, as Breach.judged_until() has them."""
    counted_ms = Cast(KT("facts__counted_until_ms"), BigIntegerField())
    more_ms = Greatest(F("until_ms") - counted_ms, Value(0))
    more = Round(_usd("usd_per_hour") * Cast(more_ms, DOLLARS) / HOUR_MS, 6)
    return _usd("cost_usd") + Coalesce(more, ZERO)


def _micro(usd: Combinable) -> Coalesce:
    """Micro-dollars of a breach."""
    micro = Cast(usd * MICRO, BigIntegerField())
    return Coalesce(micro, Value(NO_DOLLARS))


def _dollars() -> Coalesce:
    """What a breach cost, and of a budget by how much it is passed; null where it has neither."""
    spent = Coalesce(_usd("facts__spent_usd"), _usd("facts__expected_usd"))
    return Coalesce(_cost_usd(), spent - _usd("facts__budget_usd"))


def _burning() -> Case:
    """What burns now by dollars per hour, before all else by dollars."""
    burns = Q(ended_ms=None, note="", hourly__gt=0)
    hourly = Cast(F("hourly") * MICRO + BURNING, BigIntegerField())
    return Case(
        When(burns, then=hourly), default=_micro(_dollars()), output_field=BigIntegerField()
    )


def _critical() -> Case:
    """What is critical, before all else; each in the order of what burns."""
    return Case(
        When(of_severity(Severity.CRITICAL), then=_burning() + CRITICAL),
        default=_burning(),
        output_field=BigIntegerField(),
    )


# by what a list is in order, the largest first; what is pending has not fired yet
PLACES: dict[str, Callable[[], Coalesce | Case]] = {
    "burning": _burning,
    "newest": lambda: Coalesce("fired_ms", "since_ms"),
    "dearest": lambda: _micro(_dollars()),
    "hourly": lambda: _micro(F("hourly")),
    "critical": _critical,
}
