"""`manage.py settle`: does now, in this process, all work on what was committed before it began."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from fleetwatch.alerts.messaging import announcing
from fleetwatch.costs import day_sums
from fleetwatch.costs import services as costs
from fleetwatch.diagnosis import services as diagnosis
from fleetwatch.ingest import services as ingest
from fleetwatch.ledger import idle_power
from fleetwatch.ledger import services as ledger
from fleetwatch.lib.commands import HubCommand
from fleetwatch.notify import delivering
from fleetwatch.operations.services import record_run
from fleetwatch.telemetry import seal
from fleetwatch.telemetry.models import SealMark, TouchedHour

LIMIT = 500
NODE_DAYS = 100_000
WAIT_S = 0.2  # a worker holds the last claims: look again
Work = Callable[[datetime], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Step:
    """Work that is repeated while `is_left()`; what workers hold meanwhile is waited for."""

    name: str
    work: Work
    is_left: Callable[[], bool] = lambda: False


def steps(now: datetime) -> tuple[Step, ...]:
    """The stages in the order in which a number travels, bounded to what is committed now."""
    last_touch = TouchedHour.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    return (
        Step("rates", costs.ensure_example_rates),
        Step("bill", ingest.bill_silent_nodes),
        Step("retire", ingest.retire_silent_gpus),
        Step("move", ingest.believe_silent_moves),
        Step(
            "post",
            lambda at: ledger.post(at, LIMIT),
            lambda: TouchedHour.objects.filter(pk__lte=last_touch).exists(),
        ),
        # what was learned has hours judged again
        Step("learn", lambda at: idle_power.learn(at, LIMIT)),
        Step("post again", lambda at: ledger.post(at, NODE_DAYS)),
        Step("sum", lambda at: day_sums.refresh(at, NODE_DAYS)),
        *_steps_from_the_ledger_on(now),
    )


def _steps_from_the_ledger_on(now: datetime) -> tuple[Step, ...]:
    last_seal = SealMark.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    closed = SealMark.objects.filter(pk__lte=last_seal, hour__lte=now - seal.HOUR - seal.GRACE)
    return (
        Step("seal", lambda at: seal.seal_closed_hours(at, LIMIT), closed.exists),
        Step(
            "diagnose",
            lambda at: diagnosis.diagnose(at, LIMIT),
            lambda: bool(diagnosis.due(timezone.now(), 1)),
        ),
        Step("evaluate", announcing.run),
        Step(
            "deliver",
            lambda at: delivering.deliver_due(at, LIMIT),
            lambda: delivering.is_sending(timezone.now()),
        ),
    )


class Command(HubCommand):
    refusals = (ledger.PostingError,)
    help = (
        "Post (open hours included), seal, evaluate and deliver everything that is due; for"
        " operators after an import."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        with record_run("settle") as did:
            for step in steps(timezone.now()):
                did[step.name] = self._do(step)

    def _do(self, step: Step) -> dict[str, Any]:
        total: Counter[str] = Counter(step.work(timezone.now()))
        while step.is_left():
            more = step.work(timezone.now())
            if more.get("failed"):
                break  # it stays marked, and /status shows why
            total.update(more)
            if not any(more.values()):
                time.sleep(WAIT_S)
        self.stdout.write(
            f"{step.name}: "
            + (", ".join(f"{what} {count}" for what, count in total.items()) or "done")
        )
        return dict(total)
