"""What is judged: windows as columns, who held which GPU, what is known of the GPUs.

Pure values.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger.policy import FIGURES, STATES, Policy
from fleetwatch.lib.spans import Span

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Spans = Sequence[Span]

NOBODY = -1  # no job's id
FOREVER_MS = 2**53

DRAINED = "drained"  # the reason of an outage that takes no held time

# The columns that judging reads; any may be absent from the frame (not read).
COLUMNS = (
    "util_mean", "util_max", "util_zero_fraction", "spin_fraction", "gr_engine_active", "sm_active",
    "sm_active_max", "process_sm_ratio", "tensor_active", "dram_active", "fp64_active",
    "memory_used_bytes", "power_w", "energy_j", "encoder_ratio", "decoder_ratio", "jpeg_ratio",
    "ofa_ratio", "pcie_rx_bytes_s", "pcie_tx_bytes_s", "nvlink_rx_bytes_s", "nvlink_tx_bytes_s",
    "process_count", "live_process_count",
)  # fmt: skip


class Windows(Protocol):
    """Columns of windows, one row per window, in any order (telemetry.frames.Frame is one).

    Times in ms; columns hold NaN where a value was not read.
    """

    @property
    def gpu_id(self) -> Ints: ...
    @property
    def start_ms(self) -> Ints: ...
    @property
    def end_ms(self) -> Ints: ...
    @property
    def observed_ms(self) -> Ints: ...
    @property
    def boot_start_ms(self) -> Ints: ...
    @property
    def sequence(self) -> Ints: ...
    @property
    def columns(self) -> Mapping[str, Floats]: ...


@dataclass(frozen=True, slots=True)
class Capacity:
    """One GPU that is judged, and one [start_ms, end_ms) over which it is capacity; one that came
    back has several.

    A MIG instance has a parent and a weight: the share of the parent that it is, 0 to 1.
    `is_live`: the end is only where the node's capacity ends for now.
    """

    gpu_id: int
    start_ms: int
    end_ms: int
    is_live: bool = True
    parent_id: int | None = None
    weight: float = 1.0
    idle_w: float | None = None
    limit_w: float | None = None
    # (from when on, watts) of this one GPU, which count before idle_w
    idle_steps: Sequence[tuple[int, float]] = ()

    @property
    def whole_id(self) -> int:
        """The physical GPU that it is, or is a part of."""
        return self.gpu_id if self.parent_id is None else self.parent_id


def spans_by_gpu(capacities: Iterable[Capacity]) -> dict[int, list[Span]]:
    """GPU id -> when it is capacity."""
    spans: dict[int, list[Span]] = {}
    for capacity in capacities:
        spans.setdefault(capacity.gpu_id, []).append((capacity.start_ms, capacity.end_ms))
    return spans


class Hold(Protocol):
    """A job's hold on a GPU, as one source asserted it; `share` None = not known
    (jobs.selectors.Holding is one).
    """

    @property
    def gpu_id(self) -> int: ...
    @property
    def job_id(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def share(self) -> float | None: ...
    @property
    def spans(self) -> Spans: ...


class SourceReport(Protocol):
    """When a job source of the node answered (ok) or did not (jobs.selectors.SourceSpans is
    one).
    """

    @property
    def kind(self) -> str: ...
    @property
    def ok(self) -> bool: ...
    @property
    def spans(self) -> Spans: ...


@dataclass(frozen=True, slots=True)
class Outage:
    """Positive evidence that a GPU cannot work over [start_ms, end_ms). A drain counts only while
    nothing is allocated.

    `is_revived`: its end is that the GPU showed activity, not that anybody said so.
    """

    start_ms: int
    end_ms: int
    reason: str
    is_revived: bool = False

    @property
    def is_drain(self) -> bool:
        return self.reason == DRAINED


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What is known of one node's GPUs beside their windows; from `silent_ms` on it gave no sign of
    life; before `changed_ms` all is as it was when they were judged last.
    """

    capacities: Sequence[Capacity]
    holdings: Sequence[Hold]
    sources: Sequence[SourceReport]
    outages: Mapping[int, Sequence[Outage]]
    silent_ms: int = FOREVER_MS
    changed_ms: int = 0


@dataclass(frozen=True, slots=True)
class Question:
    """What is judged: the windows of some nodes, and what is known beside them, over cuts[0] to
    cuts[-1]; answered for `target` alone.

    `cuts` are the edges of entries, ascending, context included.
    """

    windows: Windows
    nodes: Sequence[NodeContext]
    cuts: Ints
    target: Span
    policy: Policy

    @property
    def capacities(self) -> list[Capacity]:
        """Those of all nodes."""
        return [gpu for node in self.nodes for gpu in node.capacities]


class Entry(NamedTuple):
    """GPU time of one GPU in one cut, of one holder, in one state; energy None = not read."""

    gpu_id: int
    cut_ms: int
    job_id: int | None
    state: str
    kind: str
    reason: str
    signal: str
    efficiency_source: str
    tier: str
    gpu_ms: int
    energy_j: float | None


