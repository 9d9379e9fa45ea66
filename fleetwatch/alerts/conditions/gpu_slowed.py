"""The condition gpu_slowed: a GPU that works, and is held back by heat or power delivery. Its
dollars are what the lower clock wasted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fleetwatch.alerts.breach import Breach, Condition, Settings, Watch
from fleetwatch.alerts.episodes import Episode, Measured
from fleetwatch.alerts.measuring.gpu_causes import measured
from fleetwatch.alerts.measuring.gpu_costs import Part, cost_of_parts
from fleetwatch.alerts.measuring.gpu_words import gpu_labels, place_of, with_model
from fleetwatch.alerts.measuring.slowed_holders import SlowedHolder, slowed_holders
from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.diagnosis.causes import BY_CODE, SLOWED
from fleetwatch.diagnosis.causes.throttled import OF_SEVERAL
from fleetwatch.diagnosis.findings import clock_losses
from fleetwatch.diagnosis.findings.clock_losses import NOTHING, ClockLoss
from fleetwatch.diagnosis.slowed_cells import slowed_parts
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.selectors import clusters_of
from fleetwatch.lib.intervals import Interval, from_ms
from fleetwatch.notify import wording

CAUSE = BY_CODE[SLOWED]
LOWER_CLOCK = "Lower clock"  # the line that says what it cost
LOOKS_BACK_MS = 7 * 24 * 60 * 60_000  # before it fired: what goes on for longer began then at most


def measure(watch: Watch) -> Measured:
    """When diagnosis said so of each GPU, by its throttle counters and clocks."""
    return measured((SLOWED,), watch, cleared="it runs at its clock again")


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode which GPU it is and what to do; None of one that nobody knows any more."""
    gpus = inventory.newest_rows({each.subject for each in episodes})
    clusters = clusters_of({gpu.node_id for gpu in gpus.values()})
    there = [(each, gpus[each.subject]) for each in episodes if each.subject in gpus]
    slowed = _slowed([(each, gpu.pk) for each, gpu in there], watch)
    rates = RatesInForce({gpu.pk for gpu in gpus.values()})
    breaches = {
        each: _breach(gpu, clusters.get(gpu.node_id, ()), slowed[each], rates, watch)
        for each, gpu in there
    }
    return [breaches.get(each) for each in episodes]


@dataclass(frozen=True, slots=True)
class _Slowed:
    """An episode with the five minutes in which its GPU was slowed, since `since_ms`: diagnosis may
    know of earlier ones than the rule saw when it fired.
    """

    episode: Episode
    since_ms: int
    parts: Sequence[Part]
    holder: SlowedHolder | None  # who can't mend it; None: nobody known
    clock: ClockLoss = NOTHING

    @property
    def interval(self) -> Interval:
        until_ms = max(self.episode.until_ms, self.since_ms + 1)
        return Interval(from_ms(self.since_ms), from_ms(until_ms))

    @property
    def actions(self) -> tuple[str, ...]:
        """What to do: a node is taken out of service for ranks that wait for the slowest."""
        is_alone = self.holder is not None and self.holder.gpus == 1
        steps = [step for step in CAUSE.fixes if not (is_alone and step.text == OF_SEVERAL)]
        return tuple(f"Fix: {step.text} {step.code}".strip() for step in steps)

    @property
    def lost(self) -> str:
        """How much of the time that it was slowed is lost: a slower GPU works on."""
        slowed_ms = sum(end_ms - start_ms for start_ms, end_ms, _ in self.parts)
        wasted_ms = sum(part[2] for part in self.parts)
        share = wording.share(wasted_ms / slowed_ms)
        return (
            f"{share} of the time, which the ledger has as underused or stalled; in the rest it did"
            " useful work, at a lower clock"
        )

    @property
    def clock_lost(self) -> str:
        """What the lower clock cost of its work, whatever the ledger counts; "" where that is not
        known.
        """
        clock = self.clock
        if clock.clock is None:
            return ""
        usd = "" if clock.usd is None else f" ({wording.usd(clock.usd)})"
        return (
            f"cost up to {wording.gpu_hours(clock.lost_ms)}{usd} of work, as if it ran at"
            f" {wording.share(clock.clock)} of its highest clock; the ledger counts little of that"
            " as waste, because the GPU was busy"
        )


