"""The condition orphaned: processes, or memory that they left, on a GPU that no job was given."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fleetwatch.alerts.breach import STALE_MS, Breach, Condition, Settings, Watch
from fleetwatch.alerts.episodes import Episode
from fleetwatch.alerts.measuring import gpu_lanes
from fleetwatch.alerts.measuring.gpu_costs import Cost, Part, cost_of_parts
from fleetwatch.alerts.measuring.gpu_words import gpu_labels, place_of, with_model
from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.diagnosis.causes.orphaned import CAUSE
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import GPUProcess
from fleetwatch.jobs.selectors import clusters_of
from fleetwatch.ledger.models import Run
from fleetwatch.notify import wording
from fleetwatch.notify.message import one_line

STATE = "orphaned"
FREED = "nothing holds it any more, or a job was given it"
MAX_PROCESSES = 8
ZOMBIE = "Z"  # as /proc/PID/stat has it
ROOT_ALIKE = "It may also be a monitoring tool, a display server, or work beside the scheduler."


@dataclass(frozen=True, slots=True)
class Orphan:
    """What holds a GPU, as far as it is seen, and what that costs."""

    gpu: GPU
    processes: tuple[GPUProcess, ...]
    cost: Cost
    clusters: tuple[str, ...]

    @property
    def users(self) -> tuple[str, ...]:
        """Whose the processes are, as their node says."""
        return tuple(sorted({each.user for each in self.processes} - {""}))

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """The GPU's, and whose the processes are."""
        users = {"user": self.users} if self.users else {}
        return gpu_labels([self.gpu], self.clusters) | users

    @property
    def memory_bytes(self) -> float | None:
        """What the processes hold; None where one was not read, or there is none."""
        amounts = [each.memory_bytes for each in self.processes]
        return None if not amounts or None in amounts else float(sum(filter(None, amounts)))


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode what holds the GPU, as far as it was seen, and what that costs; None of a GPU
    that nobody knows any more.
    """
    orphans = _orphans(episodes)
    return [
        None if orphan is None else _breach(episode, orphan, watch)
        for episode, orphan in zip(episodes, orphans, strict=True)
    ]


def _orphans(episodes: Sequence[Episode]) -> list[Orphan | None]:
    gpus = inventory.newest_rows({each.subject for each in episodes})
    ids = [gpu.pk for gpu in gpus.values()]
    held = _Held(
        _runs(ids, episodes),
        _processes(ids),
        RatesInForce(ids),
        clusters_of({gpu.node_id for gpu in gpus.values()}),
    )
    there = [(episode, gpus.get(episode.subject)) for episode in episodes]
    return [None if gpu is None else held.orphan(gpu, episode) for episode, gpu in there]


@dataclass(frozen=True, slots=True)
class _Held:
    """What was read of some GPUs, by GPU; the clusters by node."""

    runs: Mapping[int, list[Part]]
    processes: Mapping[int, list[GPUProcess]]
    rates: RatesInForce
    clusters: Mapping[int, set[str]]

    def orphan(self, gpu: GPU, episode: Episode) -> Orphan:
        """What holds the GPU in the episode."""
        parts = _within(episode, self.runs.get(gpu.pk, ()))
        return Orphan(
            gpu,
            _seen(episode, self.processes.get(gpu.pk, ())),
            cost_of_parts(gpu.pk, parts, self.rates),
            tuple(self.clusters.get(gpu.node_id, ())),
        )


def _runs(ids: Collection[int], episodes: Sequence[Episode]) -> dict[int, list[Part]]:
    """By GPU when it was held, and for how long of that."""
    runs: dict[int, list[Part]] = defaultdict(list)
    since_ms = min((each.since_ms for each in episodes), default=0)
    until_ms = max((each.until_ms for each in episodes), default=0)
    rows = Run.objects.filter(Run.overlapping(since_ms, until_ms), gpu_id__in=ids, condition=STATE)
    columns = rows.order_by("start_ms").values_list("gpu_id", "start_ms", "end_ms", "state_ms")
    for gpu_id, start_ms, end_ms, state_ms in columns:
        runs[gpu_id].append((start_ms, end_ms, state_ms.get(STATE, 0)))
    return runs


def _within(episode: Episode, runs: Sequence[Part]) -> list[Part]:
    parts = []
    for began_ms, over_ms, run_ms in runs:
        start_ms = max(began_ms, episode.since_ms)
        end_ms = min(over_ms, episode.until_ms)
        if start_ms < end_ms:
            held_ms = run_ms * (end_ms - start_ms) // (over_ms - began_ms)
            parts.append((start_ms, end_ms, held_ms))
    return parts


def _processes(ids: Collection[int]) -> dict[int, list[GPUProcess]]:
    """By GPU what no job is known to own."""
    processes: dict[int, list[GPUProcess]] = defaultdict(list)
    rows = GPUProcess.objects.filter(gpu_id__in=ids, job=None)
    for each in rows.order_by("-memory_bytes", "pid"):
        processes[each.gpu_id].append(each)
    return processes


def _seen(episode: Episode, processes: Sequence[GPUProcess]) -> tuple[GPUProcess, ...]:
    """Those that were there where the episode ends."""
    near = [each for each in processes if abs(each.seen_ms - episode.until_ms) < STALE_MS]
    return tuple(near[:MAX_PROCESSES])


def _breach(episode: Episode, orphan: Orphan, watch: Watch) -> Breach:
    where = place_of(orphan.gpu)
    fixes, codes = _fixes(orphan)
    return Breach(
        subject=episode.subject,
        kind="gpu",
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="orphaned",
        tag="held by no job",
        title=f"held by no job · {with_model(orphan.gpu)}",
        where=where,
        what=f"{where}, which no job was given, was held by {_holders(orphan)}",
        does=f"{where}, which no job was given, is held by {_holders(orphan)}",
        has=f"{where}, which no job was given, has been held by {_holders(orphan)}",
        had="It had been held by no job",
        several="held by no job",
        limit=f"held by no job ≥ {watch.settings.minutes:g} min",
        name=where,
        owner=one_line(", ".join(orphan.users), 80),
        usd_per_hour=orphan.cost.usd_per_hour,
        cost_usd=orphan.cost.usd,
        counted_until_ms=episode.until_ms,
        has_example_rates=orphan.cost.has_example_rates,
        memory_bytes=orphan.memory_bytes,
        lines=_lines(orphan),
        actions=(*fixes, ROOT_ALIKE),
        codes=codes,
        labels=orphan.labels,
        facts={"processes": [_process(each) for each in orphan.processes]},
    )


def _holders(orphan: Orphan) -> str:
    count = len(orphan.processes)
    if not count:
        return "memory of no process that is seen"
    of = f" of {one_line(', '.join(orphan.users), 60)}" if orphan.users else ""
    return f"{count} process{'es' * (count > 1)}{of}"


def _lines(orphan: Orphan) -> tuple[tuple[str, str], ...]:
    processes = "; ".join(_in_words(each) for each in orphan.processes)
    held = wording.gigabytes(orphan.memory_bytes)
    return (("Processes", processes or "none is seen"), ("Memory held", held))


def _in_words(process: GPUProcess) -> str:
    words = [f"pid {process.pid}", one_line(process.user, 40), one_line(process.name, 60)]
    words += ["zombie"] if process.state == ZOMBIE else []
    return " ".join(word for word in words if word)


def _fixes(orphan: Orphan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """How to see what they are and to end them, and the commands that these end with; where none is
    seen, how the memory comes free.
    """
    pids = [str(each.pid) for each in orphan.processes if each.state != ZOMBIE]
    if not pids:
        step = CAUSE.fixes[1]
        return (f"Fix: {step.text} {step.code}",), (step.code,)
    look = f"ps -o pid,user,lstart,args -p {','.join(pids)}"
    end = f"kill {' '.join(pids)}"
    return (
        f"Fix: see on the node what they are, and ask whose they are: {look}",
        f"Fix: end what nobody misses (what it has not saved is lost): {end}",
    ), (look, end)


def _process(process: GPUProcess) -> dict[str, str | int | None]:
    return {
        "pid": process.pid,
        "user": process.user,
        "name": process.name,
        "state": process.state,
        "memory_bytes": process.memory_bytes,
    }


CONDITION = Condition(
    name="orphaned",
    label="Orphaned holder",
    sentence=(
        "Fires when processes, or memory that they left, hold a GPU that no job was given for"
        " {minutes} minutes."
    ),
    kind="gpu",
    unit="",
    low=0,
    high=0,
    usual=Settings(threshold=0, minutes=15),
    measure=partial(gpu_lanes.measured, condition=STATE, cleared=FREED),
    describe=describe,
    is_on=True,
    is_held=True,
    covers="the GPU's time that no job holds",
    state="orphaned",
)