# state, kind, reason, signal, efficiency source, tier
Words = tuple[str, str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries as columns, one value per entry; `job_id` is NOBODY and `energy_j` NaN where it is
    None, `words` a position in `texts`.
    """

    gpu_id: Ints
    cut_ms: Ints
    job_id: Ints
    words: Ints
    gpu_ms: Ints
    energy_j: Floats
    texts: Sequence[Words]

    def rows(self, places: Ints | slice) -> Iterator[tuple[Any, ...]]:
        """The columns' values of the entries at these places, one entry after the other."""
        columns = (self.gpu_id, self.cut_ms, self.job_id, self.words, self.gpu_ms, self.energy_j)
        return zip(*(column[places].tolist() for column in columns), strict=True)

    def where(self, keep: Mask | Ints) -> "Entries":
        """These entries alone."""
        names = [column.name for column in fields(self) if column.name != "texts"]
        return replace(self, **{name: getattr(self, name)[keep] for name in names})

    def __iter__(self) -> Iterator[Entry]:
        """Each on its own: slow for many."""
        for gpu_id, cut_ms, job_id, words, gpu_ms, energy_j in self.rows(slice(None)):
            job = None if job_id == NOBODY else job_id
            energy = None if math.isnan(energy_j) else energy_j
            yield Entry._make((gpu_id, cut_ms, job, *self.texts[words], gpu_ms, energy))


_NONE = np.zeros(0, dtype=np.int64)
NO_ENTRIES = Entries(_NONE, _NONE, _NONE, _NONE, _NONE, np.zeros(0), ())


@dataclass(frozen=True, slots=True)
class RunParts:
    """Parts of runs, each within one cut: one value per part; those of one GPU and holder in order
    of time.

    `job_id` is NOBODY where no job holds it; `cut_ms` the start of the cut; `condition` a position
    in CONDITIONS. `continues`: it goes on from the part before it of the same GPU, holder and
    condition.
    """

    gpu_id: Ints
    job_id: Ints
    cut_ms: Ints
    condition: Ints
    start_ms: Ints
    end_ms: Ints
    continues: Mask
    state_ms: Ints  # parts x STATES
    figures: Floats  # parts x FIGURES

    def where(self, keep: Mask | Ints) -> "RunParts":
        """These parts alone."""
        return RunParts(*(getattr(self, column.name)[keep] for column in fields(self)))

    @classmethod
    def together(cls, several: Sequence["RunParts"]) -> "RunParts":
        """The parts of one after the other; there is at least one."""
        return cls(
            *(
                np.concatenate([getattr(each, column.name) for each in several])
                for column in fields(cls)
            )
        )


NO_PARTS = RunParts(
    _NONE,
    _NONE,
    _NONE,
    _NONE,
    _NONE,
    _NONE,
    _NONE == 0,
    np.zeros((0, len(STATES)), dtype=np.int64),
    np.zeros((0, len(FIGURES))),
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the ledger says of nodes' GPUs in the cuts that were asked for."""

    entries: Entries
    parts: RunParts
    cells: dict[str, Ints]  # rows of cell_states

    def parted(self, groups: Sequence[Collection[int]]) -> list["Judgement"]:
        """What it says of each group of GPUs; it says nothing of others."""
        of_gpu = {gpu_id: number for number, group in enumerate(groups) for gpu_id in group}
        entries = _by_group(self.entries.gpu_id, of_gpu, len(groups))
        parts = _by_group(self.parts.gpu_id, of_gpu, len(groups))
        cells = _by_group(self.cells["gpu_id"], of_gpu, len(groups))
        return [
            Judgement(
                self.entries.where(entries[number]),
                self.parts.where(parts[number]),
                {name: values[cells[number]] for name, values in self.cells.items()},
            )
            for number in range(len(groups))
        ]


def _by_group(gpu_id: Ints, of_gpu: Mapping[int, int], groups: int) -> list[Ints]:
    """The rows of each group, in order."""
    gpu_ids = np.array(sorted(of_gpu), dtype=np.int64)
    group = np.array([of_gpu[each] for each in gpu_ids.tolist()], dtype=np.int64)
    number = group[np.searchsorted(gpu_ids, gpu_id)]
    order = np.argsort(number, kind="stable")
    return np.split(order, np.searchsorted(number[order], np.arange(1, groups)))


class Columns(dict[str, Floats]):
    """The columns of windows by name; one that nobody read is all NaN, and not `in` them."""

    def __init__(self, windows: Windows) -> None:
        read = windows.columns.items()
        super().__init__({name: values for name, values in read if not _is_unread(values)})
        self.unread: Floats = np.broadcast_to(np.nan, len(windows.gpu_id))

    def __missing__(self, name: str) -> Floats:
        return self.unread


def _is_unread(values: Floats) -> bool:
    """Whether it is NaN all over, as one value that takes no memory."""
    return values.strides == (0,) and bool(np.isnan(values[:1]).all())
