"""The condition gpu_slowed: a GPU that works, and is held back by heat or power delivery."""

from collections.abc import Iterable, Sequence

from fleetwatch.alerts.breach import Breach, Condition, Settings, Watch
from fleetwatch.alerts.episodes import Episode, Measured
from fleetwatch.alerts.measuring.gpu_causes import measured
from fleetwatch.alerts.measuring.gpu_words import gpu_labels, place_of, with_model
from fleetwatch.diagnosis.causes import BY_CODE, SLOWED
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
    return [
        None if gpu is None else _breach(each, gpu, clusters.get(gpu.node_id, ()), watch)
        for each, gpu in there
    ]


def _breach(episode: Episode, gpu: GPU, clusters: Iterable[str], watch: Watch) -> Breach:
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
        has_cost=False,
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
