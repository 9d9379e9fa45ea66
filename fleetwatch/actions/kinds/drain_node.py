"""A node with a GPU that can't work is drained: its jobs run to their end, and no new one starts.

Nobody holds it, so who runs the fleet is warned: whoever the incident goes to.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from django.db.models import Max

from fleetwatch.actions.kind import Kind, Place, Reader, Subject, Words
from fleetwatch.actions.models import Action, Policy
from fleetwatch.alerts.back_test import Trial
from fleetwatch.alerts.breach import Breach
from fleetwatch.alerts.conditions import gpu_cannot_work
from fleetwatch.alerts.measuring.node_costs import NodeCosts, drained_spans
from fleetwatch.alerts.messaging.address_book import AddressBook, Person
from fleetwatch.alerts.messaging.routing import Matter, rungs
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import SourceReport
from fleetwatch.lib.intervals import from_ms, ms_in
from fleetwatch.notify.message import one_line
from fleetwatch.telemetry.selectors import drains

SLURM = "slurm"
DRAINED = "its node is drained already"
# by reason, what stands in sinfo: fixed words and numbers, which the agent checks
# (agent/actions/draining.py)
WRONG = {
    "gpu_lost": "lost",
    "recovery_action": "needs recovery",
    "driver_missing": "no driver",
    "driver_mismatch": "wrong driver",
}
XID_PREFIX = "xid_"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStanding:
    """The node of an incident. `is_here`: its GPU is there and is of the node. `is_asked`: its
    agent could be, or a webhook is called. `is_kept`: somebody asked that it is left as it is.
    """

    is_here: bool
    is_asked: bool
    is_drained: bool
    is_kept: bool


def refusals(node: NodeStanding) -> tuple[str, ...]:
    """Why the node is not drained, in the order in which it counts; "" where one does not hold."""
    return (
        "" if node.is_here else "its GPU is gone",
        "somebody asked to leave its node as it is" if node.is_kept else "",
        DRAINED if node.is_drained else "",
        "" if node.is_asked else "its node's agent never told of Slurm, by which it would drain it",
    )


def reason_of(incident_id: int, gpu: GPU | None, fault: str) -> str:
    """What Slurm keeps as the reason: no text of a host or a person."""
    index = "" if gpu is None or gpu.index is None else f" {gpu.index}"
    code = fault.removeprefix(XID_PREFIX)
    is_xid = code != fault and code.isascii() and code.isdigit()
    wrong = f"XID {code[:6]}" if is_xid else WRONG.get(fault, "broken")
    return f"FleetWatch incident {incident_id}: GPU{index} {wrong}"


@dataclass(frozen=True, slots=True)
class _Books:
    """What is known of the GPUs (by UUID) of several incidents, and of their nodes (by id)."""

    gpus: Mapping[str, GPU]
    costs: NodeCosts
    with_slurm: frozenset[int]

    def subject(self, breach: Breach, why: tuple[str, ...], reason: str, at_ms: int) -> Subject:
        """The node of the breach's GPU, for what it costs then."""
        gpu = self.gpus.get(breach.subject)
        name = gpu.node.name if gpu else ""
        return Subject(
            name=name,
            about=one_line(name, 100),
            restarts=0,
            gpu_uuids=(breach.subject,),
            gpus=self.costs.count(gpu.node_id) if gpu else 0,
            usd_per_hour=self._usd_per_hour(gpu, at_ms),
            refusals=why,
            scheduler=SLURM,
            job="",
            reason=reason,
            identity=("Node", one_line(name, 253)),
        )

    def _usd_per_hour(self, gpu: GPU | None, at_ms: int) -> Decimal | None:
        return None if gpu is None else self.costs.at(gpu.node_id, at_ms).usd_per_hour

    def refusals(
        self, policy: Policy, gpu: GPU | None, *, is_drained: bool, is_kept: bool = False
    ) -> tuple[str, ...]:
        """Why the GPU's node is not drained."""
        is_called = policy.kind == Policy.Kind.WEBHOOK
        standing = NodeStanding(
            is_here=gpu is not None,
            is_asked=is_called or (gpu is not None and gpu.node_id in self.with_slurm),
            is_drained=is_drained,
            is_kept=is_kept,
        )
        return refusals(standing)


@dataclass(frozen=True, slots=True)
class _Answers:
    """What people did about nodes: which (ids) are drained, of which incidents (ids) that was asked
    for by ourselves, and which (by name) are to be left as they are, said when.
    """

    drained: frozenset[int]
    asked: frozenset[int]
    kept_at: Mapping[str, datetime]

    def is_drained(self, incident: Incident, gpu: GPU | None) -> bool:
        """By somebody else: of what we asked for the answer says what came of it."""
        return gpu is not None and gpu.node_id in self.drained and incident.pk not in self.asked

    def is_kept(self, incident: Incident, gpu: GPU | None) -> bool:
        """Whether it was said when this fault was there already; one that came later is news."""
        kept_at = self.kept_at.get(gpu.node.name) if gpu else None
        return kept_at is not None and from_ms(incident.fired_or_since_ms) <= kept_at