def _slowed(episodes: Sequence[tuple[Episode, int]], watch: Watch) -> dict[Episode, _Slowed]:
    """Of each (of the GPU with that id) since when, without a break in which it would be over."""
    if not episodes:
        return {}
    gpu_ids = {gpu_id for _, gpu_id in episodes}
    start_ms = min(each.since_ms for each, _ in episodes) - LOOKS_BACK_MS
    parts = slowed_parts(gpu_ids, start_ms, max(each.until_ms for each, _ in episodes))
    holders = slowed_holders(episodes)
    clear_ms = max(watch.settings.timing.clear_ms, 1)
    slowed = [
        _one(each, parts.get(gpu_id, ()), holders.get(each), clear_ms=clear_ms)
        for each, gpu_id in episodes
    ]
    return _with_clocks(slowed, [gpu_id for _, gpu_id in episodes])


def _with_clocks(slowed: Sequence[_Slowed], gpu_ids: Sequence[int]) -> dict[Episode, _Slowed]:
    """Each with what the lower clock cost, of the GPU with that id."""
    asked = [(gpu_id, each.interval) for each, gpu_id in zip(slowed, gpu_ids, strict=True)]
    return {
        each.episode: replace(each, clock=clock)
        for each, clock in zip(slowed, clock_losses.of_gpus(asked), strict=True)
    }


def _one(
    episode: Episode, parts: Sequence[Part], holder: SlowedHolder | None, *, clear_ms: int
) -> _Slowed:
    until = [part for part in parts if part[0] < episode.until_ms]
    since_ms = slowed_since(until, episode.since_ms, clear_ms=clear_ms)
    return _Slowed(episode, since_ms, [part for part in until if part[1] > since_ms], holder)


def slowed_since(parts: Sequence[Part], since_ms: int, *, clear_ms: int) -> int:
    """Since when, of parts in order of time, it goes on up to then: no break lasts `clear_ms`."""
    for start_ms, end_ms, _ in reversed(parts):
        if since_ms - end_ms >= clear_ms:
            break
        since_ms = min(since_ms, start_ms)
    return since_ms


def _breach(
    gpu: GPU, clusters: Iterable[str], slowed: _Slowed, rates: RatesInForce, watch: Watch
) -> Breach:
    where = place_of(gpu)
    episode = slowed.episode
    cost = cost_of_parts(gpu.pk, slowed.parts, rates)
    return Breach(
        subject=episode.subject,
        kind="gpu",
        since_ms=slowed.since_ms,
        until_ms=episode.until_ms,
        word="slowed",
        tag="slowed",
        title=f"slowed by heat or power · {with_model(gpu)}",
        where=where,
        what=f"{where} was slowed by heat or power",
        does=f"{where} is slowed by heat or power",
        has=f"{where} has been slowed by heat or power",
        had="It had been slowed",
        limit=f"slowed ≥ {watch.settings.minutes:g} min",
        name=where,
        owner=slowed.holder.owner if slowed.holder else "",
        usd_per_hour=cost.usd_per_hour,
        cost_usd=cost.usd,
        has_example_rates=cost.has_example_rates,
        lines=(
            ("What is wrong", CAUSE.sentence),
            *((("Lost", slowed.lost),) if slowed.parts else ()),
            *(((LOWER_CLOCK, slowed.clock_lost),) if slowed.clock_lost else ()),
        ),
        actions=slowed.actions,
        labels=gpu_labels([gpu], clusters) | {"cause": (SLOWED,)},
    )


CONDITION = Condition(
    name="gpu_slowed",
    label="GPU slowed by heat or power",
    sentence=(
        "Fires when a GPU that works has been slowed by heat or power delivery for {minutes}"
        " minutes."
    ),
    kind="gpu",
    unit="",
    low=0,
    high=0,
    usual=Settings(threshold=0, minutes=30, min_coverage=0.8, clear_minutes=15),
    measure=measure,
    describe=describe,
    is_on=True,
    every_minutes=5,  # as diagnosis looks at the hour that goes on
    covers=(
        "only what the ledger counts as underused or stalled while the clock was lower: in the rest"
        " the GPU was busy"
    ),
)
