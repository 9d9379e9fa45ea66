"""The ladder's steps: what is due about each incident, done once, however many look at it.

Each step is a transaction of its own that holds its policy's lock: what is decided is read within
it, limits are counted within it, and the order stands in the same one as the row that counts.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.selectors import zone
from fleetwatch.actions.action_policies import lock_name
from fleetwatch.actions.cases import WAITING, Case, case_reader, read_cases
from fleetwatch.actions.decision import Step, is_interrupted
from fleetwatch.actions.keeping import keep_url
from fleetwatch.actions.ladder_locks import hold_open_ladder
from fleetwatch.actions.models import Action, Policy
from fleetwatch.actions.order_answers import read_answers
from fleetwatch.actions.recalling import recall
from fleetwatch.actions.unbroken_breach import grace_of, unbroken_since_ms
from fleetwatch.actions.warning_messages import Threat, request, warning
from fleetwatch.alerts.incidents.open_names import PERSON, in_words
from fleetwatch.alerts.messaging.address_book import Person
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.services import add_event
from fleetwatch.ingest.node_orders import LASTS, OrderTerms, give
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import Node
from fleetwatch.lib.fences import Fences
from fleetwatch.lib.intervals import to_ms
from fleetwatch.lib.sql import has_lock
from fleetwatch.notify.message import Message
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.services import Recipient, enqueue, expire

GONE = "its incident is gone"
State = Action.State


def advance(now: datetime) -> dict[str, int]:
    """How many were warned, warned again, acted on and ended, and how many answers came. Several
    may run at once; twice changes nothing.

    Raises PartlyDoneError once all was done about the other incidents.
    """
    fences = Fences()
    did = Counter(fences.within("answers", partial(read_answers, now), dict[str, int]()))
    did["ended"] += fences.within("what is gone", partial(_end_orphans, now), 0)
    enabled = Policy.objects.filter(is_enabled=True, rule__is_enabled=True)
    for policy in enabled.select_related("rule", "channel").order_by("pk"):
        work = partial(_advance_all, policy, now)
        did.update(fences.within(f"policy of {policy.rule.name}", work, Counter[str]()))
    did.pop("", None)
    fences.check()
    return dict(did)


def _advance_all(policy: Policy, now: datetime) -> Counter[str]:
    """What was done about each incident of the policy. Raises PartlyDoneError."""
    fences = Fences()
    did: Counter[str] = Counter()
    incidents = _open(policy)
    case_of = case_reader(policy, incidents, now)
    for incident in incidents:
        work = partial(_advance, case_of, incident, now)
        did[fences.within(f"incident {incident.pk}", work, "")] += 1
    fences.check()
    return did


def _advance(case_of: Callable[[Incident], Case], incident: Incident, now: datetime) -> str:
    """The step that was taken; "" where none is due."""
    case = case_of(incident)
    return _take(case.policy.pk, incident.pk, now) if case.decision.step != Step.NOTHING else ""


def _open(policy: Policy) -> list[Incident]:
    """What fires, and what a ladder is about still."""
    fires = Q(ended_ms=None, fired_ms__isnull=False)
    begun = Q(pk__in=policy.actions.filter(ended_at=None).values("incident"))
    rows = policy.rule.incidents.filter(fires | begun)
    return list(rows.select_related("rule", "team").order_by("pk"))


@transaction.atomic
def _end_orphans(now: datetime) -> int:
    """Ladders whose incident, or policy, was removed; what they asked for is taken back."""
    is_gone = Q(incident=None) | Q(policy=None) | Q(policy__rule__is_enabled=False)
    gone = Action.objects.filter(is_gone, ended_at=None)
    for ladder in gone.filter(state=State.ORDERED).select_related("call"):
        recall(ladder, now)
    return gone.filter(state__in=WAITING).update(state=State.ENDED, result=GONE, ended_at=now)


@transaction.atomic
def _take(policy_id: int, incident_id: int, now: datetime) -> str:
    """The step that was taken; "" where it is another one's, or none any more."""
    if not has_lock(lock_name(policy_id)):
        return ""
    policies = Policy.objects.filter(pk=policy_id, is_enabled=True, rule__is_enabled=True)
    policy = policies.select_related("rule", "channel").first()
    locked = Incident.objects.select_for_update(of=("self",)).select_related("rule", "team")
    incident = locked.filter(pk=incident_id).first()
    if policy is None or incident is None:
        return ""
    hold_open_ladder(incident, policy_id)
    [case] = read_cases(policy, [incident], now)
    return STEPS[case.decision.step](case, now)


