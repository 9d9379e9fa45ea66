"""Telling the owner of a job what was found about it: where incidents of the job would be told
first, and once a day.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.conf import settings
from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import User
from fleetwatch.accounts.names.holders import Holder, people
from fleetwatch.alerts.messaging.address_book import AddressBook, Person, read_address_book
from fleetwatch.alerts.messaging.heard_today import BY_HAND, heard_today
from fleetwatch.alerts.messaging.notifications import habits_of
from fleetwatch.alerts.messaging.quiet_hours import Gate, passage
from fleetwatch.alerts.messaging.routing import Destination, Matter, Rung, rungs
from fleetwatch.jobs.models import Job
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify import wording
from fleetwatch.notify.message import Message, one_line
from fleetwatch.notify.models import Channel
from fleetwatch.notify.services import Recipient, enqueue

MAX_STEPS = 3


@dataclass(frozen=True, slots=True)
class WorthTelling:
    """What the owner of a job is told: `finding` is the number of its page, `runs` in how many jobs
    of that name it happened; dollars are of what could have been saved.
    """

    finding: int
    job: Job
    title: str
    sentence: str
    runs: int
    saving_usd: tuple[Decimal, Decimal]
    steps: Sequence[str]


@transaction.atomic
def tell_owner(matter: WorthTelling, *, by: User, now: datetime) -> str:
    """Queues the message, and says whom it goes to. The same finding is told once a day: again on
    that day nothing is sent.

    Raises RefusedFieldError where nobody can be reached, it is the owner's quiet time, or he had as
    many messages today as he wants.
    """
    owner = _owner(matter.job)
    book = read_address_book([owner.pk] if owner else [])
    person = book.people.get(owner.pk) if owner else None
    rung = _first(matter, person, book)
    _check_habits(person, rung, now)
    count = _queue(
        matter, [(book.channels[to.channel_id], to.address) for to in rung.destinations], by, now
    )
    whom = ", ".join(_names(rung, person, book))
    if count:
        record("finding.tell_owner", str(matter.finding), to=whom)
    return whom if count else f"{whom} (was told today already)"


def _queue(
    matter: WorthTelling, places: Sequence[tuple[Channel, str]], by: User, now: datetime
) -> int:
    """How many messages are new: of a finding there is one a day."""
    thread = f"{BY_HAND}{matter.finding}"
    recipients = [Recipient(*place) for place in places]
    key = f"{thread}/{now:%Y-%m-%d}"
    return enqueue(recipients, _message(matter, by), key=key, now=now, thread=thread)


def _owner(job: Job) -> User | None:
    holder = Holder(job.scheduler, job.cluster, job.user)
    return people([holder]).get(holder) if job.user else None


def _first(matter: WorthTelling, person: Person | None, book: AddressBook) -> Rung:
    """Who is told first. Raises RefusedFieldError where there is no channel at all."""
    job = matter.job
    place = person.place if person else None
    whose = Matter(
        rule_name="",
        holder=f"job user {job.user}" if job.user else "",
        team_id=job.team.pk if job.team else None,
        team_name=job.team.label if job.team else "",
        person=Destination(*place, person.user.pk) if person and place else None,
    )
    ladder = rungs(whose, book.routes)
    if not ladder:
        raise RefusedFieldError(
            "there is no channel yet by which anybody is told: add one under Settings", field="id"
        )
    return ladder[0]


def _check_habits(person: Person | None, rung: Rung, now: datetime) -> None:
    """Raises RefusedFieldError where the person who would be told does not want to hear of it
    now.
    """
    if person is None or all(to.person_id is None for to in rung.destinations):
        return
    habits = habits_of(person)
    had_today = heard_today(person, habits, now)
    where = passage(habits, now, is_critical=False, had_today=had_today)
    if where.gate == Gate.SEND:
        return
    until = wording.moment(where.due_at, person.zone, now=now)
    why = {
        Gate.HOLD: f"has quiet hours until {until}",
        Gate.CAP: f"wants to hear no more today; from {until} on you may tell it",
    }
    raise RefusedFieldError(f"{person.name} {why[where.gate]}: nothing was sent", field="id")


def _names(rung: Rung, person: Person | None, book: AddressBook) -> list[str]:
    return [
        person.name if person and to.person_id else book.channels[to.channel_id].name
        for to in rung.destinations
    ]


def _message(matter: WorthTelling, by: User) -> Message:
    job = matter.job
    name = one_line(job.name or job.key, 80)
    times = f" in {matter.runs} runs" if matter.runs > 1 else ""
    return Message(
        title=f"{matter.title}: {name}{times}",
        summary=matter.sentence,
        fields=(
            ("Job", one_line(f"{job.scheduler} {job.external_id} {name}")),
            ("Owner", one_line(job.user) or "nobody's as far as is known"),
            ("Could have been saved", wording.between(*matter.saving_usd)),
            ("Sent by", one_line(by.get_full_name() or by.get_username())),
        ),
        url=f"{settings.PUBLIC_URL}/findings/{matter.finding}",
        severity="info",
        text="\n".join(f"{number}. {step}" for number, step in enumerate(matter.steps, 1)),
    )
