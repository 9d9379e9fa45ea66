"""The past again with other GPUs: which runs of jobs would have waited, and which never started.
Pure.

Each run asks for its GPUs, all at once, when it did start, in order of arrival; a smaller one goes
past one that does not fit. It runs as long as it did. With as many GPUs as there were, each starts
when it did.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import NamedTuple

# GPUs of one job that nodes tell within so long began together
GANG_MS = 300_000


class Hold(NamedTuple):
    """A job's hold on a GPU."""

    gpu_id: int
    gpu_model: str
    job_id: int
    start_ms: int
    end_ms: int


class Run(NamedTuple):
    """GPUs of one model that a job took together; how long it kept each of them (ascending)."""

    gpu_model: str
    start_ms: int
    kept_ms: tuple[int, ...]


# when the number of a model's GPUs changed, and to what, in order
Counts = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the runs of one GPU model. Their GPU-milliseconds are those that fitted into
    the time, those that would have come after its end, and those of runs that no number of free
    GPUs could have taken. Of those that waited `cut` still did at the end: their waits, and what is
    averaged of them, are longer than what is known. Runs that `moved` started on another model, and
    `moved_ms` of what fitted is theirs; `hosted` are runs of other models that started on this one.
    """

    runs: int = 0
    waited: int = 0
    wait_ms: int = 0  # of those that waited, together, to their start or the end of the time
    unfit: int = 0
    fitted_ms: int = 0
    late_ms: int = 0
    unfit_ms: int = 0
    moved: int = 0
    moved_ms: int = 0
    hosted: int = 0
    cut: int = 0
    longest_ms: int = 0  # a run's longest wait

    @property
    def asked_ms(self) -> int:
        return self.fitted_ms + self.late_ms + self.unfit_ms

    @property
    def prompt(self) -> int:
        """Runs that start when they did."""
        return self.runs - self.waited - self.unfit

    @property
    def fitting(self) -> int:
        """Runs that can start at all: the others don't wait."""
        return self.runs - self.unfit

    @property
    def mean_wait_ms(self) -> int:
        return self.wait_ms // self.waited if self.waited else 0

    @property
    def mean_wait_of_all_ms(self) -> int:
        """On the mean of all runs that fit, those that did not wait included."""
        return self.wait_ms // self.fitting if self.fitting else 0


def alone(holds: Iterable[Hold]) -> list[Hold]:
    """Each GPU's time held once: who came to a GPU that another job held shares that hold, and what
    goes on without a break is that of who came first.
    """
    merged: list[Hold] = []
    for hold in sorted(holds, key=lambda hold: (hold.gpu_id, hold.start_ms, -hold.end_ms)):
        last = merged[-1] if merged else None
        if last and last.gpu_id == hold.gpu_id and hold.start_ms < last.end_ms:
            merged[-1] = last._replace(end_ms=max(last.end_ms, hold.end_ms))
        else:
            merged.append(hold)
    return merged


def runs(holds: Iterable[Hold]) -> list[Run]:
    """The runs of holds, each GPU being held by one at a time, by their start.

    What a job took of a model within minutes is one run, from its first GPU's start on, unless
    another job still held the GPU then.
    """
    gangs = _Gangs()
    for hold in sorted(holds, key=lambda hold: (hold.start_ms, hold.gpu_id)):
        gangs.take(hold)
    return sorted(map(_Gang.run, gangs.every), key=lambda run: run.start_ms)


@dataclass(slots=True)
class _Gang:
    """What a job takes together from a moment on."""

    gpu_model: str
    start_ms: int
    kept_ms: list[int] = field(default_factory=list)

    def may_take(self, hold: Hold, free_ms: int) -> bool:
        """Whether the hold began with it, of a GPU that was free since then."""
        return not self.is_over(hold) and free_ms <= self.start_ms

    def is_over(self, hold: Hold) -> bool:
        """Whether the hold began too late to be together with it."""
        return hold.start_ms - self.start_ms > GANG_MS

    def run(self) -> Run:
        return Run(self.gpu_model, self.start_ms, tuple(sorted(self.kept_ms)))


@dataclass(slots=True)
class _Gangs:
    """What jobs took so far, in order of time."""

    every: list[_Gang] = field(default_factory=list)
    newest: dict[tuple[int, str], _Gang] = field(default_factory=dict)  # of a job and model
    free_ms: dict[int, int] = field(default_factory=dict)  # by GPU, since when it was free

    def take(self, hold: Hold) -> None:
        of_job = hold.job_id, hold.gpu_model
        gang = self.newest.get(of_job)
        if gang is None or not gang.may_take(hold, self.free_ms.get(hold.gpu_id, 0)):
            gang = _Gang(hold.gpu_model, hold.start_ms)
            self.every.append(gang)
            # one that is minutes old already still takes what comes within them
            if of_job not in self.newest or self.newest[of_job].is_over(hold):
                self.newest[of_job] = gang
        gang.kept_ms.append(hold.end_ms - gang.start_ms)
        self.free_ms[hold.gpu_id] = hold.end_ms


def replay(
    arrivals: Sequence[Run],
    counts: Mapping[str, Counts],
    end_ms: int,
    *,
    fewer: Mapping[str, int],
    elsewhere: bool = False,
) -> dict[str, Outcome]:
    """By GPU model what became of its runs up to `end_ms`, had there been so many GPUs `fewer` of a
    model (negative: more) all the time.

    `counts` has the model of every run. `elsewhere`: a run takes another model's GPUs where its own
    has too few free ones.
    """
    pools = _pools(counts, fewer)
    largest = {model: max(count for _, count in pool) for model, pool in pools.items()}
    time = _Time(end_ms, dict.fromkeys(pools, 0), _events(pools), elsewhere)
    for number, run in enumerate(arrivals):
        time.go_to(run.start_ms)
        most = max(largest.values()) if elsewhere else largest[run.gpu_model]
        if len(run.kept_ms) > most:
            time.unfit.append(run)
        else:
            time.arrive(number, run)
    time.go_to(end_ms)
    return time.outcomes()


