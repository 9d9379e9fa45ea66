"""The condition gpu_fault: a GPU that can't work, by what its driver or platform said of it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Q

from fleetwatch.accounts.selectors import zone
from fleetwatch.alerts.breach import Breach, Condition, Settings, Watch
from fleetwatch.alerts.episodes import End, Episode, Level, Measured, Span
from fleetwatch.alerts.measuring.fault_lines import fault_lines
from fleetwatch.alerts.measuring.gpu_costs import Cost, cost_of
from fleetwatch.alerts.measuring.gpu_words import (
    LOST,
    OFF_THE_BUS,
    fault_in_words,
    gpu_labels,
    place_of,
    with_model,
)
from fleetwatch.alerts.measuring.job_lanes import RETIRED
from fleetwatch.alerts.measuring.last_holders import (
    Holders,
    LastHolder,
    holder_lines,
    last_holders,
)
from fleetwatch.alerts.measuring.merged_spans import clear_between
from fleetwatch.alerts.measuring.reset_steps import (
    Reset,
    reset_of,
    restart_of,
    schedulers_of,
)
from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.diagnosis.findings.fault_history import (
    LOOKS_BACK_MS,
    NOTED_MS,
    FaultHistory,
    Xid,
    history,
    xids_by_gpu,
)
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.selectors import clusters_of
from fleetwatch.ledger.judgement.observations import Outage
from fleetwatch.ledger.judgement_inputs import posted_outages
from fleetwatch.ledger.models import Posted

WORKS_AGAIN = "it works again"
REASON = "GPU fault"
XID_OFF_THE_BUS = 79
DRIVER = "Fix: load the driver that matches the installed libraries, or restart the node."


@dataclass(frozen=True, slots=True)
class Fault:
    """A GPU, why it can't work, what that costs, what was told of it before, and whose job held it
    as it broke (None: no job did).
    """

    gpu: GPU
    reason: str
    cost: Cost
    clusters: tuple[str, ...]
    scheduler: str
    history: FaultHistory
    holder: LastHolder | None

    @property
    def wrong(self) -> str:
        """What is wrong, in words: of a lost GPU by the XID that says more."""
        return fault_in_words(OFF_THE_BUS if self._is_off_the_bus else self.reason)

    @property
    def _is_off_the_bus(self) -> bool:
        return self.reason in LOST and self.history.code == XID_OFF_THE_BUS

    @property
    def fixes(self) -> Reset:
        """What to do."""
        if self.reason.startswith("driver_"):
            return Reset((DRIVER,), ())
        often = self.history.often
        if self.reason in LOST:
            return restart_of(self.gpu, self.scheduler, reason=REASON, often=often)
        return reset_of(self.gpu, self.scheduler, reason=REASON, often=often)


def measure(watch: Watch) -> Measured:
    """When each GPU could not work, by the outages that the ledger judged by; a drained node is no
    fault. Where its node was not heard nobody knows.
    """
    faults: dict[str, list[Outage]] = defaultdict(list)
    heard_ms: dict[str, int] = {}
    for row in _posted(watch.firing):
        uuid = row.gpu.uuid
        faults[uuid] += [each for each in _faults(row) if each.end_ms > watch.start_ms]
        heard_ms[uuid] = min(row.gpu.node.last_ms or 0, watch.end_ms)
    spans = {
        uuid: clear_between(_breaches(outages, heard_ms[uuid]), watch.start_ms, heard_ms[uuid])
        for uuid, outages in faults.items()
    }
    ends = {uuid: End(watch.end_ms, RETIRED) for uuid in watch.firing if uuid not in spans}
    return Measured(spans, ends, cleared=WORKS_AGAIN)


def _posted(subjects: Iterable[str]) -> Iterable[Posted]:
    """Of the GPUs that are there, those with outages and those that are asked for."""
    wanted = ~Q(outages=[]) | Q(gpu__uuid__in=list(subjects))
    rows = Posted.objects.filter(wanted, gpu__retired_ms=None)
    return rows.select_related("gpu__node").order_by("pk")


def _faults(row: Posted) -> list[Outage]:
    return [outage for outage in posted_outages(row) if not outage.is_drain]


def _breaches(outages: Iterable[Outage], heard_ms: int) -> list[Span]:
    return [
        Span(outage.start_ms, min(outage.end_ms, heard_ms), Level.BREACH)
        for outage in outages
        if outage.start_ms < heard_ms
    ]


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode what is wrong with the GPU, and what that costs; None of one that nobody
    knows any more.
    """
    gpus = inventory.newest_rows({each.subject for each in episodes})
    faults = {row.gpu.uuid: _faults(row) for row in _posted(gpus)}
    rates = RatesInForce(gpu.pk for gpu in gpus.values())
    nodes = {gpu.node_id for gpu in gpus.values()}
    xids = _xids(gpus, episodes)
    held = last_holders(episodes, gpus)
    books = _Books(faults, rates, clusters_of(nodes), schedulers_of(nodes), xids, held)
    there = [(each, gpus.get(each.subject)) for each in episodes]
    return [
        None if gpu is None else _breach(each, _fault(each, gpu, books), watch)
        for each, gpu in there
    ]


