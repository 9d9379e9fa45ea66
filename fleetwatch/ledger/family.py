"""Timelines: of a GPU, or of a GPU and the MIG instances that are parts of it. Pure numpy."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fleetwatch.ledger import activity, timeline, windows
from fleetwatch.ledger.activity import Activity
from fleetwatch.ledger.observations import (
    Capacity,
    Floats,
    Hold,
    Ints,
    Mask,
    Outage,
    Question,
    Spans,
)
from fleetwatch.ledger.shares import largest_remainder, split_holders
from fleetwatch.ledger.timeline import Atoms
from fleetwatch.ledger.windows import Pieces
from fleetwatch.lib.spans import difference, union


@dataclass(frozen=True, slots=True)
class Holder:
    """A job on a GPU: when it held it, and its milliseconds of each atom where it did."""

    job_id: int
    kind: str
    spans: list[tuple[int, int]]
    held: Mask
    gpu_ms: Ints


@dataclass(frozen=True, slots=True)
class Member:
    """A GPU or instance on its timeline: the window (row) at each atom, its holders, and the time
    of nobody.
    """

    gpu_id: int
    start_ms: Ints
    end_ms: Ints
    cut: Ints
    row: Ints
    energy_row: Ints  # the window whose energy counts: a MIG instance's is its parent's
    holders: list[Holder]
    held: Ints  # number of holders at each atom
    rest_ms: Ints
    rest_is_free: Mask  # what MIG instances leave of their parent
    outages: list[Outage]
    first_ms: int
    live_end_ms: int | None


def members(question: Question, acts: Activity) -> Iterator[Member]:
    """Every GPU and instance with capacity in the time asked about."""
    pieces = _pieces(question, acts)
    status = [timeline.edges_of(spans) for spans in timeline.scheduler_status(question.sources)]
    instances: dict[int, list[Capacity]] = defaultdict(list)
    for one in question.capacities:
        if one.parent_id is not None:
            instances[one.parent_id].append(one)
    for one in question.capacities:
        start, end = (
            max(one.start_ms, int(question.cuts[0])),
            min(one.end_ms, int(question.cuts[-1])),
        )
        if one.parent_id is None and start < end:
            family = _Family(
                question,
                one,
                sorted(instances[one.gpu_id], key=lambda part: part.gpu_id),
                pieces,
                acts,
                status,
            )
            yield from family.members(start, end)


def _pieces(question: Question, acts: Activity) -> dict[int, Pieces]:
    """Of each GPU the spans that its windows speak for."""
    found = question.windows
    order = np.argsort(found.gpu_id, kind="stable")
    ids, first = np.unique(found.gpu_id[order], return_index=True)
    rows = np.split(order, first[1:]) if len(ids) else []
    return {
        int(gpu_id): windows.resolve(found, rows=part, is_seen=acts.unseen == 0)
        for gpu_id, part in zip(ids, rows, strict=True)
    }


NO_PIECES = Pieces(*(np.zeros(0, dtype=np.int64),) * 3)


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
class _Family:
    question: Question
    gpu: Capacity
    instances: Sequence[Capacity]
    pieces: dict[int, Pieces]
    acts: Activity
    status: Sequence[Ints]  # edges of what schedulers said

    def members(self, start_ms: int, end_ms: int) -> Iterator[Member]:
        """The instances, then the GPU itself with what they leave of it."""
        atoms = self._atoms(start_ms, end_ms)
        length_ms = atoms.end_ms - atoms.start_ms
        nothing = np.zeros(len(length_ms), dtype=bool)
        if not self.instances:
            yield self._member(
                self.gpu, atoms, row=atoms.row, own_ms=length_ms, rest_is_free=nothing
            )
            return
        parts = self._parts(atoms, length_ms)
        covered = self._tells(atoms.row)
        for number, instance in enumerate(self.instances):
            row = timeline.rows_at(atoms.start_ms, self.pieces.get(instance.gpu_id, NO_PIECES))
            covered |= self._tells(row)
            yield self._member(
                instance, atoms, row=row, own_ms=parts[:, number], rest_is_free=nothing
            )
        is_split = parts[:, -1] < length_ms
        yield self._member(
            self.gpu, atoms, row=atoms.row, own_ms=parts[:, -1], rest_is_free=is_split & covered
        )

    def _atoms(self, start_ms: int, end_ms: int) -> Atoms:
        edges = [*self.status, np.array([self.question.silent_ms], dtype=np.int64)]
        for one in (self.gpu, *self.instances):
            spans = [
                (one.start_ms, one.end_ms),
                *((outage.start_ms, outage.end_ms) for outage in self._outages(one)),
            ]
            edges.append(
                timeline.edges_of(
                    [*spans, *(span for held in self._holdings(one) for span in held.spans)]
                )
            )
        for instance in self.instances:
            pieces = self.pieces.get(instance.gpu_id, NO_PIECES)
            edges += [pieces.start_ms, pieces.end_ms]
        own = self.pieces.get(self.gpu.gpu_id, NO_PIECES)
        return timeline.build(
            start_ms=start_ms, end_ms=end_ms, cuts=self.question.cuts, pieces=own, edges=edges
        )

    def _parts(self, atoms: Atoms, length_ms: Ints) -> Ints:
        """Atoms x (instances + the rest): whole milliseconds by weight."""
        alive = np.array(
            [
                timeline.inside(atoms.start_ms, [(one.start_ms, one.end_ms)])
                for one in self.instances
            ]
        )
        weights = alive * np.array([[one.weight] for one in self.instances])
        weights = weights / np.maximum(weights.sum(axis=0), 1.0)
        rest = np.maximum(1.0 - weights.sum(axis=0), 0.0)
        return largest_remainder(length_ms, np.concatenate([weights, rest[None, :]]).T)

    def _tells(self, row: Ints) -> Mask:
        """Where a window says that the GPU is there, be its activity readable or not (a MIG
        parent's never is).
        """
        if not len(self.acts.unseen):
            return np.zeros(len(row), dtype=bool)
        unseen = self.acts.unseen[np.maximum(row, 0)]
        return np.asarray((row >= 0) & ((unseen == 0) | (unseen == activity.NO_SIGNAL)))

    def _holdings(self, one: Capacity) -> list[Hold]:
        """Its own; who was given the whole GPU holds its instances too, while nobody was given
        those.
        """
        own = [held for held in self.question.holdings if held.gpu_id == one.gpu_id]
        if one is self.gpu:
            return own
        taken = union(span for held in own for span in held.spans)
        whole = [
            _WholeGPU.left(held, taken)
            for held in self.question.holdings
            if held.gpu_id == self.gpu.gpu_id
        ]
        return own + [held for held in whole if held.spans]

    def _outages(self, one: Capacity) -> list[Outage]:
        """Its own, and those of the GPU that it is a part of."""
        own = list(self.question.outages.get(one.gpu_id, ()))
        return (
            own if one is self.gpu else own + list(self.question.outages.get(self.gpu.gpu_id, ()))
        )

    def _member(
        self, one: Capacity, atoms: Atoms, *, row: Ints, own_ms: Ints, rest_is_free: Mask
    ) -> Member:
        # a whole GPU has every atom; of an instance some are not its
        alive = own_ms > 0 if self.instances else None
        holders, held, rest_ms = _holders(self._holdings(one), atoms.start_ms, own_ms, alive)
        return Member(
            gpu_id=one.gpu_id,
            start_ms=atoms.start_ms,
            end_ms=atoms.end_ms,
            cut=atoms.cut,
            row=row if alive is None else np.where(alive, row, -1),
            energy_row=atoms.row,
            holders=holders,
            held=held,
            rest_ms=rest_ms,
            rest_is_free=rest_is_free & (held == 0) if self.instances else rest_is_free,
            outages=self._outages(one),
            first_ms=one.start_ms,
            # silence says nothing of what went on before it: to where anything was heard
            live_end_ms=min(one.end_ms, self.question.silent_ms) if one.is_live else None,
        )


def _holders(
    holdings: Sequence[Hold], start_ms: Ints, own_ms: Ints, alive: Mask | None
) -> tuple[list[Holder], Ints, Ints]:
    """One holder per job, by job id; how many hold each atom; and the milliseconds of it that none
    holds.
    """
    count = np.zeros(len(start_ms), dtype=np.int64)
    found: list[tuple[int, list[Hold], list[tuple[int, int]], Mask]] = []
    for job_id in sorted({held.job_id for held in holdings}):
        mine = [held for held in holdings if held.job_id == job_id]
        spans = union(span for held in mine for span in held.spans)
        mask = timeline.inside(start_ms, spans)
        if alive is not None:
            mask &= alive
        if mask.any():
            found.append((job_id, mine, spans, mask))
            count += mask
    is_shared = any(held.share is not None and held.share < 1 for held in holdings) or bool(
        count.max(initial=0) > 1
    )
    if not is_shared:
        parts, rest_ms = [own_ms] * len(found), own_ms * (count == 0)
    else:
        shares = [_share(mine, start_ms) for _, mine, _, _ in found]
        parts, rest_ms = split_holders(own_ms, holds=[mask for *_, mask in found], shares=shares)
    holders = [
        Holder(job_id, mine[0].kind, spans, mask, part)
        for (job_id, mine, spans, mask), part in zip(found, parts, strict=True)
    ]
    return holders, count, rest_ms


def _share(mine: Sequence[Hold], start_ms: Ints) -> Floats:
    """A job's granted share at each atom (NaN: not known).

    Several sources may name one job: an unknown share stays unknown, of known ones the larger
    counts.
    """
    share = np.zeros(len(start_ms))
    for held in mine:
        inside = timeline.inside(start_ms, union(held.spans))
        share = np.where(
            inside, np.maximum(share, np.nan if held.share is None else held.share), share
        )
    return share
