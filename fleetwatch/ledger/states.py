"""One state per GPU-millisecond: columns, allocations and events in; entries and runs out. Pure numpy.

The judgement of a millisecond depends on no window farther away than Policy.reach_ms,
so that hours judged one by one, with that much context, sum to days judged at once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fleetwatch.ledger import activity, cell_states, family, holders, lanes, runs, timeline
from fleetwatch.ledger.activity import Activity
from fleetwatch.ledger.facts import Capacity, Entry, Floats, Ints, Judgement, Mask, Question, RunParts, Windows, column
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.tally import Figure, Label, Tally, label_numbers, state_ms
from fleetwatch.ledger.tally import entries as tally_entries

MISSING = Label("unobserved", reason="missing")
UNSEEN = tuple(Label("unobserved", reason=reason) for reason in activity.UNSEEN_REASONS)
ALLOCATION_UNKNOWN = Label("unobserved", reason="allocation_unknown")
FREE = Label("free", tier="potential")
# why a GPU that nobody was given is not simply free, by the reason of its label
WHY = {
    "missing": "no window covers it, and nothing says that it was down",
    "allocation_unknown": "nobody says whether it was allocated, and that decides",
    "process": "no allocation, but a process holds it",
    "dead_process": "no allocation, but a process that is dead or stuck holds it",
    "memory": "no allocation, but memory on it is in use without a process",
}
HOLDERS = (
    FREE,
    *(Label("orphaned", reason=reason, tier="certain") for reason in activity.HOLDERS[1:4]),
    ALLOCATION_UNKNOWN,
)


def judge(question: Question) -> Judgement:
    """The entries and parts of runs of every GPU in the target cuts; their milliseconds sum to its capacity exactly."""
    entries: list[Entry] = []
    parts: list[RunParts] = []
    cells: list[cell_states.Table] = []
    for judged in judged_lanes(question):
        if judged.tally.atom:
            _collect(judged, entries, parts, cells)
    return Judgement(entries, RunParts.joined(parts), cell_states.joined(cells))


def judged_lanes(question: Question) -> Iterator["Judged"]:
    """Each GPU and holder (and what nobody holds) on its timeline, with all that its judgement rests on."""
    facts = {one.gpu_id: one for one in question.capacities}
    windows, policy = question.windows, question.policy
    acts = activity.read(
        windows,
        idle_w=activity.per_window(windows.gpu_id, {key: one.idle_w for key, one in facts.items()}),
        limit_w=activity.per_window(windows.gpu_id, {key: one.limit_w for key, one in facts.items()}),
        policy=policy,
    )
    joules = _joules_per_ms(windows, facts, policy)
    figures = {
        "active": acts.active,
        "power_w": column(windows, "power_w"),
        "memory_used_bytes": column(windows, "memory_used_bytes"),
        # only the flagged time: "spinning not resolvable"
        "spin_unresolved": np.where(acts.spin_unresolved, 1.0, np.nan),
    }
    for member in family.members(question, acts):
        yield from _judge_member(_Member(question, member, acts, joules, figures))


def _joules_per_ms(windows: Windows, facts: Mapping[int, Capacity], policy: Policy) -> Floats:
    """Energy of each window per ms; NaN where it was not read, or is more than the board can draw."""
    rate = column(windows, "energy_j") / (windows.end_ms - windows.start_ms)
    limit_w = activity.per_window(windows.gpu_id, {key: one.limit_w for key, one in facts.items()})
    return np.where(rate * 1000 > policy.energy_max_ratio * limit_w, np.nan, rate)


@dataclass(frozen=True, slots=True)
class _Member:
    """One GPU (or instance) on its timeline, with what its windows say."""

    question: Question
    member: family.Member
    acts: Activity
    joules: Floats
    figures: Mapping[str, Floats]

    def by_atom(self, values: Floats) -> Floats:
        """The value of the window at each atom; NaN where none speaks."""
        rows = self.member.row
        return np.where(rows >= 0, values[np.maximum(rows, 0)], np.nan) if len(values) else np.full(len(rows), np.nan)


@dataclass(frozen=True, slots=True)
class _Common:
    """What all lanes of a GPU see alike."""

    wanted: Mask
    seen: Mask  # a window speaks, observed enough, with a readable signal
    down: Ints  # number of the outage at each atom, -1 none
    is_drained: Mask  # the outage is a drain: what is held goes on, what is not can't be had
    reasons: list[str]
    window_ms: Ints
    is_metered: Mask  # energy was read
    joules_per_ms: Floats  # 0 where it was not
    cell: Ints  # its five minutes, since the epoch
    figures: dict[str, Figure]  # of runs; not read where not seen

    def part(self, some: slice | Ints) -> "_Common":
        """The same of these atoms alone."""
        return _Common(
            wanted=self.wanted[some],
            seen=self.seen[some],
            down=self.down[some],
            is_drained=self.is_drained[some],
            reasons=self.reasons,
            window_ms=self.window_ms[some],
            is_metered=self.is_metered[some],
            joules_per_ms=self.joules_per_ms[some],
            cell=self.cell[some],
            figures={name: figure.part(some) for name, figure in self.figures.items()},
        )


def _judge_member(one: _Member) -> Iterator["Judged"]:
    common = _common(one)
    rest, is_gap = one.member.rest_ms, np.zeros(len(one.member.rest_ms), dtype=bool)
    near = _near(rest > 0)
    if len(near):
        nobody = _judge_nobody(replace(one, member=one.member.part(near)), common.part(near), is_explained=_explained(one)[near])
        yield nobody
        is_gap[near] = (one.member.held[near] == 0) & _unobserved(nobody.tally, len(near))
    before, after = lanes.previous_known(is_gap), lanes.next_known(is_gap)
    for holder in one.member.holders:
        own = np.flatnonzero(holder.held)
        # a holder's runs end with what is known on both sides of its time
        low = int(before[own[0] - 1]) if own[0] > 0 else 0
        high = int(after[own[-1] + 1]) + 1 if own[-1] + 1 < len(rest) else len(rest)
        some = slice(max(low, 0), min(high, len(rest)))
        part = replace(one, member=one.member.part(some))
        yield _judge_holder(part, common.part(some), holder.part(some), is_gap[some])


def _near(own: Mask) -> Ints:
    """The atoms that are a lane's own and those beside them: what lies farther away decides nothing."""
    near = own.copy()
    near[1:] |= own[:-1]
    near[:-1] |= own[1:]
    return np.flatnonzero(near) if own.any() else np.zeros(0, dtype=np.int64)