def _nothing(_: Case, __: datetime) -> str:
    return ""


def _warn(case: Case, now: datetime) -> str:
    if not case.places or case.subject.usd_per_hour is None:
        return ""
    ladder = Action.objects.create(
        policy=case.policy,
        incident=case.incident,
        kind=case.policy.kind,
        is_dry_run=case.is_dry_run,
        subject=case.subject.name,
        restarts=case.subject.restarts,
        person=case.person.user if case.person else None,
        team=case.incident.team,
        gpus=case.subject.gpus,
        usd_per_hour=case.subject.usd_per_hour,
        began_at=now,
    )
    waits = case.policy.first_wait_minutes + case.policy.second_wait_minutes
    ladder.warning = _send_warning(ladder, case, timedelta(minutes=waits), now)
    ladder.save(update_fields=["warning"])
    _note(ladder, case, "warned", f"{_whom(case)} is warned", now)
    return "warned"


def _warn_again(case: Case, now: datetime) -> str:
    ladder = case.ladder
    if ladder is None:
        return ""
    why = _interruption(case, ladder, now)
    if why:
        return _end(case, now, why=why)
    wait = timedelta(minutes=case.policy.second_wait_minutes)
    ladder.state = State.WARNED_AGAIN
    ladder.warned_again_at = now
    ladder.second_warning = _send_warning(ladder, case, wait, now)
    ladder.save(update_fields=["state", "warned_again_at", "second_warning"])
    _note(ladder, case, "warned_again", f"{_whom(case)} is warned again", now)
    return "warned_again"


def _act(case: Case, now: datetime) -> str:
    ladder = case.ladder
    if ladder is None:
        return ""
    why = _interruption(case, ladder, now)
    node = _node(case)
    if why or node is None:
        return _end(case, now, why=why or "it is not known on which node it is")
    ladder.node = node
    ladder.state = State.ORDERED
    ladder.acted_at = now
    deed = _call if case.policy.kind == Policy.Kind.WEBHOOK else _order
    deed(case, ladder, now)
    ladder.save()
    what = "a trial" if ladder.is_dry_run else case.kind.words.order
    text = f"{node.name} is asked" if ladder.order_key else "the webhook is called"
    _note(ladder, case, "order", f"{text}: {what}", now)
    return "acted"


def _recall(case: Case, now: datetime) -> str:
    if case.ladder is None or not recall(case.ladder, now):
        return ""
    _note(case.ladder, case, "recall", f"what was asked is taken back: {case.decision.why}", now)
    return "recalled"


def _end(case: Case, now: datetime, *, why: str = "") -> str:
    ladder = case.ladder
    if ladder is None:
        return ""
    ladder.state = State.ENDED
    ladder.result = why or case.decision.why
    ladder.ended_at = now
    ladder.save(update_fields=["state", "result", "ended_at"])
    _note(ladder, case, "end", f"nothing is done: {ladder.result}", now)
    return "ended"


STEPS: Mapping[Step, Callable[[Case, datetime], str]] = {
    Step.NOTHING: _nothing,
    Step.WARN: _warn,
    Step.WARN_AGAIN: _warn_again,
    Step.ACT: _act,
    Step.RECALL: _recall,
    Step.END: _end,
}


