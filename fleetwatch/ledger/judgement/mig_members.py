"""The GPUs of a node and the MIG instances that are parts of them, each broken into segments.

Pure numpy.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from fleetwatch.ledger.judgement import gpu_segments
from fleetwatch.ledger.judgement.columns import Activity, Holder, Member, Schedulers, changes
from fleetwatch.ledger.judgement.gpu_segments import GPUSegments, Lane, Pieces
from fleetwatch.ledger.judgement.labels import NO_SIGNAL
from fleetwatch.ledger.judgement.observations import (
    Capacity,
    Floats,
    Hold,
    Ints,
    Mask,
    NodeContext,
    Outage,
    Question,
    Spans,
)
from fleetwatch.ledger.judgement.shares import largest_remainder, split_holders
from fleetwatch.lib.spans import Span, clip, difference, union

# a hold, and when it counts
Held = tuple[Hold, Spans]
NO_PIECES = Pieces(*(np.zeros(0, dtype=np.int64),) * 3)


def members(question: Question, activity: Activity) -> list[Member]:
    """Every GPU and instance with capacity in the time asked about."""
    pieces = _pieces(question, activity)
    # a window says that the GPU is there, be its activity readable or not (a MIG parent's never
    # is); one more, for no window (-1)
    speaks = np.append((activity.unseen == 0) | (activity.unseen == NO_SIGNAL), False)
    bounds = question.cuts[[0, -1]].tolist()
    boards = [
        (board, span)
        for node in question.nodes
        for board in _boards(node, pieces, speaks)
        for span in clip([(board.gpu.start_ms, board.gpu.end_ms)], *bounds)
    ]
    lanes = [board.lane(*span) for board, span in boards]
    every = zip(boards, gpu_segments.build(lanes, question.cuts), strict=True)
    return [member for (board, _), segments in every for member in board.members(segments)]


def _boards(node: NodeContext, pieces: Mapping[int, Pieces], speaks: Mask) -> Iterator["_Board"]:
    own_schedulers = Schedulers(*gpu_segments.scheduler_status(node.sources))
    edges = list(map(gpu_segments.edges_of, own_schedulers))
    edges.append(np.array([node.silent_ms], dtype=np.int64))
    instances = _instances(node.capacities)
    holdings: dict[int, list[Hold]] = defaultdict(list)
    for hold in node.holdings:
        holdings[hold.gpu_id].append(hold)
    for gpu in node.capacities:
        if gpu.parent_id is not None:
            continue
        yield _Board(
            node, gpu, instances[gpu.gpu_id], holdings, pieces, speaks, edges, own_schedulers
        )


def _instances(capacities: Iterable[Capacity]) -> Mapping[int, list[Capacity]]:
    """By GPU its instances, in order of id."""
    instances: dict[int, list[Capacity]] = defaultdict(list)
    for gpu in sorted(capacities, key=lambda gpu: gpu.gpu_id):
        if gpu.parent_id is not None:
            instances[gpu.parent_id].append(gpu)
    return instances


def _pieces(question: Question, activity: Activity) -> Mapping[int, Pieces]:
    """Of each GPU the spans that its windows speak for."""
    windows = question.windows
    whole = gpu_segments.by_gpu(windows)
    gpu_ids = windows.gpu_id[whole.row]
    first = np.flatnonzero(changes(gpu_ids))[: len(gpu_ids)]
    bounds = [*first.tolist(), len(gpu_ids)]
    pieces: dict[int, Pieces] = defaultdict(lambda: NO_PIECES)
    for gpu_id, low, high in zip(gpu_ids[first].tolist(), bounds, bounds[1:], strict=False):
        pieces[gpu_id] = whole.part(low, high)
    is_seen = activity.unseen == 0
    for gpu_id in gpu_ids[_tangled(whole, first)].tolist():
        pieces[gpu_id] = gpu_segments.resolve(windows, rows=pieces[gpu_id].row, is_seen=is_seen)
    return pieces


def _tangled(whole: Pieces, first: Ints) -> Ints:
    """The `first` pieces of those GPUs of which some do not come in order, or cover others: hardly
    any.
    """
    covered = np.flatnonzero(whole.end_ms[:-1] > whole.start_ms[1:]) + 1
    within = np.setdiff1d(covered, first)
    return np.unique(first[np.searchsorted(first, within, side="right") - 1])


@dataclass(frozen=True, slots=True)
class _Board:
    node: NodeContext
    gpu: Capacity
    instances: Sequence[Capacity]
    holdings: Mapping[int, Sequence[Hold]]  # of the node, by GPU
    pieces: Mapping[int, Pieces]
    speaks: Mask  # per window
    edges: Sequence[Ints]  # of the node
    schedulers: Schedulers

    def members(self, segments: GPUSegments) -> Iterator[Member]:
        """The instances, then the GPU itself with what they leave of it."""
        length_ms = segments.end_ms - segments.start_ms
        if not self.instances:
            yield self._member(self.gpu, segments, segments.row, length_ms, covered=False)
            return
        parts = self._parts(segments, length_ms)
        covered = self.speaks[segments.row]
        for number, instance in enumerate(self.instances):
            row = gpu_segments.rows_at(segments.start_ms, self.pieces[instance.gpu_id])
            covered |= self.speaks[row]
            yield self._part(instance, segments, row, parts[:, number], covered=False)
        yield self._part(
            self.gpu,
            segments,
            segments.row,
            parts[:, -1],
            covered=covered & (parts[:, -1] < length_ms),
        )

    def _part(
        self, gpu: Capacity, segments: GPUSegments, row: Ints, own_ms: Ints, *, covered: Mask | bool
    ) -> Member:
        """The instance, or what instances leave of the GPU: some segments are not its."""
        return self._member(gpu, segments, np.where(own_ms > 0, row, -1), own_ms, covered=covered)

    def lane(self, start_ms: int, end_ms: int) -> Lane:
        """What its segments over this time are built of."""
        spans: list[Span] = []
        for gpu in (self.gpu, *self.instances):
            spans.append((gpu.start_ms, gpu.end_ms))
            spans += [(outage.start_ms, outage.end_ms) for outage in self._outages(gpu)]
            spans += [span for _, held in self._holdings(gpu) for span in held]
        edges = [*self.edges, gpu_segments.edges_of(spans)]
        for instance in self.instances:
            pieces = self.pieces[instance.gpu_id]
            edges += [pieces.start_ms, pieces.end_ms]
        return Lane(start_ms, end_ms, self.pieces[self.gpu.gpu_id], edges)

    def _parts(self, segments: GPUSegments, length_ms: Ints) -> Ints:
        """Segments x (instances + the rest): whole milliseconds by weight."""
        weights = np.array(
            [
                gpu_segments.inside(segments.start_ms, [(gpu.start_ms, gpu.end_ms)]) * gpu.weight
                for gpu in self.instances
            ]
        )
        weights = weights / np.maximum(weights.sum(axis=0), 1.0)
        rest = np.maximum(1.0 - weights.sum(axis=0), 0.0)
        return largest_remainder(length_ms, np.vstack([weights, rest]).T)

    def _holdings(self, gpu: Capacity) -> list[Held]:
        """Its own; who was given the whole GPU holds its instances too, while nobody was given
        those.
        """
        own: list[Held] = [(hold, hold.spans) for hold in self.holdings.get(gpu.gpu_id, ())]
        if gpu is self.gpu:
            return own
        given = union(span for _, spans in own for span in spans)
        return own + [
            (hold, difference(hold.spans, given)) for hold in self.holdings.get(self.gpu.gpu_id, ())
        ]

    def _outages(self, gpu: Capacity) -> list[Outage]:
        """Its own, and those of the GPU that it is a part of."""
        whole_ids = dict.fromkeys((gpu.gpu_id, self.gpu.gpu_id))
        return [outage for gpu_id in whole_ids for outage in self.node.outages.get(gpu_id, ())]

    def _member(
        self, gpu: Capacity, segments: GPUSegments, row: Ints, own_ms: Ints, *, covered: Mask | bool
    ) -> Member:
        holders, held, rest_ms = _holders(self._holdings(gpu), segments.start_ms, own_ms)
        return Member(
            gpu_id=gpu.gpu_id,
            start_ms=segments.start_ms,
            end_ms=segments.end_ms,
            cut=segments.cut,
            row=row,
            energy_row=segments.row,
            holders=holders,
            held=held,
            rest_ms=rest_ms,
            rest_is_free=covered & (held == 0),
            outages=self._outages(gpu),
            first_ms=gpu.start_ms,
            # silence says nothing of what went on before it: to where anything was heard
            live_end_ms=min(gpu.end_ms, self.node.silent_ms) if gpu.is_live else None,
            silent_ms=self.node.silent_ms,
            schedulers=self.schedulers,
        )


@dataclass(frozen=True, slots=True)
class _Job:
    holds: list[Held]
    spans: list[Span]
    mask: Mask  # which segments it held

    @property
    def is_partial(self) -> bool:
        """Whether it was granted less than all, at least at times."""
        return any(hold.share is not None and hold.share < 1 for hold, _ in self.holds)

    def holder(self, gpu_ms: Ints) -> Holder:
        """The job with its milliseconds of each segment."""
        hold, _ = self.holds[0]
        return Holder(hold.job_id, hold.kind, self.spans, self.mask, gpu_ms)

    def share(self, start_ms: Ints) -> Floats:
        """Its granted share at each segment (NaN: not known).

        Several sources may name one job: an unknown share stays unknown, of known ones the larger
        counts.
        """
        share = np.zeros(len(start_ms))
        for hold, spans in self.holds:
            granted = np.nan if hold.share is None else hold.share
            inside = gpu_segments.inside(start_ms, union(spans))
            share = np.where(inside, np.maximum(share, granted), share)
        return share


def _holders(
    holdings: Sequence[Held], start_ms: Ints, own_ms: Ints
) -> tuple[list[Holder], Ints, Ints]:
    """One holder per job, by job id; how many hold each segment; and the milliseconds of it that
    none holds.
    """
    jobs = _jobs(holdings, start_ms, own_ms > 0)
    if not jobs:
        return [], np.zeros(len(start_ms), dtype=np.int64), own_ms
    if len(jobs) == 1 and not jobs[0].is_partial:
        return [jobs[0].holder(own_ms)], jobs[0].mask.astype(np.int64), own_ms * ~jobs[0].mask
    count = np.zeros(len(start_ms), dtype=np.int64)
    for job in jobs:
        count += job.mask
    parts, rest_ms = _parts(jobs, start_ms, own_ms, count)
    return [job.holder(part) for job, part in zip(jobs, parts, strict=True)], count, rest_ms


def _parts(
    jobs: Sequence[_Job], start_ms: Ints, own_ms: Ints, count: Ints
) -> tuple[list[Ints], Ints]:
    """Each job's milliseconds of each segment, where it held it; and those that none holds."""
    rest_ms = own_ms * (count == 0)
    is_shared = count > 1
    for job in jobs:
        if job.is_partial:
            is_shared |= job.mask
    shared = np.flatnonzero(is_shared)
    if len(shared) == 0:
        return [own_ms] * len(jobs), rest_ms
    parts = [own_ms.copy() for _ in jobs]
    divided = _divided(jobs, shared, start_ms[shared], own_ms[shared])
    for part, own in zip([*parts, rest_ms], divided.T, strict=True):
        part[shared] = own
    return parts, rest_ms


def _divided(jobs: Sequence[_Job], shared: Ints, start_ms: Ints, own_ms: Ints) -> Ints:
    """Of shared segments (jobs + the rest) the milliseconds."""
    holds = np.array([job.mask[shared] for job in jobs])
    shares = np.array([job.share(start_ms) for job in jobs])
    return split_holders(own_ms, holds, shares)


def _jobs(holdings: Sequence[Held], start_ms: Ints, alive: Mask) -> list[_Job]:
    """By job id, without those that held no segment that is alive."""
    jobs = []
    for _, group in groupby(sorted(holdings, key=_job_id), key=_job_id):
        holds = list(group)
        spans = union(span for _, own_spans in holds for span in own_spans)
        mask = gpu_segments.inside(start_ms, spans) & alive
        if mask.any():
            jobs.append(_Job(holds, spans, mask))
    return jobs


def _job_id(held: Held) -> int:
    return held[0].job_id