def _explained(one: _Member) -> Mask:
    """The atoms of windows that a holder's time shares: they saw the holder's process, not an orphan."""
    member = one.member
    is_shared = np.zeros(len(one.acts.unseen) + 1, dtype=bool)  # one more, for no window (-1)
    is_shared[member.row[member.held > 0]] = True
    return is_shared[member.row]


def _common(one: _Member) -> _Common:
    member, question = one.member, one.question
    atoms, rows = member.atoms, member.row
    at = np.maximum(rows, 0)
    seen = (rows >= 0) & (one.acts.unseen[at] == 0) if len(one.acts.unseen) else np.zeros(len(rows), dtype=bool)
    down = np.full(len(rows), -1, dtype=np.int64)
    # the later assigned wins: the earliest, and a fault before a drain, which would hide it from the holder
    outages = sorted(member.outages, key=lambda outage: (not outage.is_drain, -outage.start_ms, outage.reason))
    for number, outage in enumerate(outages):
        down[timeline.inside(atoms, [(outage.start_ms, outage.end_ms)])] = number
    is_drain = np.array([outage.is_drain for outage in outages], dtype=bool)
    length = question.windows.end_ms - question.windows.start_ms
    start, end = question.target
    joules = member.joules(one.joules)
    is_metered = ~np.isnan(joules)
    return _Common(
        wanted=(atoms.start_ms >= start) & (atoms.start_ms < end),
        seen=seen,
        down=down,
        is_drained=(down >= 0) & is_drain[np.maximum(down, 0)] if outages else np.zeros(len(rows), dtype=bool),
        reasons=[outage.reason for outage in outages],
        window_ms=np.where(rows >= 0, length[at], 0) if len(length) else np.zeros(len(rows), dtype=np.int64),
        is_metered=is_metered,
        joules_per_ms=np.where(is_metered, joules, 0.0),
        cell=atoms.start_ms // cell_states.CELL_MS,
        figures={name: Figure.of(np.where(seen, one.by_atom(values), np.nan), atoms.length_ms) for name, values in one.figures.items()},
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """One holder's time of a GPU, or nobody's, atom by atom: what is summed, and what explain tells."""

    one: _Member
    common: _Common
    lane: lanes.Lane
    tally: Tally
    number: Ints  # condition of each atom, runs.UNSEEN for gaps
    found: lanes.QuietRuns
    job_id: int | None


def _collect(judged: Judged, entries: list[Entry], parts: list[RunParts], cells: list[cell_states.Table]) -> None:
    """Adds what the lane's tally says: entries, parts and cells are sums of the same small sums over neighbouring atoms."""
    common, tally, lane = judged.common, judged.tally, judged.lane
    gpu_id, job_id = judged.one.member.gpu_id, judged.job_id
    conditions = runs.bridge(lane, judged.number, judged.found.run)
    cuts = runs.cut_up(lane, conditions, common.wanted)
    begins = _slots(cuts, common)
    slot = np.zeros(len(common.wanted), dtype=np.int64)
    slot[cuts.own] = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(cuts.own)))
    first, sums = cuts.own[begins], tally.sums(slot)
    entries += tally_entries(
        tally,
        sums,
        gpu_id=gpu_id,
        job_id=job_id,
        cut=lane.atoms.cut[first],
        cut_starts=judged.one.question.cuts,
        is_read=common.is_metered[first],
        joules_per_ms=common.joules_per_ms,
    )
    part = np.searchsorted(cuts.starts, begins, side="right") - 1
    by_state = state_ms(tally, sums, part=part, parts=len(cuts.starts))
    parts.append(runs.parts(lane, conditions, cuts, by_state, gpu_id=gpu_id, job_id=job_id, figures=common.figures))
    if job_id is not None:
        cells.append(cell_states.rows(tally, sums, gpu_id=gpu_id, job_id=job_id, cell=common.cell[first]))


