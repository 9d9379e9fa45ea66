"""Why a GPU's time is what the ledger says: windows, their values, and the rule that decided, from
the judgement itself.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
from django.db.models import Q

from fleetwatch.accounts.selectors import zone
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.ledger import hour_cuts, judgement_inputs
from fleetwatch.ledger.judgement import rule_words, states
from fleetwatch.ledger.judgement.columns import Judged
from fleetwatch.ledger.judgement.labels import Label, named
from fleetwatch.ledger.judgement.observations import COLUMNS, Windows
from fleetwatch.ledger.models import Adjustment, Entry
from fleetwatch.ledger.models import Policy as PolicyRow
from fleetwatch.ledger.months import policy_plan
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.intervals import HOUR_MS, Interval, floor_hour, from_ms, to_ms
from fleetwatch.telemetry import retention

HOUR = timedelta(hours=1)
MAX_SPAN_MS = 6 * HOUR_MS  # 2,160 windows of ten seconds
NOBODY = 0  # as a job's id: what no job held; None is everything


@dataclass(frozen=True, slots=True)
class Part:
    """Milliseconds of one window in one state, as an entry sums them."""

    state: str
    kind: str
    reason: str
    tier: str
    signal: str
    efficiency_source: str
    gpu_ms: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Time in which one window (or none) speaks for one holder (None: nobody) of a GPU, and why it
    is what it is.
    """

    gpu_id: int
    job_id: int | None
    start_ms: int
    end_ms: int
    values: dict[str, float] | None  # of the window; None = none covers it
    observed_ms: int | None
    policy_version: int
    rule: list[str]
    parts: list[Part]

    @property
    def gpu_ms(self) -> int:
        return sum(part.gpu_ms for part in self.parts)


def rows(
    gpu: GPU, interval: Interval, *, job_id: int | None = None, state: str | None = None
) -> list[Entry | Adjustment]:
    """The entries and adjustments of the GPU and its instances in the cuts that the interval
    touches, by time and state.
    """
    found: list[Entry | Adjustment] = []
    start = from_ms(hour_cuts.cut_of(interval.start_ms, zone()))
    for model in (Entry, Adjustment):
        told = model._default_manager.select_related("gpu", "job", "policy").filter(
            gpu_id__in=_family(gpu), start__gte=start, start__lt=interval.end
        )
        told = told if job_id is None else told.filter(_held_by(job_id))
        found += told if state is None else told.filter(state=state)
    return sorted(
        found, key=lambda row: (row.start, row.gpu_id, row.job_id or 0, row.state, -row.gpu_ms)
    )


def is_final(interval: Interval, now: datetime) -> bool:
    """Whether the windows behind it are gone."""
    return interval.start < retention.columns_since(now)


def stretches(
    gpu: GPU, interval: Interval, *, job_id: int | None = None, state: str | None = None
) -> list[Stretch]:
    """The windows behind the posted time of the GPU and its instances in the interval, judged once
    more by their own policies.

    Whole hours of them sum to their entries (closed months: with adjustments). Raises ValueError
    for more than MAX_SPAN_MS.
    """
    if interval.duration_ms > MAX_SPAN_MS:
        raise ValueError(f"at most {MAX_SPAN_MS // HOUR_MS} hours can be explained at once")
    low, high = interval.start_ms, interval.end_ms
    family = _family(gpu)
    nodes = Node.objects.filter(gpus__uuid=gpu.uuid).order_by("pk")
    found = [
        one
        for node in nodes
        for one in _stretches_with(node, family, (low, high))
        if job_id in (None, one.job_id or NOBODY)
    ]
    if state is not None:
        found = [one for one in found if any(part.state == state for part in one.parts)]
    return sorted(found, key=lambda one: (one.start_ms, one.gpu_id, one.job_id or 0))


