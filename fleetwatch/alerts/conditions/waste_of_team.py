"""The condition waste_of_team: a team's jobs waste so many dollars an hour, hour after hour."""

from collections.abc import Sequence
from functools import partial
from urllib.parse import urlencode

from fleetwatch.alerts.breach import BELOW, Breach, Condition, Settings, Watch
from fleetwatch.alerts.episodes import Episode
from fleetwatch.alerts.measuring import waste_rates
from fleetwatch.alerts.measuring.waste_rates import Waster
from fleetwatch.figures.totals import Totals
from fleetwatch.notify.message import one_line


def describe(episodes: Sequence[Episode], watch: Watch) -> list[Breach | None]:
    """Of each episode which team it is and what it wasted; None of one that has no time in it."""
    names = waste_rates.team_names({each.subject for each in episodes})
    wasted = waste_rates.wasted_in(episodes, "team", watch)
    return [
        _breach(each, names.get(each.subject, ""), totals, watch) if totals else None
        for each, totals in zip(episodes, wasted, strict=True)
    ]


def _breach(episode: Episode, name: str, totals: Totals, watch: Watch) -> Breach:
    waster = Waster(
        name or one_line(episode.subject, 60),
        totals,
        {"team": (episode.subject,)},
        f"/waste?{urlencode({'team': episode.subject, 'group_by': 'user'})}",
    )
    return waste_rates.breach(episode, waster, watch, kind="team")


CONDITION = Condition(
    name="waste_of_team",
    label="Waste of a team",
    sentence=(
        "Fires when a team's jobs have wasted ${threshold} an hour or more for {minutes} minutes."
    ),
    kind="team",
    unit="dollars an hour",
    low=0.01,
    high=100_000,
    clears=BELOW,
    usual=Settings(threshold=100, minutes=120),
    measure=partial(waste_rates.measured, group_by="team"),
    describe=describe,
    highest=partial(waste_rates.highest, group_by="team"),
    every_minutes=15,
    covers="what was wasted",
)