def _slots(cuts: runs.Cuts, common: _Common) -> Ints:
    """Positions in the lane's wanted atoms where a slot begins: another part, five minutes, or energy read from there on or no more."""
    cell, is_metered = common.cell[cuts.own], common.is_metered[cuts.own]
    is_first = np.zeros(len(cuts.own), dtype=bool)
    is_first[1:] = (cell[1:] != cell[:-1]) | (is_metered[1:] != is_metered[:-1])
    is_first[cuts.starts] = True
    return np.flatnonzero(is_first)


def _unobserved(tally: Tally, count: int) -> Mask:
    """Which atoms the tally calls unobserved (the wanted ones and their context alike)."""
    found = np.zeros(count, dtype=bool)
    is_unobserved = np.array([label.state == "unobserved" for label in tally.labels], dtype=bool)
    for atom, label in zip(tally.context_atom, tally.context_label, strict=True):
        found[atom] = is_unobserved[label]
    return found


def _add_all(tally: Tally, common: _Common, atom: Ints, label: Label | Ints, gpu_ms: Ints) -> None:
    """Adds the wanted atoms; remembers the others' labels, for the lanes that need the context."""
    numbers = np.full(len(atom), tally.number(label), dtype=np.int64) if isinstance(label, Label) else label
    tally.context_atom.append(atom)
    tally.context_label.append(numbers)
    keep = common.wanted[atom] & (gpu_ms[atom] > 0)
    tally.add(atom[keep], numbers[keep], gpu_ms[atom[keep]])


def _judge_nobody(one: _Member, common: _Common, *, is_explained: Mask) -> Judged:
    """The time that nobody holds: unavailable, unobserved, orphaned or free."""
    member, tally = one.member, Tally()
    rest = member.rest_ms
    own = rest > 0
    _add_unavailable(tally, common, own, rest)
    label = _nobodys_labels(one, common, tally, is_explained)
    atoms = np.flatnonzero(own & (common.down < 0))
    _add_all(tally, common, atoms, label[atoms], rest)
    states = np.array([runs.CONDITION_NUMBER[name] if (name := each.state) != "unobserved" else runs.UNSEEN for each in tally.labels])
    number = np.full(len(rest), runs.UNSEEN, dtype=np.int64)
    for atom, numbers in zip(tally.context_atom, tally.context_label, strict=True):
        number[atom] = states[numbers]
    code = np.where(own, np.where(number == runs.UNSEEN, lanes.GAP, lanes.BUSY), lanes.BARRIER).astype(np.int8)
    lane = lanes.lane(member.atoms, code, own=own, window_ms=common.window_ms, kind="", policy=one.question.policy)
    return Judged(one, common, lane, tally, number, lanes.no_runs(len(rest)), None)


