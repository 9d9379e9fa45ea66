"""Incidents of a policy as its ladder sees them, read anew before each step."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from django.db.models import Count, Sum, prefetch_related_objects

from fleetwatch.actions.action_policies import is_dry_run
from fleetwatch.actions.awake import awake_for
from fleetwatch.actions.decision import (
    Course,
    Decision,
    LastHour,
    Limits,
    Standing,
    Step,
    first_of,
    next_step,
    refusals,
)
from fleetwatch.actions.kind import Kind, Place, Reader, Subject
from fleetwatch.actions.kinds import kind_of
from fleetwatch.actions.models import Action, Policy
from fleetwatch.alerts import matchers
from fleetwatch.alerts.breach import Breach, stored_breach
from fleetwatch.alerts.incidents.muted_incidents import mute_reasons
from fleetwatch.alerts.messaging.address_book import AddressBook, Person, read_address_book
from fleetwatch.alerts.messaging.notifications import habits_of
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.weekly_hours import Hours
from fleetwatch.lib.intervals import to_ms
from fleetwatch.notify.models import Channel, Delivery

HOUR = timedelta(hours=1)
State = Action.State
WAITING = (State.WARNED, State.WARNED_AGAIN)
ACTED = (State.ORDERED, State.DONE, State.REFUSED, State.UNHEARD, State.WOULD)
DRY_RUN_OVER = "the dry run is over"
DRY_RUN_AGAIN = "it is a dry run again"
OTHERS = "its owner is not the one who was warned"
ASKED = "its node's agent was asked, and has not answered yet"
UNWATCHED = "its rule does not watch it any more"
NO_WEBHOOK = "its webhook is switched off"


@dataclass(frozen=True, slots=True)
class Case:
    """An incident with what is to be done about it; `ladder` None: none goes on. `person` None: it
    is nobody's, or whose it is has no account. `places` is where is warned.
    """

    policy: Policy
    kind: Kind
    incident: Incident
    breach: Breach
    subject: Subject
    person: Person | None
    places: tuple[Place, ...]
    ladder: Action | None
    decision: Decision
    is_dry_run: bool


def limits_of(policy: Policy) -> Limits:
    """What the policy allows."""
    return Limits(
        first_wait=timedelta(minutes=policy.first_wait_minutes),
        second_wait=timedelta(minutes=policy.second_wait_minutes),
        max_per_hour=policy.max_per_hour,
        max_usd_per_hour=policy.max_usd_per_hour,
    )


def read_cases(policy: Policy, incidents: Sequence[Incident], now: datetime) -> list[Case]:
    """Each of these incidents of the policy's rule, as it stands at this moment."""
    return list(map(case_reader(policy, incidents, now), incidents))


def case_reader(
    policy: Policy, incidents: Sequence[Incident], now: datetime
) -> Callable[[Incident], Case]:
    """What gives each of these incidents as it stands; what they need is read once for all."""
    return partial(_case, _read_beside(policy, incidents, now))


@dataclass(frozen=True, slots=True)
class _Beside:
    """What is read once for several incidents: by incident its id, by delivery its key."""

    policy: Policy
    kind: Kind
    now: datetime
    is_dry_run: bool
    limits: Limits
    last_hour: LastHour
    muted: Mapping[int, str]
    book: AddressBook
    read: Reader
    ladders: Mapping[int, Sequence[Action]]
    arrived: Mapping[str, datetime]

    def ladder(self, incident: Incident) -> Action | None:
        """The one that goes on."""
        going_on = (each for each in self.ladders.get(incident.pk, ()) if each.ended_at is None)
        return next(going_on, None)


def _read_beside(policy: Policy, incidents: Sequence[Incident], now: datetime) -> _Beside:
    dry = is_dry_run(policy, now)
    kind = kind_of(policy.rule.condition)
    ladders = _ladders(policy, incidents)
    prefetch_related_objects([policy.rule], "channels")
    return _Beside(
        policy=policy,
        kind=kind,
        now=now,
        is_dry_run=dry,
        limits=limits_of(policy),
        last_hour=_last_hour(policy, now, dry),
        muted=mute_reasons(incidents, now),
        book=read_address_book({each.person_id for each in incidents if each.person_id}),
        read=kind.read(policy, incidents),
        ladders=ladders,
        arrived=_arrived(ladders),
    )


def _last_hour(policy: Policy, now: datetime, dry: bool) -> LastHour:
    acted = policy.actions.filter(is_dry_run=dry, acted_at__gt=now - HOUR)
    sums = acted.aggregate(count=Count("pk"), usd=Sum("usd_per_hour"))
    return LastHour(sums["count"], sums["usd"] or Decimal(0))


def _ladders(policy: Policy, incidents: Iterable[Incident]) -> dict[int, list[Action]]:
    """Of each incident the policy's, the newest first."""
    rows = policy.actions.filter(incident__in=list(incidents)).order_by("-pk")
    by_incident: dict[int, list[Action]] = defaultdict(list)
    for row in rows.select_related("warning", "second_warning", "person"):
        by_incident[row.incident_id or 0].append(row)
    return by_incident


