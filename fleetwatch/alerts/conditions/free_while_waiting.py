"""The condition free_while_waiting: GPUs of a cluster stand free while jobs wait that could have
taken them.

Known is how many GPUs the whole queue waits for: what fits for sure are nodes that are free
altogether, whatever model or partition each job asks for (diagnosis/judgement/waiting.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fleetwatch.alerts.breach import BELOW, Breach, Condition, Line, Settings, Watch
from fleetwatch.alerts.episodes import Episode, Level, Measured, Span, extend
from fleetwatch.alerts.measuring.job_lanes import UNKNOWN, Ints
from fleetwatch.diagnosis.causes import BY_CODE, OF_CLUSTERS
from fleetwatch.diagnosis.models import Finding
from fleetwatch.diagnosis.waiting_queues import QueueCells, queue_cells
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.lib.intervals import MINUTE_MS
from fleetwatch.notify.message import one_line

(QUEUE,) = OF_CLUSTERS
CAUSE = BY_CODE[QUEUE]
ACTIONS = (f"Fix: {CAUSE.fixes[0].text} {CAUSE.fixes[0].code}", CAUSE.alike)
CLEARED = "nothing waits any more that could have taken them"
# agents flush each 30 s and posting follows each minute; and what waits is two cells in a row: of
# the newest one nobody knows whether it does
SETTLED_MS = 3 * MINUTE_MS + CELL_MS


def measure(watch: Watch) -> Measured:
    """How many GPUs of each cluster stood free for jobs that waited. Where nobody told of the
    queue, or what nobody saw of the GPUs could make the difference, nothing is known.
    """
    spans: dict[str, list[Span]] = {}
    for cells in _cells(watch.start_ms, watch.end_ms):
        levels = _levels(cells, watch.settings)
        own = spans.setdefault(cells.cluster, [])
        for start_ms, level in zip(cells.start_ms.tolist(), levels.tolist(), strict=True):
            if level != UNKNOWN:
                extend(own, Span(start_ms, start_ms + CELL_MS, Level(level)))
    return Measured({name: own for name, own in spans.items() if own}, cleared=CLEARED)


def _cells(start_ms: int, end_ms: int) -> Iterable[QueueCells]:
    return queue_cells(start_ms, end_ms - SETTLED_MS, now_ms=end_ms)


def _levels(cells: QueueCells, settings: Settings) -> Ints:
    breach = settings.threshold
    levels: Ints = np.select(
        [
            np.isnan(cells.pending),
            cells.least >= breach,
            cells.most < settings.clear_at,
            cells.most < breach,
        ],
        [UNKNOWN, Level.BREACH, Level.CLEAR, Level.BETWEEN],
        UNKNOWN,
    )
    return levels


@dataclass(frozen=True, slots=True)
class Standing:
    """How it stood in an episode's last five minutes: GPUs that stood free for sure, and that
    jobs waited for.
    """

    free: int
    pending: int

    @property
    def gpus(self) -> str:
        """Those that stood free, in words."""
        return f"{self.free} GPU{'s' * (self.free != 1)}"

    @property
    def lines(self) -> tuple[Line, ...]:
        """What was measured."""
        return (
            ("Free on nodes that are free altogether", self.gpus),
            ("Jobs wait for", f"{self.pending} GPUs"),
        )


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode how many GPUs stood free and how many jobs waited for, at its end; None where
    nobody knows any more.
    """
    findings = _findings({each.subject for each in episodes})
    return [
        _breach(each, _standing(each), findings.get(each.subject, ""), watch) for each in episodes
    ]


def _findings(clusters: Iterable[str]) -> Mapping[str, str]:
    """By cluster the address of what diagnosis says of its queue."""
    rows = Finding.objects.filter(cluster__in=list(clusters), cause=QUEUE)
    return {cluster: f"/findings/{pk}" for pk, cluster in rows.values_list("pk", "cluster")}


def _standing(episode: Episode) -> Standing | None:
    last_ms = (episode.until_ms - 1) // CELL_MS * CELL_MS
    for cells in queue_cells(last_ms, last_ms + CELL_MS, now_ms=last_ms + 2 * CELL_MS):
        if cells.cluster == episode.subject and not np.isnan(cells.pending[0]):
            return Standing(int(cells.least[0]), int(cells.pending[0]))
    return None


def _breach(
    episode: Episode, standing: Standing | None, address: str, watch: Watch
) -> Breach | None:
    if standing is None:
        return None
    name = one_line(episode.subject, 60)
    return Breach(
        subject=episode.subject,
        kind="cluster",
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="free",
        tag="free while jobs wait",
        title=f"free while jobs wait · {standing.gpus} of {name}",
        where=name,
        what=f"At least {standing.gpus} of cluster {name} stood free while jobs waited for them",
        does=f"At least {standing.gpus} of cluster {name} stand free while jobs wait for them",
        has=f"Jobs have waited while at least {standing.gpus} of cluster {name} stood free",
        had="GPUs had stood free",
        limit=f"≥ {watch.settings.threshold:g} for {watch.settings.minutes:g} min",
        address=address,
        has_cost=False,
        lines=standing.lines,
        actions=ACTIONS,
        labels={"cluster": (episode.subject,), "cause": (QUEUE,)},
        facts={"free": standing.free, "pending": standing.pending},
    )


CONDITION = Condition(
    name="free_while_waiting",
    label="Free GPUs while jobs wait",
    sentence=(
        "Fires when {threshold} or more GPUs of a cluster have stood free for {minutes} minutes"
        " while jobs waited that could have taken them."
    ),
    kind="cluster",
    unit="GPUs",
    low=1,
    high=100_000,
    clears=BELOW,
    usual=Settings(threshold=8, minutes=60, min_coverage=0.8, clear_minutes=10),
    measure=measure,
    describe=describe,
    every_minutes=5,
)