def _add_unavailable(tally: Tally, common: _Common, own: Mask, gpu_ms: Ints) -> None:
    labels = [Label("unavailable", reason=reason) for reason in common.reasons]
    atoms = np.flatnonzero(own & (common.down >= 0))
    if len(atoms):
        _add_all(tally, common, atoms, label_numbers(tally, labels, common.down[atoms]), gpu_ms)


def _unseen_labels(one: _Member, tally: Tally) -> Ints:
    """Of each atom the label of why it is not observed (meaningless where it is)."""
    rows = one.member.row
    why = np.where(rows >= 0, one.acts.unseen[np.maximum(rows, 0)], 0) if len(one.acts.unseen) else np.zeros(len(rows), dtype=np.int64)
    return label_numbers(tally, (MISSING, *UNSEEN[1:]), why.astype(np.int64))


def _nobodys_labels(one: _Member, common: _Common, tally: Tally, is_explained: Mask) -> Ints:
    member, rows = one.member, one.member.row
    label = _unseen_labels(one, tally)
    answered, unknown = timeline.scheduler_status(one.question.sources)
    is_answered = timeline.inside(member.atoms, answered)
    is_silent = timeline.inside(member.atoms, unknown)
    if len(one.acts.unseen):
        at = np.maximum(rows, 0)
        scheduled = one.acts.hold_scheduled[at]
        scheduled = np.where(is_explained & (scheduled != activity.UNKNOWN), activity.NOTHING, scheduled)
        hold = np.where(is_silent, activity.UNKNOWN, np.where(is_answered, scheduled, one.acts.hold_bare[at]))
        # what granted shares leave of a held GPU is free, but where nobody knows whom else it was given to
        hold = np.where((member.held > 0) & (hold != activity.UNKNOWN), activity.NOTHING, hold)
        label = np.where(common.seen, label_numbers(tally, HOLDERS, hold.astype(np.int64)), label)
    return np.where(member.rest_is_free, tally.number(FREE), label)


def _judge_holder(one: _Member, common: _Common, holder: family.Holder, is_gap: Mask) -> Judged:
    """One holder's time: what its own kind's T_idle makes of the GPU's activity."""
    member, acts, policy = one.member, one.acts, one.question.policy
    own, up = holder.held, (common.down < 0) | common.is_drained
    seen = own & up & common.seen
    at = np.maximum(member.row, 0)
    code = np.full(len(own), lanes.BARRIER, dtype=np.int8)
    code[is_gap | (own & up & ~common.seen)] = lanes.GAP
    if len(acts.unseen):
        code[seen] = np.select([acts.quiet[at[seen]], acts.blip[at[seen]]], [lanes.QUIET, lanes.BLIP], lanes.BUSY)
    lane = lanes.lane(member.atoms, code, own=own, window_ms=common.window_ms, kind=holder.kind, policy=policy)
    found = lanes.quiet_runs(lane, spans=holder.spans, first_ms=member.first_ms, live_end_ms=member.live_end_ms, policy=policy)
    tally = Tally()
    _add_unavailable(tally, common, own & ~up, holder.gpu_ms)
    unseen = np.flatnonzero(own & up & ~common.seen)
    _add_all(tally, common, unseen, _unseen_labels(one, tally)[unseen], holder.gpu_ms)
    number = np.full(len(own), runs.UNSEEN, dtype=np.int64)
    number[own & ~up] = runs.CONDITION_NUMBER["unavailable"]
    if len(acts.unseen):
        is_spinning = acts.spinning[at] > acts.working[at]
        busy = np.where(is_spinning, runs.CONDITION_NUMBER["spinning"], runs.CONDITION_NUMBER["active"])
        number[seen] = np.where(found.run[seen] >= 0, runs.CONDITION_NUMBER["quiet"], busy[seen])
        holders.add_activity(
            tally, np.flatnonzero(common.wanted & seen), holder=holder, member=member, found=found, acts=acts, policy=policy
        )
    return Judged(one, common, lane, tally, number, found, holder.job_id)
