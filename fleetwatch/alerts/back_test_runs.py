"""Back-tests in the background: of what a request can't try while somebody waits."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from fleetwatch.accounts.audit import record
from fleetwatch.alerts.models import BackTestRun
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.operations import background
from fleetwatch.operations.background import State

KEPT = 50  # runs, the newest
HOLDS = timedelta(hours=1)  # so long its outcome stands for what is asked
MAX_WAITING = 10
CLAIMED_FOR = timedelta(minutes=10)  # far longer than a step takes

OnStep = Callable[[], None]
# what is asked, over what, called after each step -> its outcome as plain data
Try = Callable[[Mapping[str, Any], Interval, OnStep], dict[str, Any]]


class StoppedError(Exception):
    """Somebody stopped it, or another worker has it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be tried over so many days, as plain data, in how many `steps`; `name`: of what,
    for the audit log; `address`: the page that shows it.
    """

    kind: str
    what: Mapping[str, Any]
    days: int
    steps: int
    name: str
    address: str

    @property
    def as_json(self) -> dict[str, Any]:
        """All that its outcome follows from, but for the moment."""
        return {"kind": self.kind, "days": self.days, **self.what}

    @property
    def digest(self) -> str:
        """By which its run is found again."""
        return sha256(json.dumps(self.as_json, sort_keys=True).encode()).hexdigest()


def newest(asked: Asked, *, now: datetime) -> BackTestRun | None:
    """The run of what is asked that is not too old to stand for it."""
    lately = BackTestRun.objects.filter(digest=asked.digest, asked_at__gt=now - HOLDS)
    return lately.order_by("-pk").first()


def ask(asked: Asked, *, by: str, now: datetime) -> BackTestRun:
    """A run that a worker begins within seconds; the one that runs already, where there is one.

    Raises RefusedFieldError where too many wait.
    """
    running = BackTestRun.objects.filter(state=State.RUNNING)
    if running.exclude(digest=asked.digest).count() >= MAX_WAITING:
        raise RefusedFieldError("Other back-tests are running: wait for them, or stop one.")
    try:
        with transaction.atomic():
            run = BackTestRun.objects.create(
                kind=asked.kind,
                asked=asked.as_json,
                digest=asked.digest,
                address=asked.address,
                asked_at=now,
                asked_by=by,
                start=now - timedelta(days=asked.days),
                end=now,
                steps_all=asked.steps,
            )
            record("back_test.start", asked.name, days=asked.days)
            _forget_old()
    except IntegrityError:
        return running.get(digest=asked.digest)
    return run


@transaction.atomic
def stop(run: BackTestRun, *, now: datetime) -> bool:
    """Whether it was running; it ends with the step that is worked at just now."""
    is_stopped = background.stop(run, now=now)
    if is_stopped:
        record("back_test.stop", f"{run.kind} {run.pk}")
    return is_stopped


def advance(kind: str, try_out: Try, now: datetime) -> dict[str, int]:
    """Tries the oldest of this kind that waits. Safe in parallel: it is claimed."""
    rows = BackTestRun.objects.filter(kind=kind)
    run = background.claim(rows, now, claimed_for=CLAIMED_FOR)
    if run is None:
        return {"back_tests": 0}
    run.steps_done = 0
    try:
        result = try_out(run.asked, Interval(run.start, run.end), lambda: _count_step(run))
    except StoppedError:
        return {"back_tests": 0}
    except Exception:
        background.settle(run, state=State.FAILED, finished_at=timezone.now())
        raise
    background.settle(
        run,
        state=State.DONE,
        finished_at=timezone.now(),
        steps_done=run.steps_all,
        result=result,
    )
    return {"back_tests": 1}


def _count_step(run: BackTestRun) -> None:
    run.steps_done += 1
    until = timezone.now() + CLAIMED_FOR
    if not background.settle(run, steps_done=run.steps_done, worked_until=until):
        raise StoppedError


def _forget_old() -> None:
    kept = BackTestRun.objects.order_by("-pk").values_list("pk", flat=True)[:KEPT]
    BackTestRun.objects.exclude(pk__in=list(kept)).exclude(state=State.RUNNING).delete()
