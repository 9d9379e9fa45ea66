"""Why a GPU's time is what the ledger says: windows, their values, and the rule that decided, from
the judgement itself.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import compress
from typing import Any, cast

import numpy as np
from django.db.models import Max, Min, Q, QuerySet

from fleetwatch.accounts.selectors import zone
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.ledger import hour_cuts, judgement_inputs
from fleetwatch.ledger.judgement import rule_words
from fleetwatch.ledger.judgement.columns import Judged, Owner, Segments
from fleetwatch.ledger.judgement.labels import named
from fleetwatch.ledger.judgement.observations import COLUMNS, Ints, Question, Windows
from fleetwatch.ledger.judgement.observations import NOBODY as NO_JOB
from fleetwatch.ledger.judgement.states import judged_places
from fleetwatch.ledger.models import Adjustment, Entry
from fleetwatch.ledger.models import Policy as PolicyRow
from fleetwatch.ledger.months import policy_plan
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.selectors import RunSpan, posted_until_ms, runs
from fleetwatch.lib.intervals import (
    HOUR_MS,
    Interval,
    ceil_hour_ms,
    floor_hour,
    floor_hour_ms,
    from_ms,
    to_ms,
)
from fleetwatch.lib.memo import read_once
from fleetwatch.lib.spans import Span
from fleetwatch.telemetry import retention
from fleetwatch.telemetry.frames import Frame

HOUR = timedelta(hours=1)
POSTED_AFTER_MS = 600_000  # a node whose telemetry comes is posted sooner
MAX_SPAN_MS = 6 * HOUR_MS  # 2,160 windows of ten seconds
MAX_SPAN = timedelta(milliseconds=MAX_SPAN_MS)
States = Collection[str] | None  # None is all
MAX_AHEAD_MS = 400 * 24 * HOUR_MS  # no period is longer
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
    gpu: GPU, interval: Interval, *, job_id: int | None = None, states: States = None
) -> list[Entry | Adjustment]:
    """The entries and adjustments of the GPU and its instances in the cuts that the interval
    touches, by time and state.
    """
    within = _in_cuts(interval)
    rows = [
        row
        for model in (Entry, Adjustment)
        for row in _of(model, gpu, within, job_id, states).select_related("gpu", "job", "policy")
    ]
    return sorted(
        rows, key=lambda row: (row.start, row.gpu_id, row.job_id or 0, row.state, -row.gpu_ms)
    )


def count_rows(
    gpu: GPU, interval: Interval, *, job_id: int | None = None, states: States = None
) -> int:
    """How many rows() gives back."""
    within = _in_cuts(interval)
    return sum(_of(model, gpu, within, job_id, states).count() for model in (Entry, Adjustment))


def _in_cuts(interval: Interval) -> tuple[datetime, datetime]:
    return from_ms(hour_cuts.cut_of(interval.start_ms, zone())), interval.end


def _of(
    model: type[Entry] | type[Adjustment],
    gpu: GPU,
    within: tuple[datetime, datetime],
    job_id: int | None,
    states: States,
) -> QuerySet[Any]:
    start, end = within
    rows = model._default_manager.filter(gpu_id__in=_family(gpu), start__gte=start, start__lt=end)
    if job_id is not None:
        rows = rows.filter(job=None if job_id == NOBODY else job_id)
    return rows if states is None else rows.filter(state__in=states)


def is_final(interval: Interval, now: datetime) -> bool:
    """Whether the windows behind it are gone."""
    return interval.start < retention.columns_since(now)


def stretches(
    gpu: GPU, interval: Interval, *, job_id: int | None = None, states: States = None
) -> list[Stretch]:
    """The windows behind the posted time of the GPU and its instances in the interval, judged once
    more by their own policies.

    Whole hours of them sum to their entries (closed months: with adjustments). Raises ValueError
    for more than MAX_SPAN_MS.
    """
    if interval.duration_ms > MAX_SPAN_MS:
        raise ValueError(f"at most {MAX_SPAN_MS // HOUR_MS} hours can be explained at once")
    family = _family(gpu)
    posted_ms = posted_until_ms(family)
    wanted = [
        stretch
        for node in Node.objects.filter(gpus__uuid=gpu.uuid).order_by("pk")
        for stretch in _with_node(node, family, (interval.start_ms, interval.end_ms))
        if stretch.gpu_id in family
        and stretch.start_ms < (posted_ms[stretch.gpu_id] or stretch.end_ms)
        and job_id in (None, stretch.job_id or NOBODY)
        and (states is None or any(part.state in states for part in stretch.parts))
    ]
    return sorted(wanted, key=lambda row: (row.start_ms, row.gpu_id, row.job_id or 0))


def _with_node(node: Node, family: list[int], span: Span) -> Iterator[Stretch]:
    """Those of the rows `family`, and of what shares their time, that are with the node."""
    low, high = span
    for piece in policy_plan.as_posted(
        node.pk,
        floor_hour_ms(low),
        ceil_hour_ms(high),
        without=set(),
        closed=policy_plan.frontier(),
        at_most=24,
    ):
        row = PolicyRow.objects.get(pk=piece.policy_id)
        policy = Policy.from_json(row.thresholds)
        facts = _only(judgement_inputs.node_facts(node, policy, zone()), family)
        question = judgement_inputs.question(facts, *piece.hours, policy)
        judged = judged_places(_of_these(question, facts))
        if judged is not None:
            within = (max(low, piece.start_ms), min(high, piece.end_ms))
            yield from _stretches(_with_whole_runs(judged, family, within), within, row.version)


def _with_whole_runs(judged: Judged, gpu_ids: list[int], within: Span) -> Judged:
    """With its quiet runs as long as the ledger has them: what is judged of a few hours knows only
    what of a run lies near them.
    """
    low, high = within
    posted = runs(gpu_ids, start_ms=low, end_ms=high, conditions=("quiet",))
    stretches = judged.stretches
    spans = np.stack((stretches.run_start_ms, stretches.run_end_ms))
    for first in np.unique(stretches.run, return_index=True)[1].tolist():
        of_run = stretches.run == stretches.run[first]
        owner = judged.timelines.owners[stretches.timeline[first]]
        spans[:, of_run] = np.reshape(_whole_run(owner, spans[:, first], posted), (2, 1))
    whole = replace(stretches, run_start_ms=spans[0], run_end_ms=spans[1])
    return replace(judged, stretches=whole)


def _whole_run(owner: Owner, run: Ints, posted: Iterable[RunSpan]) -> Span:
    """From where to where the owner's run is, with the posted ones that it is a part of."""
    start_ms, end_ms = run.tolist()
    parts = [
        each
        for each in posted
        if (each.gpu_id, each.job_id) == (owner.member.gpu_id, owner.job_id)
        and each.start_ms < end_ms
        and each.end_ms > start_ms
    ]
    return (
        min([start_ms, *(each.start_ms for each in parts)]),
        max([end_ms, *(each.end_ms for each in parts)]),
    )


