"""The condition gpu_memory_errors: a GPU that works on with uncorrectable errors of its memory, by
the XIDs and the counter of its driver.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fleetwatch.accounts.selectors import zone
from fleetwatch.alerts.breach import Breach, Condition, Settings, Watch
from fleetwatch.alerts.episodes import End, Episode, Level, Measured, Span
from fleetwatch.alerts.measuring.gpu_words import LOST, gpu_labels, place_of, with_model
from fleetwatch.alerts.measuring.job_causes import starts
from fleetwatch.alerts.measuring.job_lanes import RETIRED
from fleetwatch.alerts.measuring.merged_spans import clear_between
from fleetwatch.alerts.measuring.reset_steps import Reset, reset_of, schedulers_of
from fleetwatch.diagnosis.causes import FAILURES
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.selectors import clusters_of
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.ledger.judgement.observations import Outage
from fleetwatch.ledger.judgement_inputs import posted_outages, xids_of_gpus
from fleetwatch.ledger.models import Posted
from fleetwatch.lib.intervals import DAY_MS, floor_hour_ms, from_ms, to_ms
from fleetwatch.notify import wording

# Row remapped, many single-bit errors, uncorrectable error contained: the GPU works on, and is to
# be reset soon (docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt). What stops it is gpu_fault's.
MEMORY_XIDS = (63, 92, 94)
CLEARED = "its memory had no further errors for a day"
MERGED = "the GPU can't work since: its fault is an incident of its own"
COUNTER = "counted by the driver without an XID"
REASON = "GPU memory errors"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Five minutes with errors, and an XID that told them; None: the counter did."""

    start_ms: int
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Struggle:
    """A GPU, its errors, the clusters of the jobs it was given to, how to reset it, and since when
    it can't work at all, in words ("": it works).
    """

    gpu: GPU
    troubles: tuple[Trouble, ...]
    clusters: tuple[str, ...]
    reset: Reset
    lost: str = ""

    @property
    def times(self) -> int:
        """In how many five minutes it had some."""
        return len({each.start_ms for each in self.troubles})

    @property
    def xids(self) -> list[int]:
        """The XIDs that told them."""
        return sorted({each.xid for each in self.troubles if each.xid is not None})

    @property
    def errors(self) -> str:
        """How often and by what, in words: each five minutes by its XIDs, else by the counter."""
        often = f"{self.times} time{'s' * (self.times != 1)} in {self._within}"
        signs = sorted(self._signs.items(), key=lambda each: _place(each[0]))
        if len(signs) == 1:
            return f"{often}, {signs[0][0]}"
        return f"{often}: {', '.join(f'{times} {sign}' for sign, times in signs)}"

    @property
    def _within(self) -> str:
        moments = [each.start_ms for each in self.troubles]
        days = (max(moments) - min(moments)) // DAY_MS + 1
        return "24 h" if days == 1 else f"{days} days"

    @property
    def _signs(self) -> Counter[str]:
        """By sign of how many five minutes it is all that told."""
        xids: dict[int, set[int]] = defaultdict(set)
        for each in self.troubles:
            xids[each.start_ms] |= set() if each.xid is None else {each.xid}
        return Counter(
            f"by {' and '.join(f'XID {xid}' for xid in sorted(codes))}" if codes else COUNTER
            for codes in xids.values()
        )


def _place(sign: str) -> tuple[bool, str]:
    """What signs are told by: XIDs first."""
    return sign == COUNTER, sign


def measure(watch: Watch) -> Measured:
    """Of each GPU with errors when there were as many in a day as the rule says; until its node was
    heard last.
    """
    troubles = _troubles(watch.start_ms - DAY_MS, watch.end_ms)
    uuids = troubles.keys() | watch.firing.keys()
    gpus = {
        uuid: gpu for uuid, gpu in inventory.newest_rows(uuids).items() if gpu.retired_ms is None
    }
    retired = {uuid: End(watch.end_ms, RETIRED) for uuid in watch.firing if uuid not in gpus}
    merged = {
        uuid: End(outage.start_ms, MERGED) for uuid, outage in _failed(gpus, watch.end_ms).items()
    }
    spans = {
        uuid: _spans(troubles.get(uuid, ()), watch, _seen_ms(gpu, watch, merged.get(uuid)))
        for uuid, gpu in gpus.items()
    }
    return Measured(spans, retired | merged, cleared=CLEARED)


