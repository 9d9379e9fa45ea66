"""The GPUs of a node and the MIG instances that are parts of them, each broken into segments.

Pure numpy.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fleetwatch.ledger.judgement import gpu_segments
from fleetwatch.ledger.judgement.columns import Activity, Holder, Member
from fleetwatch.ledger.judgement.gpu_segments import GPUSegments, Pieces
from fleetwatch.ledger.judgement.labels import NO_SIGNAL
from fleetwatch.ledger.judgement.observations import (
    Capacity,
    Floats,
    Hold,
    Ints,
    Mask,
    Outage,
    Question,
    Spans,
)
from fleetwatch.ledger.judgement.shares import largest_remainder, split_holders
from fleetwatch.lib.spans import difference, union

NO_PIECES = Pieces(*(np.zeros(0, dtype=np.int64),) * 3)


def members(question: Question, activity: Activity) -> list[Member]:
    """Every GPU and instance with capacity in the time asked about."""
    pieces = _pieces(question, activity)
    status = [
        gpu_segments.edges_of(spans) for spans in gpu_segments.scheduler_status(question.sources)
    ]
    instances: dict[int, list[Capacity]] = defaultdict(list)
    for gpu in sorted(question.capacities, key=lambda gpu: gpu.gpu_id):
        if gpu.parent_id is not None:
            instances[gpu.parent_id].append(gpu)
    members: list[Member] = []
    for gpu in question.capacities:
        start_ms = max(gpu.start_ms, int(question.cuts[0]))
        end_ms = min(gpu.end_ms, int(question.cuts[-1]))
        if gpu.parent_id is None and start_ms < end_ms:
            board = _Board(question, gpu, instances[gpu.gpu_id], pieces, activity, status)
            members += board.members(start_ms, end_ms)
    return members


def _pieces(question: Question, activity: Activity) -> dict[int, Pieces]:
    """Of each GPU the spans that its windows speak for."""
    windows = question.windows
    order = np.argsort(windows.gpu_id, kind="stable")
    ids, first = np.unique(windows.gpu_id[order], return_index=True)
    rows = np.split(order, first[1:]) if len(ids) else []
    return {
        int(gpu_id): gpu_segments.resolve(windows, rows=part, is_seen=activity.unseen == 0)
        for gpu_id, part in zip(ids, rows, strict=True)
    }


@dataclass(frozen=True, slots=True)
class _WholeGPU:
    """A hold on a GPU, as it counts for one of its instances."""

    gpu_id: int
    job_id: int
    kind: str
    share: float | None
    spans: Spans

    @classmethod
    def left(cls, held: Hold, taken: Spans) -> "_WholeGPU":
        """The hold in the time in which the instance itself is given to nobody."""
        return cls(held.gpu_id, held.job_id, held.kind, held.share, difference(held.spans, taken))


@dataclass(frozen=True, slots=True)
class _Board:
    question: Question
    gpu: Capacity
    instances: Sequence[Capacity]
    pieces: dict[int, Pieces]
    activity: Activity
    status: Sequence[Ints]  # edges of what schedulers said

    def members(self, start_ms: int, end_ms: int) -> Iterator[Member]:
        """The instances, then the GPU itself with what they leave of it."""
        segments = self._segments(start_ms, end_ms)
        length_ms = segments.end_ms - segments.start_ms
        nothing = np.zeros(len(length_ms), dtype=bool)
        if not self.instances:
            yield self._member(
                self.gpu, segments, row=segments.row, own_ms=length_ms, rest_is_free=nothing
            )
            return
        parts = self._parts(segments, length_ms)
        covered = self._tells(segments.row)
        for number, instance in enumerate(self.instances):
            row = gpu_segments.rows_at(
                segments.start_ms, self.pieces.get(instance.gpu_id, NO_PIECES)
            )
            covered |= self._tells(row)
            yield self._member(
                instance, segments, row=row, own_ms=parts[:, number], rest_is_free=nothing
            )
        is_split = parts[:, -1] < length_ms
        yield self._member(
            self.gpu,
            segments,
            row=segments.row,
            own_ms=parts[:, -1],
            rest_is_free=is_split & covered,
        )

    def _segments(self, start_ms: int, end_ms: int) -> GPUSegments:
        edges = [*self.status, np.array([self.question.silent_ms], dtype=np.int64)]
        for gpu in (self.gpu, *self.instances):
            spans = [
                (gpu.start_ms, gpu.end_ms),
                *((outage.start_ms, outage.end_ms) for outage in self._outages(gpu)),
            ]
            edges.append(
                gpu_segments.edges_of(
                    [*spans, *(span for held in self._holdings(gpu) for span in held.spans)]
                )
            )
        for instance in self.instances:
            pieces = self.pieces.get(instance.gpu_id, NO_PIECES)
            edges += [pieces.start_ms, pieces.end_ms]
        own = self.pieces.get(self.gpu.gpu_id, NO_PIECES)
        return gpu_segments.build(
            start_ms=start_ms, end_ms=end_ms, cuts=self.question.cuts, pieces=own, edges=edges
        )

    def _parts(self, segments: GPUSegments, length_ms: Ints) -> Ints:
        """Segments x (instances + the rest): whole milliseconds by weight."""
        alive = np.array(
            [
                gpu_segments.inside(segments.start_ms, [(gpu.start_ms, gpu.end_ms)])
                for gpu in self.instances
            ]
        )
        weights = alive * np.array([[gpu.weight] for gpu in self.instances])
        weights = weights / np.maximum(weights.sum(axis=0), 1.0)
        rest = np.maximum(1.0 - weights.sum(axis=0), 0.0)
        return largest_remainder(length_ms, np.concatenate([weights, rest[None, :]]).T)

    def _tells(self, row: Ints) -> Mask:
        """Where a window says that the GPU is there, be its activity readable or not (a MIG
        parent's never is).
        """
        if not len(self.activity.unseen):
            return np.zeros(len(row), dtype=bool)
        unseen = self.activity.unseen[np.maximum(row, 0)]
        return np.asarray((row >= 0) & ((unseen == 0) | (unseen == NO_SIGNAL)))

    def _holdings(self, gpu: Capacity) -> list[Hold]:
        """Its own; who was given the whole GPU holds its instances too, while nobody was given
        those.
        """
        own = [held for held in self.question.holdings if held.gpu_id == gpu.gpu_id]
        if gpu is self.gpu:
            return own
        taken = union(span for held in own for span in held.spans)
        whole = [
            _WholeGPU.left(held, taken)
            for held in self.question.holdings
            if held.gpu_id == self.gpu.gpu_id
        ]
        return own + [held for held in whole if held.spans]

    def _outages(self, gpu: Capacity) -> list[Outage]:
        """Its own, and those of the GPU that it is a part of."""
        own = list(self.question.outages.get(gpu.gpu_id, ()))
        return (
            own if gpu is self.gpu else own + list(self.question.outages.get(self.gpu.gpu_id, ()))
        )

    def _member(
        self, gpu: Capacity, segments: GPUSegments, *, row: Ints, own_ms: Ints, rest_is_free: Mask
    ) -> Member:
        # a whole GPU has every segment; of an instance some are not its
        alive = own_ms > 0 if self.instances else None
        holders, held, rest_ms = _holders(self._holdings(gpu), segments.start_ms, own_ms, alive)
        return Member(
            gpu_id=gpu.gpu_id,
            start_ms=segments.start_ms,
            end_ms=segments.end_ms,
            cut=segments.cut,
            row=row if alive is None else np.where(alive, row, -1),
            energy_row=segments.row,
            holders=holders,
            held=held,
            rest_ms=rest_ms,
            rest_is_free=rest_is_free & (held == 0) if self.instances else rest_is_free,
            outages=self._outages(gpu),
            first_ms=gpu.start_ms,
            # silence says nothing of what went on before it: to where anything was heard
            live_end_ms=min(gpu.end_ms, self.question.silent_ms) if gpu.is_live else None,
        )


def _holders(
    holdings: Sequence[Hold], start_ms: Ints, own_ms: Ints, alive: Mask | None
) -> tuple[list[Holder], Ints, Ints]:
    """One holder per job, by job id; how many hold each segment; and the milliseconds of it that
    none holds.
    """
    count = np.zeros(len(start_ms), dtype=np.int64)
    jobs: list[tuple[int, list[Hold], list[tuple[int, int]], Mask]] = []
    for job_id in sorted({held.job_id for held in holdings}):
        mine = [held for held in holdings if held.job_id == job_id]
        spans = union(span for held in mine for span in held.spans)
        mask = gpu_segments.inside(start_ms, spans)
        if alive is not None:
            mask &= alive
        if mask.any():
            jobs.append((job_id, mine, spans, mask))
            count += mask
    is_shared = any(held.share is not None and held.share < 1 for held in holdings) or bool(
        count.max(initial=0) > 1
    )
    if not is_shared:
        parts, rest_ms = [own_ms] * len(jobs), own_ms * (count == 0)
    else:
        shares = [_share(mine, start_ms) for _, mine, _, _ in jobs]
        parts, rest_ms = split_holders(own_ms, holds=[mask for *_, mask in jobs], shares=shares)
    holders = [
        Holder(job_id, mine[0].kind, spans, mask, part)
        for (job_id, mine, spans, mask), part in zip(jobs, parts, strict=True)
    ]
    return holders, count, rest_ms


def _share(mine: Sequence[Hold], start_ms: Ints) -> Floats:
    """A job's granted share at each segment (NaN: not known).

    Several sources may name one job: an unknown share stays unknown, of known ones the larger
    counts.
    """
    share = np.zeros(len(start_ms))
    for held in mine:
        inside = gpu_segments.inside(start_ms, union(held.spans))
        share = np.where(
            inside, np.maximum(share, np.nan if held.share is None else held.share), share
        )
    return share