def _interruption(case: Case, ladder: Action, now: datetime) -> str:
    """Why it is no longer so all the while since it was warned of; "" where it is."""
    grace_ms = to_ms(now - grace_of(case.incident))
    needed_ms = min(to_ms(ladder.began_at), grace_ms)
    since_ms = unbroken_since_ms(case.incident, back_to_ms=needed_ms, now=now)
    return (
        case.kind.words.interrupted if is_interrupted(since_ms, needed_since_ms=needed_ms) else ""
    )


def _node(case: Case) -> Node | None:
    """Where all of these GPUs are; None where that is not known, or not one place."""
    gpus = inventory.newest_rows(case.subject.gpu_uuids)
    nodes = {gpu.node for gpu in gpus.values()}
    is_known = len(gpus) == len(case.subject.gpu_uuids) and len(nodes) == 1
    return nodes.pop() if is_known else None


def _order(case: Case, ladder: Action, now: datetime) -> None:
    """The node's agent is asked; in a dry run it says what it would do."""
    if ladder.node is None:
        raise ValueError(f"{ladder.thread} is about no node")
    terms = OrderTerms(
        kind=case.kind.name,
        scheduler=case.subject.scheduler,
        job=case.subject.job,
        gpu_uuids=case.subject.gpu_uuids,
        grace=grace_of(case.incident),
        reason=case.subject.reason,
        is_dry_run=ladder.is_dry_run,
    )
    ladder.order_key = give(ladder.node, terms, now).key


def _call(case: Case, ladder: Action, now: datetime) -> None:
    """The webhook is called; in a dry run it is not."""
    if ladder.is_dry_run:
        ladder.state = State.WOULD
        ladder.ended_at = now
        ladder.result = "would have called the webhook"
    elif case.policy.channel is not None:
        message = request(
            case.kind,
            case.subject,
            case.breach,
            rule_name=case.policy.rule.name,
            incident_url=incident_url(case.incident),
        )
        key = f"{ladder.thread}/call"
        ladder.call = _queue([Recipient(case.policy.channel)], message, key, key, now)
        expire(ladder.call, now + LASTS)  # later it may work again


def incident_url(incident: Incident) -> str:
    """The address of its page."""
    return f"{settings.PUBLIC_URL}/incidents/{incident.pk}"


def _send_warning(ladder: Action, case: Case, wait: timedelta, now: datetime) -> Delivery | None:
    """The first of its deliveries; None in a dry run, of which nobody hears."""
    if ladder.is_dry_run:
        return None
    is_second = ladder.state == State.WARNED_AGAIN
    threat = Threat(
        words=case.kind.words,
        about=case.subject.about,
        rule_name=case.policy.rule.name,
        earliest=now + wait,
        keep_url=keep_url(ladder, case.person.user) if case.person else "",
        incident_url=incident_url(case.incident),
        zone=_zone(case.person),
        now=now,
    )
    message = warning(case.breach, threat, is_second=is_second)
    channels = Channel.objects.in_bulk([channel_id for channel_id, _ in case.places])
    recipients = [Recipient(channels[channel_id], address) for channel_id, address in case.places]
    return _queue(recipients, message, f"{ladder.thread}/{ladder.state}", ladder.thread, now)


def _zone(person: Person | None) -> ZoneInfo:
    return person.zone if person else zone()


def _queue(
    recipients: Sequence[Recipient], message: Message, key: str, thread: str, now: datetime
) -> Delivery:
    """The delivery to the first of them."""
    enqueue(recipients, message, key=key, now=now, thread=thread)
    first = recipients[0]
    return Delivery.objects.get(channel=first.channel, address=first.address, key=key)


def _whom(case: Case) -> str:
    """Who is warned, as a history names them."""
    return PERSON if case.person else case.kind.words.owner


def _note(ladder: Action, case: Case, verb: str, text: str, now: datetime) -> None:
    """In the incident's history and the audit log."""
    words = ladder.in_words(text)
    add_event(case.incident, "action", words, at=now, person=ladder.person)
    record(
        f"action.{verb}",
        ladder.subject,
        ladder=ladder.pk,
        text=in_words(words, person=ladder.person),
    )