def _seen_ms(gpu: GPU, watch: Watch, end: End | None) -> int:
    """Until when it is known how it works: what came after it failed is the fault's."""
    return min(gpu.node.last_ms or 0, end.at_ms if end else watch.end_ms, watch.end_ms)


def _spans(troubles: Sequence[Trouble], watch: Watch, seen_ms: int) -> list[Span]:
    """Of one GPU until it was seen last."""
    breaches = _breaches(troubles, int(watch.settings.threshold), seen_ms)
    return clear_between(breaches, watch.start_ms, seen_ms)


def _breaches(troubles: Sequence[Trouble], count: int, heard_ms: int) -> Iterator[Span]:
    """From the last of so many within a day until the first of them is a day ago."""
    moments = sorted({each.start_ms for each in troubles})
    for first_ms, last_ms in zip(moments, moments[count - 1 :], strict=False):
        end_ms = min(first_ms + DAY_MS, heard_ms)
        if last_ms < end_ms:
            yield Span(last_ms, end_ms, Level.BREACH)


def _troubles(start_ms: int, end_ms: int) -> dict[str, list[Trouble]]:
    """By GPU its five minutes with memory errors, while it could work."""
    every: dict[str, list[Trouble]] = defaultdict(list)
    for uuid, trouble in (*_of_events(start_ms, end_ms), *_of_counters(start_ms, end_ms)):
        every[uuid].append(trouble)
    outages = _outages(every)
    working = {
        uuid: [each for each in own if not _is_within(each, outages.get(uuid, ()))]
        for uuid, own in every.items()
    }
    return {uuid: own for uuid, own in working.items() if own}


