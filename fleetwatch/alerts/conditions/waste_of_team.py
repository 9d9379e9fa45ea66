"""The condition waste_of_team: a team's jobs waste so many dollars an hour, hour after hour."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
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
    agreed = waste_rates.agreed_in(episodes, "team", watch)
    return [
        waste_rates.breach(each, _waster(each, names, totals, usd), watch, kind="team")
        if totals
        else None
        for each, totals, usd in zip(episodes, wasted, agreed, strict=True)
    ]


def _waster(
    episode: Episode, names: Mapping[str, str], totals: Totals, agreed_usd: Decimal
) -> Waster:
    return Waster(
        names.get(episode.subject) or one_line(episode.subject, 60),
        totals,
        agreed_usd,
        {"team": (episode.subject,)},
        f"/waste?{urlencode({'team': episode.subject, 'group_by': 'user'})}",
    )


CONDITION = Condition(
    name="waste_of_team",
    label="Waste of a team",
    sentence=(
        "Fires when a team's jobs have wasted ${threshold} an hour or more for {minutes} minutes,"
        " what is agreed as not waste apart."
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
    judged_ms=waste_rates.JUDGED_MS,
)
