"""Why jobs wasted within episodes, of any number of them in one statement."""

from collections.abc import Sequence
from datetime import datetime

from fleetwatch.diagnosis.selectors import Primary
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_CAUSES = read_statement("alerts/sql/episode_causes.sql")


def primary_causes_within(
    job_ids: Sequence[int], since: Sequence[datetime], until: Sequence[datetime]
) -> dict[int, Primary]:
    """By place in these, which are as long as each other, the cause of most that the job wasted;
    not there: nothing was diagnosed.
    """
    primary: dict[int, Primary] = {}
    asked = {"job_ids": list(job_ids), "since": list(since), "until": list(until)}
    for place, cause, sure, wasted_ms, held_ms in fetched(_CAUSES, asked):
        other = Primary(cause, sure, int(wasted_ms), int(held_ms))
        primary[place - 1] = max(primary.get(place - 1, other), other, key=_rank)
    return primary


def _rank(primary: Primary) -> tuple[int, int, int]:
    return primary.rank