def _of_events(start_ms: int, end_ms: int) -> Iterator[tuple[str, Trouble]]:
    for uuid, at_ms, code in xids_of_gpus(MEMORY_XIDS, start_ms, end_ms):
        yield uuid, Trouble(at_ms // CELL_MS * CELL_MS, code)


def _of_counters(start_ms: int, end_ms: int) -> Iterator[tuple[str, Trouble]]:
    """By diagnosis, which calls a GPU broken that counted new ones while a job held it."""
    rows = CauseEntry.objects.filter(
        cause__in=FAILURES, start__gte=from_ms(floor_hour_ms(start_ms)), start__lt=from_ms(end_ms)
    )
    for uuid, start, bits in rows.values_list("gpu__uuid", "start", "cells"):
        for cell_ms in starts(to_ms(start), bits):
            if start_ms <= cell_ms < end_ms:
                yield uuid, Trouble(cell_ms)


def _outages(uuids: Iterable[str]) -> Mapping[str, list[tuple[int, int]]]:
    """When each could not work, to the five minutes."""
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    rows = Posted.objects.filter(gpu__uuid__in=list(uuids)).exclude(outages=[])
    for row in rows.select_related("gpu"):
        for outage in posted_outages(row):
            start_ms = outage.start_ms // CELL_MS * CELL_MS
            spans[row.gpu.uuid].append((start_ms, outage.end_ms))
    return spans


def _lost(uuids: Iterable[str], watch: Watch) -> dict[str, str]:
    """By GPU since when it can't work, in words; of those whose fault goes on."""
    return {
        uuid: _since_when(outage, watch.end_ms)
        for uuid, outage in _failed(uuids, watch.end_ms).items()
    }


def _failed(uuids: Iterable[str], now_ms: int) -> dict[str, Outage]:
    """By GPU the outage that goes on then, no drain: of those that have one."""
    rows = Posted.objects.filter(gpu__uuid__in=list(uuids)).exclude(outages=[])
    return {
        row.gpu.uuid: outage
        for row in rows.select_related("gpu")
        for outage in posted_outages(row)
        if not outage.is_drain and outage.start_ms < now_ms <= outage.end_ms
    }


def _since_when(outage: Outage, now_ms: int) -> str:
    at = wording.moment(from_ms(outage.start_ms), zone(), now=from_ms(now_ms))
    return f"was lost at {at}" if outage.reason in LOST else f"could not work from {at} on"


def _is_within(trouble: Trouble, outages: Iterable[tuple[int, int]]) -> bool:
    return any(start_ms <= trouble.start_ms < end_ms for start_ms, end_ms in outages)


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode the errors until its end and what to do; None of a GPU that is gone."""
    if not episodes:
        return []
    gpus = inventory.newest_rows({each.subject for each in episodes})
    context = _Context.of(gpus, episodes, watch)
    there = [(each, gpus.get(each.subject)) for each in episodes]
    return [
        None if gpu is None else _breach(context.struggle(gpu, each), each, watch)
        for each, gpu in there
    ]


@dataclass(frozen=True, slots=True)
class _Context:
    """What is known of the GPUs, their nodes and their errors."""

    clusters: Mapping[int, Iterable[str]]
    schedulers: Mapping[int, str]
    troubles: Mapping[str, Sequence[Trouble]]
    lost: Mapping[str, str]

    @classmethod
    def of(cls, gpus: Mapping[str, GPU], episodes: Sequence[Episode], watch: Watch) -> "_Context":
        nodes = {gpu.node_id for gpu in gpus.values()}
        since_ms = min(each.since_ms for each in episodes) - DAY_MS
        return cls(
            clusters_of(nodes),
            schedulers_of(nodes),
            _troubles(since_ms, watch.end_ms),
            _lost(gpus, watch),
        )

    def struggle(self, gpu: GPU, episode: Episode) -> Struggle:
        reset = reset_of(gpu, self.schedulers.get(gpu.node_id, ""), reason=REASON)
        of_node = tuple(self.clusters.get(gpu.node_id, ()))
        during = _during(episode, self.troubles)
        return Struggle(gpu, during, of_node, reset, self.lost.get(gpu.uuid, ""))


def _during(episode: Episode, troubles: Mapping[str, Sequence[Trouble]]) -> tuple[Trouble, ...]:
    """Those that made it, and of its time."""
    low_ms = episode.since_ms - DAY_MS
    own = troubles.get(episode.subject, ())
    return tuple(each for each in own if low_ms < each.start_ms < episode.until_ms)


def _words(struggle: Struggle, worked: str, since: str = "") -> str:
    """That it worked with errors; of one that was lost since that, and what it is `since`."""
    where = place_of(struggle.gpu)
    errors = f"memory errors ({struggle.errors})"
    if struggle.lost:
        return f"{where} had {errors}, then {struggle.lost}{since}"
    return f"{where} {worked} with {errors}"


def _breach(struggle: Struggle, episode: Episode, watch: Watch) -> Breach:
    gpu = struggle.gpu
    where = place_of(gpu)
    return Breach(
        subject=episode.subject,
        kind="gpu",
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="memory errors",
        tag="memory errors",
        title=f"memory errors · {with_model(gpu)}",
        where=where,
        what=_words(struggle, "worked"),
        does=_words(struggle, "works"),
        has=_words(struggle, "has worked", "; it has been failing"),
        had="It had had memory errors",
        several="working with memory errors",
        limit=f"≥ {watch.settings.threshold:g} in 24 h",
        name=where,
        has_cost=False,
        lines=(("Errors", struggle.errors),),
        actions=struggle.reset.actions,
        codes=struggle.reset.codes,
        labels=gpu_labels([gpu], struggle.clusters),
        facts={"times": struggle.times, "xids": struggle.xids},
    )


CONDITION = Condition(
    name="gpu_memory_errors",
    label="GPU with memory errors",
    sentence=(
        "Fires when a GPU that works had uncorrectable errors of its memory {threshold} times or"
        " more within 24 hours."
    ),
    kind="gpu",
    unit="times in 24 h",
    low=1,
    high=DAY_MS / CELL_MS,
    usual=Settings(threshold=1, minutes=1),
    measure=measure,
    describe=describe,
    is_on=True,
    every_minutes=5,
)
