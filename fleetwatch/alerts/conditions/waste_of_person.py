"""The condition waste_of_person: a user's jobs waste so many dollars an hour, hour after hour."""

from collections.abc import Sequence
from functools import partial
from urllib.parse import urlencode

from fleetwatch.alerts.breach import Breach, Condition, Settings, Watch
from fleetwatch.alerts.episodes import Episode
from fleetwatch.alerts.measuring import waste_rates
from fleetwatch.alerts.measuring.waste_rates import Waster
from fleetwatch.notify.message import one_line


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode whose jobs they are and what they wasted; None of who has no time in it."""
    wasted = waste_rates.wasted_in(episodes, "user", watch)
    labels = waste_rates.holder_labels({each.subject for each in episodes}, watch)
    return [
        waste_rates.breach(
            each,
            Waster(one_line(each.subject, 60), totals, labels[each.subject], _address(each)),
            watch,
            kind="person",
        )
        if totals
        else None
        for each, totals in zip(episodes, wasted, strict=True)
    ]


def _address(episode: Episode) -> str:
    return f"/waste?{urlencode({'user': episode.subject, 'group_by': 'job'})}"


CONDITION = Condition(
    name="waste_of_person",
    label="Waste of a person",
    sentence=(
        "Fires when a person's jobs have wasted ${threshold} an hour or more for {minutes} minutes."
    ),
    kind="person",
    unit="dollars an hour",
    low=0.01,
    high=100_000,
    usual=Settings(threshold=20, minutes=120),
    measure=partial(waste_rates.measured, group_by="user"),
    describe=describe,
    every_minutes=15,
)
