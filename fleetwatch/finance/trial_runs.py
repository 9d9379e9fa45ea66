"""Policies tried in the background, on more hours than a request can judge.

The row is the queue: a worker claims it for some minutes, judges node after node, and keeps what it
has every few seconds. Where it is killed, another one goes on behind the last node that was kept.
"""

import time
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from fleetwatch.accounts.audit import record
from fleetwatch.finance.models import PolicyTrial
from fleetwatch.finance.trial_sums import TrialSums
from fleetwatch.inventory.models import Node
from fleetwatch.ledger import trial
from fleetwatch.ledger.models import Policy as PolicyRow
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.operations import background

KEPT = 20  # trials, the newest
WORK_S = 45.0  # of one run of the task: other tasks want their turn
KEEP_EVERY_S = 3.0
CLAIMED_FOR = timedelta(minutes=3)  # far longer than a node's week takes


def ask(
    in_force: PolicyRow, changed: dict[str, float], interval: Interval, *, by: str, now: datetime
) -> PolicyTrial:
    """A trial of whole hours (`trial.bounds`), which a worker begins within seconds.

    Raises RefusedFieldError while another one runs, and for a policy that can't be; TrialError for
    one that reaches too far.
    """
    trial.check_reach(Policy.from_json(in_force.thresholds | changed))
    try:
        with transaction.atomic():
            asked = PolicyTrial.objects.create(
                asked_at=now,
                asked_by=by,
                policy=in_force,
                changed=changed,
                start=interval.start,
                end=interval.end,
                nodes_all=Node.objects.count(),
            )
            _forget_old()
            record("policy.try", _in_words(asked), hours=asked.hours)
    except IntegrityError:
        raise RefusedFieldError("Another trial is running: wait for it, or stop it.") from None
    return asked


def newest() -> QuerySet[PolicyTrial]:
    """The trials that are kept, without what they judged; the newest first."""
    return PolicyTrial.objects.defer("sums").select_related("policy").order_by("-pk")


@transaction.atomic
def stop(pk: int, *, now: datetime) -> bool:
    """Whether it was running; it ends with the node that is judged just now."""
    row = PolicyTrial.objects.get(pk=pk)
    is_stopped = background.stop(row, now=now, sums={})
    if is_stopped:
        record("policy.stop", _in_words(row))
    return is_stopped


def advance(now: datetime) -> dict[str, int]:
    """Goes on with the trial that runs, for WORK_S at most. Safe in parallel: it is claimed."""
    claimed = _claim(now)
    if claimed is None:
        return {"nodes": 0}
    before = claimed.nodes_done
    try:
        _work(claimed)
    except Exception:
        background.settle(
            claimed, state=PolicyTrial.State.FAILED, finished_at=timezone.now(), sums={}
        )
        raise
    return {"nodes": claimed.nodes_done - before}


def _in_words(trial: PolicyTrial) -> str:
    return " ".join(f"{name}={value:g}" for name, value in trial.changed.items())


def _forget_old() -> None:
    newest = PolicyTrial.objects.order_by("-pk").values_list("pk", flat=True)[:KEPT]
    PolicyTrial.objects.exclude(pk__in=list(newest)).delete()


def _claim(now: datetime) -> PolicyTrial | None:
    """The trial that runs and that no worker has, as this worker's."""
    rows = PolicyTrial.objects.select_related("policy")
    return background.claim(rows, now, claimed_for=CLAIMED_FOR)


def _work(claimed: PolicyTrial) -> None:
    """Judges nodes until all are judged, the time is over or somebody stopped it."""
    sums = TrialSums.from_json(claimed.sums)
    kept_at = time.monotonic()
    until = kept_at + WORK_S
    for node in Node.objects.filter(pk__gt=claimed.last_node).order_by("pk"):
        _judge(claimed, node, sums)
        moment = time.monotonic()
        if moment > until:
            _keep(claimed, sums, worked_until=None)
            return
        if moment > kept_at + KEEP_EVERY_S:
            if not _keep(claimed, sums, worked_until=timezone.now() + CLAIMED_FOR):
                return
            kept_at = moment
    background.settle(
        claimed,
        state=PolicyTrial.State.DONE,
        finished_at=timezone.now(),
        nodes_done=claimed.nodes_done,
        sums=sums.to_json(),
    )


def _judge(claimed: PolicyTrial, node: Node, sums: TrialSums) -> None:
    in_force = Policy.from_json(claimed.policy.thresholds)
    tried = Policy.from_json(claimed.policy.thresholds | claimed.changed)
    for rows in trial.compare_node(node, in_force, tried, Interval(claimed.start, claimed.end)):
        # a week has more jobs than a row of the database should hold
        sums.add(rows, moved_only={"job"})
    claimed.last_node = node.pk
    claimed.nodes_done += 1


def _keep(claimed: PolicyTrial, sums: TrialSums, *, worked_until: datetime | None) -> bool:
    """Keeps what is judged so far. False where the trial is this worker's no more."""
    return background.settle(
        claimed,
        last_node=claimed.last_node,
        nodes_done=claimed.nodes_done,
        sums=sums.to_json(),
        worked_until=worked_until,
    )