def _read_books(uuids: Iterable[str]) -> _Books:
    rows = inventory.newest_rows(uuids)
    gpus = {uuid: gpu for uuid, gpu in rows.items() if gpu.retired_ms is None}
    nodes = {gpu.node_id for gpu in gpus.values()}
    slurm = SourceReport.objects.filter(node__in=nodes, kind=SLURM)
    return _Books(gpus, NodeCosts(nodes), frozenset(slurm.values_list("node_id", flat=True)))


def _read(policy: Policy, incidents: Sequence[Incident]) -> Reader:
    books = _read_books({incident.subject for incident in incidents})
    answers = _Answers(
        drained=frozenset(drains({gpu.node_id for gpu in books.gpus.values()})),
        asked=_asked(policy, incidents),
        kept_at=_kept(gpu.node.name for gpu in books.gpus.values()),
    )
    return partial(_now, policy, books, answers)


def _now(
    policy: Policy, books: _Books, answers: _Answers, incident: Incident, breach: Breach
) -> Subject:
    gpu = books.gpus.get(breach.subject)
    why = books.refusals(
        policy,
        gpu,
        is_drained=answers.is_drained(incident, gpu),
        is_kept=answers.is_kept(incident, gpu),
    )
    reason = reason_of(incident.pk, gpu, breach.facts.get("reason", ""))
    return books.subject(breach, why, reason, incident.until_ms)


def _asked(policy: Policy, incidents: Iterable[Incident]) -> frozenset[int]:
    """The incidents of whose nodes somebody was asked to drain them, and has not answered."""
    ordered = policy.actions.filter(incident__in=list(incidents), state=Action.State.ORDERED)
    return frozenset(pk for pk in ordered.values_list("incident_id", flat=True) if pk is not None)


def _kept(nodes: Iterable[str]) -> dict[str, datetime]:
    """By node when it was last asked that it is left as it is."""
    rows = Action.objects.filter(subject__in=set(nodes), state=Action.State.KEPT)
    latest = rows.values("subject").annotate(at=Max("ended_at"))
    return {row["subject"]: row["at"] for row in latest}


def _read_past(policy: Policy, trials: Sequence[Trial]) -> list[Subject]:
    """By where each GPU is now, and whether its node was drained before both waits were over."""
    books = _read_books({trial.breach.subject for trial in trials})
    drained = drained_spans(gpu.pk for gpu in books.gpus.values())
    waits = timedelta(minutes=policy.first_wait_minutes + policy.second_wait_minutes)
    subjects = []
    for trial in trials:
        gpu = books.gpus.get(trial.breach.subject)
        fired_ms = trial.episode.fired_or_since_ms
        until_ms = fired_ms + ms_in(waits)
        spans = drained.get(gpu.pk, ()) if gpu else ()
        is_drained = any(start <= until_ms and fired_ms < end for start, end in spans)
        why = books.refusals(policy, gpu, is_drained=is_drained)
        subjects.append(books.subject(trial.breach, why, "", until_ms))
    return subjects


def _places(_: Person | None, rule: Rule, book: AddressBook) -> tuple[Place, ...]:
    """Whom the incident is told first: the rule's channels, or the operators'."""
    channels = tuple(channel.pk for channel in rule.channels.all())
    ladder = rungs(Matter(rule_name=rule.name, rule_channels=channels), book.routes)
    first = ladder[0].destinations if ladder else ()
    return tuple(each.place for each in first if book.channels[each.channel_id].is_enabled)


KIND = Kind(
    name=Policy.Kind.DRAIN,
    # of a GPU with memory errors that works on nobody can say that it can't
    conditions=(gpu_cannot_work.CONDITION.name,),
    rules="rules of GPU faults",
    is_of_teams=False,
    words=Words(
        owner="who runs the fleet",
        thing="node",
        headline="node with a broken GPU",
        coming="will be drained",
        deed="drains the node",
        done="drained",
        not_done="not drained",
        order="to drain the node",
        lasting="Broken for",
        cost="The GPU costs",
        how=(
            "Nothing is done if somebody leaves the node as it is, acknowledges the incident,"
            " drains the node, or if the GPU works again. A drained node's jobs run to their end,"
            " and no new one starts; to resume it is for people."
        ),
        request="drain node",
        interrupted="the GPU worked, or was not seen, since its node was warned of",
        never=(
            "a node that is drained already, or whose agent is silent; a GPU that works, is"
            " acknowledged, silenced, agreed as not waste, in maintenance, or whose node somebody"
            " leaves as it is. No job is ended"
        ),
        keep="Leave the node as it is",
        why_keep="Why is it left as it is?",
        kept="The node is left as it is: nothing is done about what is broken in it now.",
        spared="of broken GPUs from then on",
        whom="every node that its rule watches",
    ),
    read=_read,
    read_past=_read_past,
    places=_places,
)