def _pools(counts: Mapping[str, Counts], fewer: Mapping[str, int]) -> dict[str, Counts]:
    return {
        model: [(at_ms, max(0, count - fewer.get(model, 0))) for at_ms, count in pool]
        for model, pool in counts.items()
    }


# when, of which model, how many GPUs more
_Event = tuple[int, str, int]


def _events(pools: Mapping[str, Counts]) -> list[_Event]:
    events = []
    for model, pool in pools.items():
        before = 0
        for at_ms, count in pool:
            events.append((at_ms, model, count - before))
            before = count
    heapify(events)
    return events


@dataclass(slots=True)
class _Time:
    """What is free and who waits at a moment that only goes on."""

    end_ms: int
    free: dict[str, int]  # by model; below 0 where GPUs went that a run still keeps
    events: list[_Event]
    elsewhere: bool
    # by model and number of GPUs, in order of arrival
    queues: dict[tuple[str, int], deque[tuple[int, Run]]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    # each with its wait, and the model that it runs on
    started: list[tuple[Run, int, str]] = field(default_factory=list)
    unfit: list[Run] = field(default_factory=list)

    def go_to(self, moment_ms: int) -> None:
        """What becomes free up to the moment, and at it, goes to who waits."""
        while self.events and self.events[0][0] <= moment_ms:
            at_ms = self.events[0][0]
            while self.events and self.events[0][0] == at_ms:
                _, model, more = heappop(self.events)
                self.free[model] += more
            self._start_waiting(at_ms)

    def arrive(self, number: int, run: Run) -> None:
        if not self._start(run, run.start_ms):
            self.queues[run.gpu_model, len(run.kept_ms)].append((number, run))

    def _start_waiting(self, at_ms: int) -> None:
        """The first that fit, in order of arrival."""
        while at_ms < self.end_ms:
            fitting = [key for key, queue in self.queues.items() if queue and self._pool(*key)]
            if not fitting:
                return
            first = min(fitting, key=lambda key: self.queues[key][0][0])
            self._start(self.queues[first].popleft()[1], at_ms)

    def _start(self, run: Run, at_ms: int) -> bool:
        model = self._pool(run.gpu_model, len(run.kept_ms))
        if model is None:
            return False
        self.free[model] -= len(run.kept_ms)
        for kept_ms in run.kept_ms:
            heappush(self.events, (at_ms + kept_ms, model, 1))
        self.started.append((run, at_ms - run.start_ms, model))
        return True

    def _pool(self, own: str, gpus: int) -> str | None:
        """The model that has so many free: the own one, or else the one with most; None: none."""
        if self.free.get(own, 0) >= gpus:
            return own
        most = max(self.free, key=lambda model: self.free[model], default=own)
        return most if self.elsewhere and self.free.get(most, 0) >= gpus else None

    def outcomes(self) -> dict[str, Outcome]:
        """By model of what was asked for."""
        by_model: dict[str, list[Outcome]] = defaultdict(list)
        for model, part in self._parts():
            by_model[model].append(part)
        return {model: together(parts) for model, parts in by_model.items()}

    def _parts(self) -> Iterator[tuple[str, Outcome]]:
        """Of each run by its model, and once more of what moved, by the model that it runs on."""
        for run, wait_ms, model in self.started:
            is_moved = model != run.gpu_model
            yield run.gpu_model, _of_started(run, wait_ms, self.end_ms, is_moved=is_moved)
            if is_moved:
                yield model, Outcome(hosted=1)
        for queue in self.queues.values():
            for _, run in queue:
                yield run.gpu_model, _of_waiting(run, self.end_ms)
        for run in self.unfit:
            yield run.gpu_model, Outcome(runs=1, unfit=1, unfit_ms=_within(run, 0, self.end_ms))


def _of_waiting(run: Run, end_ms: int) -> Outcome:
    """One that still waits at the end."""
    late_ms = _within(run, 0, end_ms)
    wait_ms = end_ms - run.start_ms
    return Outcome(runs=1, waited=1, wait_ms=wait_ms, late_ms=late_ms, cut=1, longest_ms=wait_ms)


def _of_started(run: Run, wait_ms: int, end_ms: int, *, is_moved: bool) -> Outcome:
    """One that started after that wait."""
    asked_ms = _within(run, 0, end_ms)
    fitted_ms = _within(run, wait_ms, end_ms)
    return Outcome(
        runs=1,
        waited=int(wait_ms > 0),
        wait_ms=wait_ms,
        fitted_ms=fitted_ms,
        late_ms=asked_ms - fitted_ms,
        moved=int(is_moved),
        moved_ms=fitted_ms if is_moved else 0,
        longest_ms=wait_ms,
    )


def _within(run: Run, wait_ms: int, end_ms: int) -> int:
    """GPU-milliseconds up to the end, had it begun so much later."""
    rest_ms = max(0, end_ms - run.start_ms - wait_ms)
    return sum(min(kept_ms, rest_ms) for kept_ms in run.kept_ms)


def together(parts: Sequence[Outcome]) -> Outcome:
    """The sum of outcomes, and the longest of their waits."""
    sums = Outcome(*(sum(getattr(part, name) for part in parts) for name in Outcome.__slots__))
    return replace(sums, longest_ms=max((part.longest_ms for part in parts), default=0))
