"""The condition gpu_slowed: a GPU that works, and is held back by heat or power delivery. Its
dollars are what the lower clock wasted.
"""

from collections.abc import Iterable, Sequence

from fleetwatch.alerts.breach import Breach, Condition, Settings, Watch
from fleetwatch.alerts.episodes import Episode, Measured
from fleetwatch.alerts.measuring.gpu_causes import measured
from fleetwatch.alerts.measuring.gpu_costs import Cost, cost_of_parts
from fleetwatch.alerts.measuring.gpu_words import gpu_labels, place_of, with_model
from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.diagnosis.causes import BY_CODE, SLOWED
from fleetwatch.diagnosis.slowed_cells import slowed_parts
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.selectors import clusters_of

CAUSE = BY_CODE[SLOWED]


def measure(watch: Watch) -> Measured:
    """When diagnosis said so of each GPU, by its throttle counters and clocks."""
    return measured((SLOWED,), watch, cleared="it runs at its clock again")


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode which GPU it is and what to do; None of one that nobody knows any more."""
    gpus = inventory.newest_rows({each.subject for each in episodes})
    clusters = clusters_of({gpu.node_id for gpu in gpus.values()})
    there = [(each, gpus.get(each.subject)) for each in episodes]
    costs = _costs([(each, gpu.pk) for each, gpu in there if gpu is not None])
    return [
        None
        if gpu is None
        else _breach(each, gpu, clusters.get(gpu.node_id, ()), costs[each], watch)
        for each, gpu in there
    ]


def _costs(episodes: Sequence[tuple[Episode, int]]) -> dict[Episode, Cost]:
    """What each (of the GPU with that id) wasted so far, and an hour of it by its newest five
    minutes.
    """
    if not episodes:
        return {}
    gpu_ids = {gpu_id for _, gpu_id in episodes}
    start_ms = min(each.since_ms for each, _ in episodes)
    parts = slowed_parts(gpu_ids, start_ms, max(each.until_ms for each, _ in episodes))
    rates = RatesInForce(gpu_ids)
    costs = {}
    for each, gpu_id in episodes:
        own = [
            part
            for part in parts.get(gpu_id, ())
            if part[1] > each.since_ms and part[0] < each.until_ms
        ]
        costs[each] = cost_of_parts(gpu_id, own, rates)
    return costs


def _breach(
    episode: Episode, gpu: GPU, clusters: Iterable[str], cost: Cost, watch: Watch
) -> Breach:
    where = place_of(gpu)
    return Breach(
        subject=episode.subject,
        kind="gpu",
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word="slowed",
        tag="slowed",
        title=f"slowed by heat or power · {with_model(gpu)}",
        where=where,
        what=f"{where} was slowed by heat or power",
        had="It had been slowed",
        limit=f"slowed ≥ {watch.settings.minutes:g} min",
        name=where,
        usd_per_hour=cost.usd_per_hour,
        cost_usd=cost.usd,
        has_example_rates=cost.has_example_rates,
        lines=(("What is wrong", CAUSE.sentence),),
        actions=tuple(f"Fix: {step.text} {step.code}".strip() for step in CAUSE.fixes),
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
)
