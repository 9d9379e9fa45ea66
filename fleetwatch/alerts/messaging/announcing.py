"""Whom incidents are told: groups of them, and what is sent of each when."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial

from django.db import transaction

from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.incidents.grouping import group_key
from fleetwatch.alerts.incidents.muted_incidents import mute
from fleetwatch.alerts.incidents.owners import holder_of
from fleetwatch.alerts.messaging.address_book import AddressBook, read_address_book
from fleetwatch.alerts.messaging.earlier_notices import CHANGED, CHANGES_EVERY, Place
from fleetwatch.alerts.messaging.group_news import GroupNews, read_news
from fleetwatch.alerts.messaging.heard_today import can_edit
from fleetwatch.alerts.messaging.held_messages import send_due
from fleetwatch.alerts.messaging.ladder import Due, Pace, due
from fleetwatch.alerts.messaging.notifications import Telling, notify, reached_before
from fleetwatch.alerts.messaging.routing import Destination, Matter, Rung, rung_after, rungs
from fleetwatch.alerts.models import Incident, IncidentGroup, Notification, Rule
from fleetwatch.alerts.services import evaluate
from fleetwatch.lib.fences import Fences
from fleetwatch.lib.sql import wait_for_lock

State = Incident.State


def run(now: datetime) -> dict[str, int]:
    """Evaluates every rule, then tells of what that changed; what both did.

    Raises PartlyDoneError once all else was evaluated and told.
    """
    fences = Fences()
    evaluated = fences.within("rules", partial(evaluate, now), dict[str, int]())
    announced = fences.within("messages", partial(announce, now), dict[str, int]())
    fences.check()
    return evaluated | announced


def announce(now: datetime) -> dict[str, int]:
    """How many groups were opened and closed, and how many people and channels were told. One
    evaluator at a time; the next one finds it told.

    Raises PartlyDoneError once all other groups were told.
    """
    fences = Fences()
    with transaction.atomic():
        wait_for_lock("alerts.announce")  # who evaluated last tells what all did
        returned = mute(now, fences)
        did = Counter(groups_opened=_group_new(now, fences), groups_closed=0, told=0)
        did.update(_tell_all(returned, now, fences))
        did["told"] += send_due(now, fences)
    fences.check()
    return dict(did)


def _tell_all(returned: Collection[int], now: datetime, fences: Fences) -> Counter[str]:
    did: Counter[str] = Counter()
    for news, book in _open_groups():
        part = f"group {news.group.pk} of {news.group.rule.name}"
        work = partial(_tell, news, returned, book, now)
        did.update(fences.within(part, work, Counter[str]()))
    return did


def _tell(
    news: GroupNews, returned: Collection[int], book: AddressBook, now: datetime
) -> Counter[str]:
    """What is due of the group, told; of what was muted until now that it goes on. Nothing is due
    of most: whatever writes is a savepoint of its own.
    """
    if news.group.pk in returned and news.is_pressing and news.reached:
        return Counter(told=_return(news, book, now))
    return _advance(news, book, now)


def _open_groups() -> list[tuple[GroupNews, AddressBook]]:
    """Every open group as it stands, with where people are reached."""
    groups = IncidentGroup.objects.filter(closed_at=None).prefetch_related("rule__channels")
    every = read_news(list(groups.order_by("pk")))
    if not every:
        return []
    book = read_address_book(_people(every))
    return [(news, book) for news in every]


def _group_new(now: datetime, fences: Fences) -> int:
    """Puts what fires and is in no group yet into one; how many groups are new."""
    fresh = Incident.objects.filter(state=State.FIRING, group=None, is_late=False, muted="")
    by_key: dict[tuple[Rule, str], list[int]] = defaultdict(list)
    for incident in fresh.select_related("rule").order_by("pk"):
        key = fences.within(f"incident {incident.pk}", partial(_key, incident), "")
        if key:
            by_key[incident.rule, key].append(incident.pk)
    return sum(
        fences.within(f"group {key} of {rule.name}", partial(_join, rule, key, joining, now), False)
        for (rule, key), joining in by_key.items()
    )


def _key(incident: Incident) -> str:
    return group_key(stored_breach(incident.facts))


@transaction.atomic
def _join(rule: Rule, key: str, joining: Sequence[int], now: datetime) -> bool:
    group, is_new = IncidentGroup.objects.get_or_create(
        rule=rule, key=key, closed_at=None, defaults={"opened_at": now}
    )
    is_answered = not group.incidents.filter(state=State.FIRING, muted="").exists()
    Incident.objects.filter(pk__in=joining).update(group=group)
    if not is_new and group.stepped_at is not None and is_answered:
        # what was acknowledged is not this: the ladder's wait begins anew
        group.stepped_at = now
        group.save(update_fields=["stepped_at"])
    return is_new


def _people(every: Sequence[GroupNews]) -> set[int]:
    """Who may be told of one of them."""
    owners = {
        user_id
        for news in every
        for incident in news.incidents
        for user_id in (incident.person_id, incident.assignee_id)
    }
    reached = {row.person_id for news in every for row in news.reached.values()}
    return {user_id for user_id in owners | reached if user_id is not None}


def _advance(news: GroupNews, book: AddressBook, now: datetime) -> Counter[str]:
    """What is due of the group, told."""
    if news.is_over:
        return _close(news, book, now)
    # whose it is, and where they are told, is looked at where that may matter
    if _due(news, now, has_next=True) == Due.NOTHING and news.incidents[-1].assignee_id is None:
        return Counter(told=_change(news, book, now))
    matter = _matter(news, book)
    rung = rung_after(rungs(matter, book.routes), _step(news))
    what = _due(news, now, has_next=rung is not None)
    if what in (Due.OPEN, Due.CLIMB):
        return Counter(told=_climb(news, rung, matter, book, now) if rung else 0)
    if what == Due.REMIND:
        return Counter(told=_remind(news, book, now))
    return Counter(told=_hand_over(news, matter, book, now) + _change(news, book, now))


def _due(news: GroupNews, now: datetime, *, has_next: bool) -> Due:
    rule = news.group.rule
    pace = Pace(rule.escalate_minutes, rule.remind_minutes)
    return due(news.standing, pace, has_next=has_next, now=now)


def _step(news: GroupNews) -> int:
    """The one that was told last; before the first where none was."""
    return -1 if news.stepped_at is None else news.group.step


def _matter(news: GroupNews, book: AddressBook) -> Matter:
    incident = news.incidents[-1]
    rule = news.group.rule
    breach = news.first_breach
    holder = holder_of(breach)
    return Matter(
        rule_name=rule.name,
        rule_channels=tuple(channel.pk for channel in rule.channels.all()),
        holder=holder,
        team_id=incident.team_id,
        team_name=incident.team.label if incident.team else "",
        person=_person(incident, holder, book) if rule.tells_owner else None,
    )


def _person(incident: Incident, holder: str, book: AddressBook) -> Destination | None:
    """Whom it was given to, else whose it is; None where he is not reached."""
    is_given = incident.assignee_id is not None
    user_id = incident.assignee_id if is_given else incident.person_id
    person = book.people.get(user_id or 0)
    if person is None or person.place is None:
        return None
    is_theirs = f"they are {holder}" if holder else "it is theirs"
    why = "it was given to them" if is_given else is_theirs
    return Destination(*person.place, person.user.pk, f"because {why}")


@transaction.atomic
def _climb(news: GroupNews, rung: Rung, matter: Matter, book: AddressBook, now: datetime) -> int:
    """Tells the next step, and an owner who is known only since the last one; whom it was told
    before hears it as a reminder.
    """
    everybody = _whom(news, rung, matter)
    is_first = news.stepped_at is None
    news.group.step = rung.step
    news.group.stepped_at = now
    _save(news.group, "step", "stepped_at")
    fresh = [each for each in everybody if each.place not in news.reached]
    again = [each for each in everybody if each.place in news.reached]
    opened = Telling(news, "opened" if is_first else "step", "opened")
    reminding = Telling(news, "reminder", f"step/{int(rung.step)}", again=True)
    count = notify(opened, fresh, book, now)
    return count if is_first else count + notify(reminding, again, book, now)


def _whom(news: GroupNews, rung: Rung, matter: Matter) -> list[Destination]:
    """Those of the step, after an owner who was not told yet."""
    owner = matter.person
    reached = {row.person_id for row in news.reached.values()}
    late = () if owner is None or owner.person_id in reached else (owner,)
    return list({each.place: each for each in (*late, *rung.destinations)}.values())


def _hand_over(news: GroupNews, matter: Matter, book: AddressBook, now: datetime) -> int:
    """Tells who it was given to since."""
    is_given = news.incidents[-1].assignee_id is not None
    if not is_given or matter.person is None or news.stepped_at is None:
        return 0
    if matter.person.place in news.reached:
        return 0
    with transaction.atomic():
        return notify(Telling(news, "opened", "opened"), [matter.person], book, now)


@transaction.atomic
def _remind(news: GroupNews, book: AddressBook, now: datetime) -> int:
    news.group.reminded_at = now
    _save(news.group, "reminded_at")
    telling = Telling(news, "reminder", f"reminder/{news.group.messages}", again=True)
    return notify(telling, reached_before(news, book), book, now)


@transaction.atomic
def _return(news: GroupNews, book: AddressBook, now: datetime) -> int:
    """What was muted and goes on is told again to those who were told; the ladder's wait begins
    anew.
    """
    if news.group.stepped_at is not None:
        news.group.stepped_at = now
    news.group.reminded_at = now
    _save(news.group, "stepped_at", "reminded_at")
    telling = Telling(news, "reminder", f"back/{news.group.messages}", again=True)
    return notify(telling, reached_before(news, book), book, now)


def _change(news: GroupNews, book: AddressBook, now: datetime) -> int:
    """Tells those who were told before what is different now."""
    places = {place for place, row in news.reached.items() if _differs(news, place, row, book, now)}
    if not places:
        return 0
    changed = [each for each in reached_before(news, book) if each.place in places]
    with transaction.atomic():
        _save(news.group)
        telling = Telling(news, CHANGED, f"changed/{news.group.messages}")
        return notify(telling, changed, book, now)


def _differs(
    news: GroupNews, place: Place, row: Notification, book: AddressBook, now: datetime
) -> bool:
    """Whether it is worth a message there: any change of one that is edited; elsewhere that another
    incident joined, once an hour at most.
    """
    channel = book.channels.get(place[0])
    if channel is None or place in news.kept or row.digest == news.digest:
        return False
    if can_edit(channel):
        return True
    has_joined = bool(set(news.shown) - set(row.shown))
    return has_joined and now >= row.created_at + CHANGES_EVERY


@transaction.atomic
def _close(news: GroupNews, book: AddressBook, now: datetime) -> Counter[str]:
    """Everybody who was told hears that it is over; what was kept for later is dropped."""
    news.group.closed_at = now
    _save(news.group, "closed_at")
    if not news.incidents:
        return Counter(groups_closed=1)
    count = notify(Telling(news, "resolved", "resolved"), reached_before(news, book), book, now)
    return Counter(groups_closed=1, told=count)


def _save(group: IncidentGroup, *fields: str) -> None:
    group.messages += 1
    group.save(update_fields=["messages", *fields])