@read_once
def _family(gpu: GPU) -> list[int]:
    """The GPU's rows with all nodes that it was with, and those of its MIG instances."""
    rows = GPU.objects.filter(Q(uuid=gpu.uuid) | Q(parent__uuid=gpu.uuid))
    return list(rows.order_by("pk").values_list("pk", flat=True))


def _only(facts: judgement_inputs.NodeFacts, gpu_ids: list[int]) -> judgement_inputs.NodeFacts:
    """The facts without other GPUs; of an instance with its parent and sisters, which share its
    time.
    """
    whole_of = {gpu.gpu_id: gpu.parent_id or gpu.gpu_id for gpu in facts.capacities}
    wanted = {whole for gpu_id, whole in whole_of.items() if gpu_id in gpu_ids}
    return replace(
        facts, capacities=[gpu for gpu in facts.capacities if whole_of[gpu.gpu_id] in wanted]
    )


def _of_these(question: Question, facts: judgement_inputs.NodeFacts) -> Question:
    """Without the windows of other GPUs than the facts are of: nothing rests on them."""
    gpu_ids = {gpu.gpu_id for gpu in facts.capacities}
    windows = cast("Frame", question.windows)
    return replace(question, windows=windows.where(np.isin(windows.gpu_id, list(gpu_ids))))


@dataclass(frozen=True, slots=True)
class _Place:
    """A place with time, and what is counted of it."""

    judged: Judged
    parts: list[Part]
    owner: Owner
    span: Span
    values: dict[str, float]  # of the window, where they were read
    segment: int
    row: int  # the window that speaks for it, -1: none
    stretch: int  # of the timeline


def _stretches(judged: Judged, within: Span, version: int) -> Iterator[Stretch]:
    """One per place with time."""
    for place in _places(judged):
        start_ms, end_ms = place.span
        if start_ms < within[1] and end_ms > within[0]:
            yield _stretch(place, version)


def _places(judged: Judged) -> Iterator[_Place]:
    """Those with time, in their order; what is known of each is looked up for all at once."""
    parts = _parts(judged)
    numbers = np.array(sorted(parts), dtype=np.int64)
    segment = judged.segment[numbers]
    row = judged.segments.row[segment]
    stretch = judged.stretches.at(judged.position[numbers])
    owners = [judged.timelines.owners[at] for at in judged.timeline[numbers].tolist()]
    columns = (numbers, segment, row, stretch)
    spans = _spans(judged.segments, segment)
    for owner, span, values, number, *at in zip(
        owners, spans, _read(judged.question.windows, row), *map(_each, columns), strict=True
    ):
        yield _Place(judged, parts[number], owner, span, values, *at)


def _spans(segments: Segments, segment: Ints) -> Iterator[Span]:
    """When each of these begins and ends."""
    return zip(_each(segments.start_ms[segment]), _each(segments.end_ms[segment]), strict=True)


def _each(column: Ints) -> list[int]:
    numbers: list[int] = column.tolist()
    return numbers