@dataclass(frozen=True, slots=True)
class _Books:
    """What is known of several GPUs (by UUID) and of their nodes (by id)."""

    faults: Mapping[str, Sequence[Outage]]
    rates: RatesInForce
    clusters: Mapping[int, set[str]]
    schedulers: Mapping[int, str]
    xids: Mapping[int, Sequence[Xid]]
    held: Holders


def _xids(gpus: Mapping[str, GPU], episodes: Sequence[Episode]) -> Mapping[int, Sequence[Xid]]:
    """By id the XIDs of these GPUs, of long enough before the first to the start of the last."""
    if not episodes:
        return {}
    starts = [each.since_ms for each in episodes]
    return xids_by_gpu(gpus.values(), min(starts) - LOOKS_BACK_MS, max(starts) + NOTED_MS + 1)


def _fault(episode: Episode, gpu: GPU, books: _Books) -> Fault:
    during = [
        outage.reason
        for outage in books.faults.get(gpu.uuid, ())
        if outage.start_ms < episode.until_ms and outage.end_ms > episode.since_ms
    ]
    cost = cost_of([gpu.pk], books.rates, episode.since_ms, episode.until_ms)
    clusters = tuple(books.clusters.get(gpu.node_id, ()))
    scheduler = books.schedulers.get(gpu.node_id, "")
    past = history(books.xids.get(gpu.pk, ()), episode.since_ms)
    holder = books.held.get((gpu.pk, episode.since_ms))
    return Fault(gpu, during[-1] if during else "", cost, clusters, scheduler, past, holder)


def _breach(episode: Episode, fault: Fault, watch: Watch) -> Breach:
    where = place_of(fault.gpu)
    return Breach(
        subject=episode.subject,
        kind="gpu",
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="faulty",
        tag="GPU fault",
        title=f"GPU fault · {with_model(fault.gpu)}",
        where=where,
        what=f"{where} could not work ({fault.wrong})",
        does=f"{where} can't work ({fault.wrong})",
        has=f"{where} has been unable to work ({fault.wrong})",
        had="It had been unable to work",
        limit=f"can't work ≥ {watch.settings.minutes:g} min",
        name=where,
        usd_per_hour=fault.cost.usd_per_hour,
        cost_usd=fault.cost.usd,
        counted_until_ms=episode.until_ms,
        has_example_rates=fault.cost.has_example_rates,
        lines=(
            ("What is wrong", fault.wrong),
            *holder_lines(fault.holder, episode.since_ms, watch.end_ms),
            *fault_lines(fault.history, fault.wrong, zone(), watch.end_ms),
        ),
        actions=fault.fixes.actions,
        codes=fault.fixes.codes,
        labels=gpu_labels([fault.gpu], fault.clusters),
        facts={"reason": fault.reason},
    )


CONDITION = Condition(
    name="gpu_fault",
    label="GPU fault",
    sentence=(
        "Fires when a GPU has been unable to work for {minutes} minutes: a hardware XID, lost by"
        " the driver, in need of recovery, or without a driver."
    ),
    kind="gpu",
    unit="",
    low=0,
    high=0,
    usual=Settings(threshold=0, minutes=2),
    measure=measure,
    describe=describe,
    is_on=True,
    severity="critical",
    covers="the GPU's time while it can't work",
    state="unavailable",
)
