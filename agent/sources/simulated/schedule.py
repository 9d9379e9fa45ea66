"""Which simulated jobs hold which GPUs when: a function of the specification and the time alone.

Time is cut into slots of two days (each node at its own hour); a slot's jobs are drawn
from the node's seed and the slot's number, so a restart continues the same story and
history can be told backwards. What recurs has GPUs of its own and is drawn by day.
"""

import random
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Callable, Iterator, List, Optional, Tuple

from agent.sources.simulated.archetype import Archetype
from agent.sources.simulated.archetypes import BY_NAME
from agent.sources.simulated.recurring import GPUS, GPUS_EACH, Run, runs_of_day
from agent.sources.simulated.spec import Spec
from agent.sources.simulated.teams import MIXES, TEAMS, Mix, Team, Weights
from agent.sources.simulated.traits import Draw
from agent.sources.simulated.troubles import DAY_MS, HOUR_MS, Spans, faults_between

SLOT_MS = 48 * HOUR_MS
FIRST_SLOT = 10_045  # early 2025: keeps job numbers short
JOBS_PER_SLOT = 256
NODES = 128  # seeds that differ modulo this give different job numbers
SHORTEST_MS = 300_000
Lane = Tuple[int, ...]  # GPUs that a job takes whole
LONGEST_MS = 40 * HOUR_MS


@dataclass(frozen=True)
class SimulatedJob:
    """One job on this node, over [start_ms, end_ms); its numbers are drawn by `seed`."""

    number: int
    cluster: str
    name: str
    user: str
    account: str
    archetype: Archetype
    gpus: Lane
    start_ms: int
    end_ms: int
    seed: str
    draw: Callable[[str], Draw] = Draw

    @property
    def key(self) -> str:
        """`scheduler/cluster/id`, as the wire names it."""
        return "slurm/%s/%d" % (self.cluster, self.number)


