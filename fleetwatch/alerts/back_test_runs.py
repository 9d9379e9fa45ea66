"""Back-tests in the background: of what a request can't try while somebody waits."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from fleetwatch.accounts.audit import record
from fleetwatch.alerts.models import BackTestRun
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.lib.sql import has_lock, wait_for_lock
from fleetwatch.operations import background
from fleetwatch.operations.background import State

KEPT = 50  # runs, the newest
HOLDS = timedelta(hours=1)  # so long its outcome stands for what is asked, and is kept
MAX_WAITING = 10
MAX_OF_ONE = 3  # person: nobody takes all of the places
LOCK = "alerts.back_tests"  # of who asks for one or claims one
CLAIMED_FOR = timedelta(minutes=10)  # far longer than a step takes

OnStep = Callable[[], None]
# what is asked, over what, called after each step -> its outcome as plain data
Try = Callable[[Mapping[str, Any], Interval, OnStep], dict[str, Any]]


class StoppedError(Exception):
    """Somebody stopped it, another worker has it, or what it is about is no longer set so."""


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
    """The run of what is asked that goes on, or is not over for too long to stand for it."""
    stands = Q(state=State.RUNNING) | Q(finished_at__gt=now - HOLDS)
    return BackTestRun.objects.filter(stands, digest=asked.digest).order_by("-pk").first()


@transaction.atomic
def ask(asked: Asked, *, by: str, now: datetime) -> BackTestRun:
    """A run that a worker begins within seconds; the one that runs already, where there is one.

    Raises RefusedFieldError where too many wait, of all or of this person.
    """
    wait_for_lock(LOCK)
    running = BackTestRun.objects.filter(state=State.RUNNING)
    if run := running.filter(digest=asked.digest).first():
        return run
    if running.filter(asked_by=by).count() >= MAX_OF_ONE:
        raise RefusedFieldError(f"{MAX_OF_ONE} of your back-tests are running: stop one, or wait.")
    if running.count() >= MAX_WAITING:
        raise RefusedFieldError("Other back-tests are running: wait for them.")
    record("back_test.start", asked.name, days=asked.days)
    return BackTestRun.objects.create(
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


@transaction.atomic
def stop(run: BackTestRun, *, now: datetime) -> bool:
    """Whether it was running; it ends with the step that is worked at just now."""
    is_stopped = background.stop(run, now=now)
    if is_stopped:
        record("back_test.stop", f"{run.kind} {run.pk}")
    return is_stopped


def advance(kind: str, try_out: Try, now: datetime) -> dict[str, int]:
    """Tries the one that waits longest, where it is of this kind. Safe in parallel: it is claimed.
    What is over for too long is forgotten.
    """
    _forget_old(now)
    run = _claim(kind, now)
    if run is None:
        return {"back_tests": 0}
    run.steps_done = 0
    try:
        result = try_out(run.asked, Interval(run.start, run.end), lambda: _count_step(run))
    except StoppedError:
        background.settle(run, state=State.STOPPED, finished_at=timezone.now())
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


@transaction.atomic
def _claim(kind: str, now: datetime) -> BackTestRun | None:
    """None while another one is worked at: a hub has two workers, for all that is due."""
    running = BackTestRun.objects.filter(state=State.RUNNING)
    if not has_lock(LOCK) or running.filter(worked_until__gt=now).exists():
        return None
    first = running.order_by("pk").first()
    if first is None or first.kind != kind:
        return None
    return background.claim(BackTestRun.objects.filter(pk=first.pk), now, claimed_for=CLAIMED_FOR)


def _forget_old(now: datetime) -> None:
    over = BackTestRun.objects.exclude(state=State.RUNNING)
    newest_ones = over.order_by("-pk").values_list("pk", flat=True)[:KEPT]
    over.exclude(pk__in=list(newest_ones), finished_at__gt=now - HOLDS).delete()
