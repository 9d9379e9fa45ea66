"""What came of orders: the agent's word as an event of its node, or the webhook's delivery."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.actions.kind import Place, Words
from fleetwatch.actions.kinds import kind_of
from fleetwatch.actions.ladder_locks import locked_ladder
from fleetwatch.actions.models import Action
from fleetwatch.actions.warning_messages import outcome
from fleetwatch.alerts.breach import named, stored_breach
from fleetwatch.alerts.messaging.address_book import AddressBook, read_address_book
from fleetwatch.alerts.messaging.notifications import habits_of
from fleetwatch.alerts.services import add_event
from fleetwatch.ingest.node_orders import LASTS
from fleetwatch.lib.fences import Fences
from fleetwatch.lib.intervals import to_ms
from fleetwatch.notify.message import one_line
from fleetwatch.notify.models import Delivery
from fleetwatch.notify.services import Recipient, enqueue
from fleetwatch.telemetry.selectors import action_results

# an answer comes with a batch, which may wait at the agent; then it is believed all the same
LATE = timedelta(minutes=5)
LISTENS = timedelta(hours=24)
CLOCKS = timedelta(minutes=30)  # by so much agents' clocks may be behind
UNHEARD = "its node's agent did not say what became of it"
State = Action.State
# of what was kept it may be that it was too late
LISTENED_TO = (State.ORDERED, State.UNHEARD, State.KEPT)
TOO_LATE = "it was too late to keep it: "
# what an agent's answer begins with -> what that makes of the ladder
WORDS = {"done": State.DONE, "would": State.WOULD, "refused": State.REFUSED}


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an order."""

    state: str
    text: str


def read_answers(now: datetime) -> dict[str, int]:
    """How many ladders ended by an answer, and how many of them without any.

    Raises PartlyDoneError once the other answers were taken.
    """
    fences = Fences()
    did: Counter[str] = Counter()
    for action_id, answer in _answers(now):
        work = partial(_settle, action_id, answer, now)
        did[fences.within(f"answer to action {action_id}", work, "")] += 1
    did.pop("", None)
    fences.check()
    return dict(did)


def parse_answer(text: str) -> Answer:
    """Of an event's text without the order's key; what is not understood is no success."""
    word, _, rest = text.partition(":")
    state = WORDS.get(word.strip(), State.REFUSED)
    return Answer(state, one_line(rest.strip() or text, 300))


def _answers(now: datetime) -> Iterable[tuple[int, Answer]]:
    """By the id of its ladder each answer that is new."""
    asked = Action.objects.filter(state__in=LISTENED_TO, acted_at__gt=now - LISTENS)
    ordered = list(asked.select_related("call").order_by("pk"))
    by_key = _by_key(ordered, now)
    for action in ordered:
        answer = by_key.get((action.node_id or 0, action.order_key)) or _of_call(action)
        if answer is None and action.state == State.ORDERED and _is_unheard(action, now):
            answer = Answer(State.UNHEARD, UNHEARD)
        if answer is not None and _is_news(action, answer):
            yield action.pk, answer


def _is_news(action: Action, answer: Answer) -> bool:
    """Of what was kept only that it was too late is."""
    if action.state == State.KEPT:
        return answer.state == State.DONE
    return answer.state != action.state


def _by_key(ordered: Iterable[Action], now: datetime) -> dict[tuple[int, str], Answer]:
    """By node and order what its agent said first."""
    nodes = {action.node_id for action in ordered if action.node_id and action.order_key}
    answers: dict[tuple[int, str], Answer] = {}
    if not nodes:
        return answers
    for node_id, text in action_results(nodes, to_ms(now - LISTENS - CLOCKS)):
        key, _, rest = text.partition(" ")
        answers.setdefault((node_id, key), parse_answer(rest))
    return answers


def _of_call(action: Action) -> Answer | None:
    """What the webhook answered; None: nothing yet."""
    call = action.call
    if call is None or call.state not in (Delivery.State.SENT, Delivery.State.FAILED):
        return None
    is_sent = call.state == Delivery.State.SENT
    return Answer(State.DONE if is_sent else State.REFUSED, f"the webhook: {call.last_answer}")


def _is_unheard(action: Action, now: datetime) -> bool:
    """Whether the order is void, and its answer ought to be here; a webhook's is waited for."""
    if not action.order_key or action.acted_at is None:
        return False
    return now >= action.acted_at + LASTS + LATE


@transaction.atomic
def _settle(action_id: int, answer: Answer, now: datetime) -> str:
    """How the ladder ended; "" where it ended meanwhile."""
    ladder = locked_ladder(action_id)
    if ladder.state not in LISTENED_TO:
        return ""
    answer = _in_time(ladder, answer)
    ladder.state = answer.state
    ladder.result = answer.text
    ladder.ended_at = now
    ladder.save(update_fields=["state", "result", "ended_at"])
    label = State(answer.state).label
    if ladder.incident is not None:
        text = ladder.in_words(f"{label}: {answer.text}")
        add_event(ladder.incident, "action", text, at=now)
    record("action.result", ladder.subject, ladder=ladder.pk, state=answer.state, text=answer.text)
    if not ladder.is_dry_run:
        _tell(ladder, now)
    return answer.state


def _in_time(ladder: Action, answer: Answer) -> Answer:
    """The answer; of what was kept that it was too late."""
    if ladder.state != State.KEPT:
        return answer
    return replace(answer, text=one_line(f"{TOO_LATE}{answer.text}", 300))


def _tell(ladder: Action, now: datetime) -> None:
    """Who was warned, and the operators, hear how it went."""
    incident = ladder.incident
    if incident is None:
        return
    kind = kind_of(incident.rule.condition)
    breach = stored_breach(incident.facts)
    url = f"{settings.PUBLIC_URL}/incidents/{incident.pk}"
    message = outcome(
        kind.words,
        # the breach's name is what it is about by itself: of a node's GPU it is no node's
        named(ladder.subject, breach.name if ladder.subject == breach.subject else ""),
        breach,
        ladder.result,
        end=_end(State(ladder.state), kind.words),
        incident_url=url,
    )
    book = read_address_book({ladder.person_id} if ladder.person_id else set())
    key = f"{ladder.thread}/{ladder.state}"
    warned = kind.places(None, incident.rule, book)
    for recipient, at in _recipients(ladder, book, warned, now):
        enqueue([recipient], message, key=key, now=at, thread=ladder.thread)


def _end(state: State, words: Words) -> str:
    """In a word or two."""
    if state == State.UNHEARD:
        return ": no answer"
    return f" {words.done if state == State.DONE else words.not_done}"


def _recipients(
    ladder: Action, book: AddressBook, warned: Iterable[Place], now: datetime
) -> list[tuple[Recipient, datetime]]:
    """Who hears it, and when: nothing is left to do that a person is woken for."""
    person = book.people.get(ladder.person_id or 0)
    operators = ((each, "") for each in book.routes.operators or _every(book))
    places = [(*place, now) for place in dict.fromkeys((*warned, *operators))]
    if person is not None and person.place is not None:
        quiet = habits_of(person).quiet
        is_night = quiet is not None and quiet.hold(now)
        places.insert(0, (*person.place, quiet.end_after(now) if quiet and is_night else now))
    return [(Recipient(book.channels[pk], address), at) for pk, address, at in places]


def _every(book: AddressBook) -> tuple[int, ...]:
    """Where no route is set every channel hears of everything."""
    return () if book.routes.is_set else book.routes.every