def jobs_between(spec: Spec, start_ms: int, end_ms: int) -> List[SimulatedJob]:
    """The jobs that overlap [start_ms, end_ms), by start; also what a job left behind (not
    allocated).
    """
    offset = _slot_offset(spec)
    slots = range((start_ms + offset) // SLOT_MS, (end_ms - 1 + offset) // SLOT_MS + 1)
    days = range(start_ms // DAY_MS, (end_ms - 1) // DAY_MS + 1) if spec.recurring else ()
    drawn = (*(_slot(spec, slot) for slot in slots), *(_day(spec, day) for day in days))
    jobs = [
        job
        for several in drawn
        for job in several
        if job.start_ms < end_ms and job.end_ms > start_ms
    ]
    return sorted(jobs, key=lambda job: (job.start_ms, job.number))


def _slot_offset(spec: Spec) -> int:
    return random.Random("%d/slot" % spec.seed).randrange(SLOT_MS // 60_000) * 60_000


@lru_cache(maxsize=64)
def _slot(spec: Spec, slot: int) -> Tuple[SimulatedJob, ...]:
    """All jobs of one slot; none reaches over its end."""
    start_ms = slot * SLOT_MS - _slot_offset(spec)
    rng = random.Random("%d/%d" % (spec.seed, slot))
    mix = MIXES[spec.mix]
    numbers = count(_first_number(spec, slot))
    jobs = [
        job
        for lane in _lanes(rng, mix, spec.count - GPUS * spec.recurring)
        for job in _lane(rng, spec, lane, start_ms=start_ms, numbers=numbers)
    ]
    return _alive(spec, jobs, start_ms, start_ms + SLOT_MS)


def _first_number(spec: Spec, slot: int) -> int:
    return ((slot - FIRST_SLOT) * NODES + spec.seed % NODES) * JOBS_PER_SLOT


@lru_cache(maxsize=64)
def _day(spec: Spec, day: int) -> Tuple[SimulatedJob, ...]:
    """The recurring jobs of one UTC day, on the node's last GPUs; their numbers are the last of a
    slot's.
    """
    runs = runs_of_day(spec.seed, day)
    slot, place = divmod(day, SLOT_MS // DAY_MS)
    number = _first_number(spec, slot) + JOBS_PER_SLOT - (place + 1) * len(runs)
    jobs = [_recurring(spec, run, number + index) for index, run in enumerate(runs)]
    return _alive(spec, jobs, day * DAY_MS, (day + 1) * DAY_MS)


def _recurring(spec: Spec, run: Run, number: int) -> SimulatedJob:
    """The run as a job; all runs of a name that waste, and all that are mended, draw the same
    numbers: it is the same program.
    """
    first = spec.count - GPUS + run.place * GPUS_EACH
    return SimulatedJob(
        number,
        spec.cluster,
        run.name,
        run.series.user,
        run.series.account,
        BY_NAME[run.archetype],
        tuple(range(first, first + GPUS_EACH)),
        run.start_ms,
        run.end_ms,
        "%d/%s/%s" % (spec.seed, run.name, run.archetype),
    )


def _alive(
    spec: Spec, jobs: List[SimulatedJob], start_ms: int, end_ms: int
) -> Tuple[SimulatedJob, ...]:
    """The jobs of that time as far as their GPUs live; what is too short then is no job."""
    faults = faults_between(spec, start_ms, end_ms)
    cut = (_cut(job, faults, spec.faulty) for job in jobs)
    return tuple(job for job in cut if job.end_ms - job.start_ms >= SHORTEST_MS)


def _lanes(rng: random.Random, mix: Mix, gpus: int) -> List[Lane]:
    """The node's GPUs parted into groups that a job takes whole."""
    sizes = list(rng.choice(mix.partings))
    rng.shuffle(sizes)
    lanes: List[Lane] = []
    first = 0
    while first < gpus:
        size = min(sizes[len(lanes) % len(sizes)], gpus - first)
        lanes.append(tuple(range(first, first + size)))
        first += size
    return lanes


def _lane(
    rng: random.Random, spec: Spec, gpus: Lane, *, start_ms: int, numbers: Iterator[int]
) -> Iterator[SimulatedJob]:
    """Jobs one after the other on one group of GPUs, with the scheduler's pause between."""
    end_of_slot = start_ms + SLOT_MS - 60_000
    at_ms = start_ms + _ms(rng.uniform(0, 600))
    while at_ms < end_of_slot - SHORTEST_MS:
        team, archetype = _choose(rng, MIXES[spec.mix], size=len(gpus), at_ms=at_ms)
        end_ms = min(at_ms + _length_ms(rng, archetype), end_of_slot)
        if archetype.name != "free":
            number = next(numbers)
            user = _weighed(rng, team.weights)
            name = rng.choice(archetype.names)
            yield SimulatedJob(
                number,
                spec.cluster,
                name,
                user,
                team.account,
                archetype,
                gpus,
                at_ms,
                end_ms,
                "%d/%d" % (spec.seed, number),
            )
        at_ms = end_ms + _pause_ms(rng)


def _ms(seconds: float) -> int:
    """Of whole seconds."""
    return int(seconds) * 1000


def _pause_ms(rng: random.Random) -> int:
    return 20_000 + _ms(rng.expovariate(1 / 240))


def _length_ms(rng: random.Random, archetype: Archetype) -> int:
    hours = rng.lognormvariate(0.0, archetype.hours[1]) * archetype.hours[0]
    return max(SHORTEST_MS, min(_ms(hours * 3600), LONGEST_MS))


def _weighed(rng: random.Random, weights: Weights) -> str:
    return rng.choices(list(weights), weights=list(weights.values()))[0]


def _choose(rng: random.Random, mix: Mix, *, size: int, at_ms: int) -> Tuple[Team, Archetype]:
    """Who takes a free group of GPUs next, and for what."""
    team = TEAMS[_weighed(rng, mix.teams)]
    fitting = {name: weight for name, weight in team.habits.items() if _fits(name, size)}
    draw = rng.random()
    if not fitting or draw < mix.free:
        return team, BY_NAME["free"]
    if draw < mix.free + mix.leftover and size <= BY_NAME["leftover"].sizes[1]:
        return team, BY_NAME["leftover"]
    archetype = BY_NAME[_weighed(rng, fitting)]
    if archetype.in_office_hours and not 7 <= at_ms // HOUR_MS % 24 < 18:
        return team, BY_NAME["free"]
    return team, archetype


def _fits(name: str, size: int) -> bool:
    smallest, largest = BY_NAME[name].sizes
    return smallest <= size <= largest


def _cut(job: SimulatedJob, faults: Spans, faulty: Optional[int]) -> SimulatedJob:
    """The job as far as its GPUs live: a lost GPU ends it, and none starts on it."""
    for fault_start, fault_end in faults:
        if faulty in job.gpus and job.start_ms < fault_end and job.end_ms > fault_start:
            job = replace(job, end_ms=max(fault_start, job.start_ms))
    return job