def _stretches_with(node: Node, family: list[int], span: tuple[int, int]) -> Iterator[Stretch]:
    """Those of the rows `family` that are with the node."""
    low, high = span
    hours = (low // HOUR_MS * HOUR_MS, -(-high // HOUR_MS) * HOUR_MS)
    for piece in policy_plan.as_posted(
        node.pk, *hours, without=set(), closed=policy_plan.frontier(), at_most=24
    ):
        row = PolicyRow.objects.get(pk=piece.policy_id)
        policy = Policy.from_json(row.thresholds)
        facts = judgement_inputs.node_facts(node, policy, zone())
        question = judgement_inputs.question(_only(facts, family), *piece.hours, policy)
        within = (max(low, piece.start_ms), min(high, piece.end_ms))
        judged = states.judged_places(question)
        if judged is not None:
            yield from (
                one for one in _stretches(judged, within, row.version) if one.gpu_id in family
            )


def _held_by(job_id: int) -> Q:
    return Q(job_id__isnull=True) if job_id == NOBODY else Q(job_id=job_id)


def _family(gpu: GPU) -> list[int]:
    """The GPU's rows with all nodes that it was with, and those of its MIG instances."""
    rows = GPU.objects.filter(Q(uuid=gpu.uuid) | Q(parent__uuid=gpu.uuid))
    return list(rows.order_by("pk").values_list("pk", flat=True))


def _only(facts: judgement_inputs.NodeFacts, gpu_ids: list[int]) -> judgement_inputs.NodeFacts:
    """The facts without other GPUs; of an instance with its parent and sisters, which share its
    time.
    """
    parents = {one.parent_id or one.gpu_id for one in facts.capacities if one.gpu_id in gpu_ids}
    return replace(
        facts,
        capacities=[one for one in facts.capacities if (one.parent_id or one.gpu_id) in parents],
    )


def _stretches(judged: Judged, within: tuple[int, int], version: int) -> Iterator[Stretch]:
    """One per place with time."""
    segments, windows = judged.segments, judged.question.windows
    parts = _parts(judged)
    for place in sorted(parts):
        owner = judged.timelines.owners[judged.timeline[place]]
        segment = int(judged.segment[place])
        start_ms, end_ms = int(segments.start_ms[segment]), int(segments.end_ms[segment])
        if end_ms <= within[0] or start_ms >= within[1]:
            continue
        row = int(segments.row[segment])
        yield Stretch(
            gpu_id=segments.members[owner.member].gpu_id,
            job_id=owner.job_id,
            start_ms=start_ms,
            end_ms=end_ms,
            values=None if row < 0 else _values(windows, row),
            observed_ms=None if row < 0 else int(windows.observed_ms[row]),
            policy_version=version,
            rule=_rule(judged, place, parts[place]),
            parts=parts[place],
        )


def _parts(judged: Judged) -> dict[int, list[Part]]:
    """Place -> what is counted of it."""
    parts: dict[int, list[Part]] = defaultdict(list)
    kinds = judged.kinds(np.arange(len(judged.kind)), judged.busy, judged.starting)
    for (places, gpu_ms), column in zip(judged.amounts(), kinds, strict=True):
        for place, kind, ms in zip(places.tolist(), column.tolist(), gpu_ms.tolist(), strict=True):
            if ms:
                parts[place].append(_part(*named(judged.segments.labels, kind), ms))
    return parts


def _part(label: Label, signal: str, source: str, gpu_ms: int) -> Part:
    return Part(label.state, label.kind, label.reason, label.tier, signal, source, gpu_ms)


def _values(windows: Windows, row: int) -> dict[str, float]:
    """What judging reads of the window, where it was read."""
    told = {name: float(windows.columns[name][row]) for name in COLUMNS if name in windows.columns}
    return {name: value for name, value in told.items() if not np.isnan(value)}


def _rule(judged: Judged, place: int, parts: list[Part]) -> list[str]:
    """In words, what decided: an outage, else the window, the run that it is in, and who
    holds it.
    """
    segments, node_stretches, policy = judged.segments, judged.stretches, judged.question.policy
    segment = int(judged.segment[place])
    owner = judged.timelines.owners[judged.timeline[place]]
    row = int(segments.row[segment])
    words: list[str] = []
    if all(part.state == "unavailable" for part in parts):
        return [
            f"unavailable: {part.reason} was told, and nothing yet that it works" for part in parts
        ]
    if row >= 0:
        words += rule_words.of_window(judged.activity, judged.question.windows, row, policy)
    stretch = int(node_stretches.at(judged.position[place]))
    if node_stretches.run[stretch] >= 0 and row >= 0 and not judged.activity.unseen[row]:
        words.append(rule_words.of_run(node_stretches, stretch, owner.kind, policy))
    if owner.job_id is None:
        words += [
            rule_words.WHY.get(part.reason, "no allocation, and nothing holds it")
            for part in parts
            if part.state != "unavailable"
        ]
    elif row < 0:
        words += [rule_words.WHY[part.reason] for part in parts if part.reason in rule_words.WHY]
    if segments.is_by_power[segment]:
        member = segments.members[owner.member]
        energy_row = int(member.energy_row[segment - segments.first[owner.member]])
        words.append(_estimated_energy(judged.question.windows, energy_row, policy))
    length_ms = int(segments.end_ms[segment] - segments.start_ms[segment])
    own_ms = sum(part.gpu_ms for part in parts)
    if own_ms != length_ms:
        words.append(f"shared: {own_ms} of {length_ms} ms are this holder's")
    return words


def _estimated_energy(windows: Windows, row: int, policy: Policy) -> str:
    """Why the window's joules are not the counter's."""
    told, power_w = float(windows.columns["energy_j"][row]), float(windows.columns["power_w"][row])
    return (
        f"energy estimated as {power_w:g} W × time: {told:g} J are more than"
        f" {policy.energy_max_ratio:g} of the power limit allows"
    )


def newest(
    gpu: GPU, interval: Interval, *, job_id: int | None = None, state: str | None = None
) -> Interval:
    """The newest part of the interval that can be explained at once and has something to explain,
    from a clock hour on.
    """
    if interval.duration_ms <= MAX_SPAN_MS:
        return interval
    end = min(interval.end, _last(gpu, interval, job_id=job_id, state=state) + HOUR)
    return Interval(
        max(interval.start, from_ms(-(-(to_ms(end) - MAX_SPAN_MS) // HOUR_MS) * HOUR_MS)), end
    )


def _last(gpu: GPU, interval: Interval, *, job_id: int | None, state: str | None) -> datetime:
    """The last clock hour of the interval with an entry; its end where there is none."""
    told = Entry.objects.filter(
        gpu_id__in=_family(gpu), start__gte=floor_hour(interval.start), start__lt=interval.end
    )
    told = told if job_id is None else told.filter(_held_by(job_id))
    last = (
        (told if state is None else told.filter(state=state))
        .order_by("start")
        .values_list("start", flat=True)
        .last()
    )
    return floor_hour(interval.end if last is None else last)