def _arrived(ladders: Mapping[int, Sequence[Action]]) -> dict[str, datetime]:
    """By its key when a warning was with everybody whom it was sent to; without those that one of
    them did not get.
    """
    warnings = _warnings(ladders.values())
    if not warnings:
        return {}
    # by the index of all three: keys alone have none
    sends = Delivery.objects.filter(
        channel__in=Channel.objects.all(),
        address__in={warning.address for warning in warnings},
        key__in={warning.key for warning in warnings},
    )
    sent_at: dict[str, list[datetime | None]] = defaultdict(list)
    for key, state, at in sends.values_list("key", "state", "sent_at"):
        sent_at[key].append(at if state == Delivery.State.SENT else None)
    return {key: max(filter(None, each)) for key, each in sent_at.items() if None not in each}


def _warnings(ladders: Iterable[Sequence[Action]]) -> list[Delivery]:
    """Of those that go on, the first delivery of each."""
    going_on = [each for several in ladders for each in several if each.ended_at is None]
    both = [(each.warning, each.second_warning) for each in going_on]
    return [warning for pair in both for warning in pair if warning is not None]


def _case(beside: _Beside, incident: Incident) -> Case:
    person = beside.book.people.get(incident.person_id or 0)
    places = beside.kind.places(person, beside.policy.rule, beside.book)
    ladder = beside.ladder(incident)
    quiet = habits_of(person).quiet if person else None
    breach = stored_breach(incident.facts)
    subject = beside.read(incident, breach)
    muted = beside.muted[incident.pk] or _unwatched(incident, breach)
    standing = _standing(beside, incident, subject, quiet, muted=muted, is_reached=bool(places))
    course = _course(beside, incident, ladder, quiet)
    return Case(
        policy=beside.policy,
        kind=beside.kind,
        incident=incident,
        breach=breach,
        subject=subject,
        person=person,
        places=places,
        ladder=ladder,
        decision=_decided(beside, incident, ladder, standing, course),
        is_dry_run=beside.is_dry_run,
    )


def _of_order(standing: Standing, ladder: Action | None) -> Decision | None:
    """What follows of what was asked for and not answered yet; None where nothing was."""
    if ladder is None or ladder.state != State.ORDERED:
        return None
    never = first_of(refusals(standing))
    return Decision(Step.RECALL, never) if never else Decision(Step.NOTHING, ASKED)


def _changed(beside: _Beside, incident: Incident, ladder: Action | None) -> Decision | None:
    """What follows from the policy's own state; None where the incident decides."""
    if ladder is not None and ladder.is_dry_run != beside.is_dry_run:
        return Decision(Step.END, DRY_RUN_OVER if ladder.is_dry_run else DRY_RUN_AGAIN)
    if ladder is not None and ladder.person_id != incident.person_id:
        return Decision(Step.END, OTHERS)
    channel = beside.policy.channel
    if beside.policy.kind == Policy.Kind.WEBHOOK and (channel is None or not channel.is_enabled):
        return Decision(Step.NOTHING, NO_WEBHOOK)
    return None


def _decided(
    beside: _Beside, incident: Incident, ladder: Action | None, standing: Standing, course: Course
) -> Decision:
    return (
        _of_order(standing, ladder)
        or _changed(beside, incident, ladder)
        or next_step(standing, course, beside.limits, beside.last_hour, now_ms=to_ms(beside.now))
    )


def _standing(
    beside: _Beside,
    incident: Incident,
    subject: Subject,
    quiet: Hours | None,
    *,
    muted: str,
    is_reached: bool,
) -> Standing:
    return Standing(
        fires=incident.fired_ms is not None and incident.resolved_at is None,
        until_ms=incident.until_ms,
        muted=muted,
        is_acknowledged=incident.state == Incident.State.ACKNOWLEDGED,
        refusals=subject.refusals,
        usd_per_hour=subject.usd_per_hour,
        is_reached=is_reached,
        is_quiet=quiet is not None and quiet.hold(beside.now),
        owner=beside.kind.words.owner,
    )


def _unwatched(incident: Incident, breach: Breach) -> str:
    """Why nothing follows from it: what is open stays so when its rule is narrowed."""
    is_watched = matchers.matched(matchers.stored(incident.rule.matchers), breach.labels)
    return "" if is_watched else UNWATCHED


def _course(
    beside: _Beside, incident: Incident, ladder: Action | None, quiet: Hours | None
) -> Course:
    if ladder is None:
        return Course(rests=_rests(beside, incident))

    def heard(warned_at: datetime | None, delivery: Delivery | None) -> timedelta | None:
        arrived = beside.arrived.get(delivery.key) if delivery else None
        at = warned_at if ladder.is_dry_run else arrived
        return None if at is None else awake_for(quiet, at, beside.now)

    return Course(
        has_begun=True,
        heard=heard(ladder.began_at, ladder.warning),
        is_warned_again=ladder.warned_again_at is not None,
        heard_again=heard(ladder.warned_again_at, ladder.second_warning),
    )


def _rests(beside: _Beside, incident: Incident) -> str:
    """Why no ladder begins after those that were; "" where one may."""
    past = [
        each for each in beside.ladders.get(incident.pk, ()) if each.is_dry_run == beside.is_dry_run
    ]
    if any(each.state in ACTED for each in past):
        return "it was acted on already"
    ends = [each.ended_at for each in past if each.ended_at is not None]
    if ends and beside.now < max(ends) + beside.limits.first_wait:
        return "a ladder about it ended shortly before"
    return ""