def _stretch(place: _Place, version: int) -> Stretch:
    windows = place.judged.question.windows
    start_ms, end_ms = place.span
    job_id = place.owner.job_id
    has_window = place.row >= 0
    return Stretch(
        gpu_id=place.owner.member.gpu_id,
        job_id=None if job_id == NO_JOB else job_id,
        start_ms=start_ms,
        end_ms=end_ms,
        values=place.values if has_window else None,
        observed_ms=int(windows.observed_ms[place.row]) if has_window else None,
        policy_version=version,
        rule=_rule(place),
        parts=place.parts,
    )


def _parts(judged: Judged) -> dict[int, list[Part]]:
    """Place -> what is counted of it."""
    parts: dict[int, list[Part]] = defaultdict(list)
    kinds = judged.kinds(np.arange(len(judged.kind)), judged.busy, judged.starting)
    for (places, gpu_ms), column in zip(judged.amounts(), kinds, strict=True):
        for place, kind, ms in zip(places.tolist(), column.tolist(), gpu_ms.tolist(), strict=True):
            if ms:
                label, signal, source = named(judged.segments.labels, kind)
                parts[place].append(Part(*label, signal, source, ms))
    return parts


def _read(windows: Windows, row: Ints) -> Iterator[dict[str, float]]:
    """What judging reads, of each of these windows, where it was read; of none (-1) anything."""
    names = [name for name in COLUMNS if name in windows.columns]
    columns = [windows.columns[name][row] if len(windows.start_ms) else row for name in names]
    table = np.array(columns, dtype=np.float64).reshape(len(names), len(row)).T
    for values, is_read in zip(table.tolist(), (~np.isnan(table)).tolist(), strict=True):
        yield dict(compress(zip(names, values, strict=True), is_read))


def _rule(place: _Place) -> list[str]:
    """In words, what decided: an outage, else the window, the run that it is in, and who
    holds it.
    """
    if all(part.state == "unavailable" for part in place.parts):
        return [rule_words.of_outage(part.reason) for part in place.parts]
    words = [*_of_window(place), *_of_holder(place)]
    segments = place.judged.segments
    if segments.is_by_power[place.segment]:
        energy_row = int(segments.energy_row[place.segment])
        words.append(rule_words.of_estimated_energy(place.judged.question, energy_row))
    start_ms, end_ms = place.span
    own_ms = sum(part.gpu_ms for part in place.parts)
    if own_ms != end_ms - start_ms:
        words.append(rule_words.of_shared_time(own_ms, end_ms - start_ms))
    return words


def _of_window(place: _Place) -> list[str]:
    """What the window says, if there is one, and the run that it is in."""
    if place.row < 0:
        return []
    judged = place.judged
    policy = judged.question.policy
    words = rule_words.of_window(judged.activity, judged.question.windows, place.row, policy)
    if judged.stretches.run[place.stretch] >= 0 and not judged.activity.unseen[place.row]:
        words.append(rule_words.of_run(judged.stretches, place.stretch, place.owner.kind, policy))
    return words


def _of_holder(place: _Place) -> list[str]:
    """What is there to say of who holds it, or why nobody is known to."""
    reasons = [part.reason for part in place.parts]
    if place.owner.job_id == NO_JOB:
        nothing = "no allocation, and nothing holds it"
        return [rule_words.WHY.get(reason, nothing) for reason in reasons]
    if place.row >= 0:
        return []
    return [rule_words.WHY[reason] for reason in reasons if reason in rule_words.WHY]


def posted_until(gpu: GPU, interval: Interval) -> datetime | None:
    """Until when the GPU's time is posted, where that is minutes before the interval's end: more of
    it is to come. None where it is of all of it, or nothing says that more comes.
    """
    until_ms = posted_until_ms([gpu.pk])[gpu.pk]
    is_behind = interval.end_ms - POSTED_AFTER_MS < until_ms < interval.end_ms
    return from_ms(until_ms) if is_behind and until_ms > interval.start_ms else None


def newest(
    gpu: GPU,
    interval: Interval,
    *,
    at_most: timedelta = MAX_SPAN,
    job_id: int | None = None,
    states: States = None,
) -> Interval:
    """The newest part of the interval that is so long and has something to explain, from a clock
    hour on.
    """
    if interval.end - interval.start <= at_most:
        return interval
    entries = _of(Entry, gpu, (floor_hour(interval.start), interval.end), job_id, states)
    last = entries.aggregate(last=Max("start"))["last"]
    end = interval.end if last is None else min(interval.end, floor_hour(last) + HOUR)
    earliest = from_ms(ceil_hour_ms(to_ms(end - at_most)))
    return Interval(max(interval.start, earliest), end)


def next_start(
    gpu: GPU, moment: datetime, *, job_id: int | None = None, states: States = None
) -> datetime | None:
    """When the first entry from the moment on begins; None: there is none."""
    for_ever = from_ms(to_ms(moment) + MAX_AHEAD_MS)
    first: datetime | None = _of(Entry, gpu, (moment, for_ever), job_id, states).aggregate(
        first=Min("start")
    )["first"]
    return first
