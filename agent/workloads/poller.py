"""A scheduler's books, read in a thread of their own: whoever asks gets the last answer at once,
and how old it is.

A slurmctld that is down blocks its client for ten seconds and more; readings of GPUs must not wait
for it.
"""

import logging
import threading
import time
from dataclasses import dataclass
from typing import Callable, FrozenSet, Optional

from agent.clock import Timer, elapsed_s
from agent.readings import (
    GPUs,
    Holdings,
    Scheduler,
    SchedulerError,
    SourceStatus,
    WatchfulScheduler,
)

log = logging.getLogger("agent.workloads")

# a longer silence is a gap: who holds the GPUs is not known then, which is not "nobody"
FRESH_INTERVALS = 2
MIN_PAUSE_S = 1.0  # between two questions, however long the first one took
LOOK_S = 1.0  # between two looks at what this host itself shows of a change
# After such a change at once, and once more when the scheduler has settled; a host where jobs of
# seconds come and go asks no more often than this.
HURRY_S = 3.0


@dataclass(frozen=True)
class Answer:
    """What the books say; `fresh` is None where nothing may be concluded, `known` the last that
    they ever said.
    """

    status: SourceStatus
    fresh: Optional[Holdings] = None
    known: Holdings = Holdings()  # noqa: RUF009 - frozen


class Poller:
    """Asks one scheduler again and again. The thread starts with the first look."""

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
        clock_s: Timer = elapsed_s,
    ) -> None:
        self.kind = scheduler.kind
        self._scheduler = scheduler
        self._now_ms = now_ms
        self._clock_s = clock_s
        self._mutex = threading.Lock()
        self._wake = threading.Event()
        self._is_stopped = False
        self._thread: Optional[threading.Thread] = None
        self._gpus: GPUs = ()
        self._answered_about: FrozenSet[str] = frozenset()
        self._known: Optional[Holdings] = None
        self._answered_s = 0.0
        self._seen_ms = 0
        self._trouble = ""

    def look(self, gpus: GPUs) -> Answer:
        """The last answer; the next question is about these GPUs. Never waits."""
        with self._mutex:
            self._gpus = gpus
            if self._known is not None and not self._is_about(gpus):
                self._wake.set()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="jobs-" + self.kind, daemon=True
                )
                self._thread.start()
            return self._answer()

    def stop(self) -> None:
        """No further question is asked; one under way ends by itself."""
        self._is_stopped = True
        self._wake.set()

    def ask(self) -> None:
        """One question, now, in the caller's thread."""
        gpus = self._gpus
        try:
            holdings = self._scheduler.poll(gpus, self._now_ms())
        except SchedulerError as error:
            text = str(error) or type(error).__name__
            if text != self._trouble:
                log.warning("the scheduler does not answer kind=%s: %s", self.kind, text)
            self._trouble = text
        # the top of a thread's loop: a bug in one reader must not end its questions
        except Exception as error:
            log.exception("the scheduler's answer was not understood kind=%s", self.kind)
            self._trouble = "its answer was not understood: %r" % error
        else:
            self._take(holdings, gpus)

    def _run(self) -> None:
        is_settling = False
        while not self._is_stopped:
            began_s = self._clock_s()
            self._wake.clear()
            self.ask()
            try:
                is_settling = self._pause(began_s, is_settling=is_settling)
            except Exception:  # as in ask
                log.exception("this host's traces of jobs were not understood kind=%s", self.kind)
                self._wake.wait(self._scheduler.interval_s)

    def _pause(self, began_s: float, *, is_settling: bool) -> bool:
        """Waits until the next question is due; True when a change on this host is why."""
        scheduler = self._scheduler
        if not isinstance(scheduler, WatchfulScheduler):
            self._wake.wait(
                max(MIN_PAUSE_S, began_s + self._scheduler.interval_s - self._clock_s())
            )
            return False
        while not self._wake.wait(LOOK_S):
            is_changed = scheduler.has_changed()
            age_s = self._clock_s() - began_s
            if age_s >= (HURRY_S if is_changed or is_settling else self._scheduler.interval_s):
                return is_changed
        return False

    def _take(self, holdings: Holdings, gpus: GPUs) -> None:
        with self._mutex:
            self._answered_about = frozenset(gpu.uuid for gpu in gpus)
            self._known = holdings
            self._answered_s = self._clock_s()
            self._seen_ms = self._now_ms()
        if self._trouble:
            log.info("the scheduler answers again kind=%s", self.kind)
        self._trouble = ""

    def _answer(self) -> Answer:
        if self._known is None:
            return Answer(
                SourceStatus(self.kind, ok=False, why=self._trouble or "it was not asked yet")
            )
        age_s = self._clock_s() - self._answered_s
        is_about = self._is_about(self._gpus)
        is_fresh = age_s < FRESH_INTERVALS * self._scheduler.interval_s and is_about
        why = self._trouble or (
            "it does not answer" if is_about else "it was not asked yet about a GPU that came"
        )
        if is_fresh:
            # what its books say of some jobs stands; of GPUs that they give to nobody nothing may
            # be concluded
            why = self._known.doubt
        status = SourceStatus(self.kind, ok=not why, seen_ms=self._seen_ms, why=why)
        return Answer(status, self._known if is_fresh else None, self._known)

    def _is_about(self, gpus: GPUs) -> bool:
        """False where there is a GPU that the last answer could not know: one plugged in, a new MIG
        instance.
        """
        return self._answered_about.issuperset(gpu.uuid for gpu in gpus)
