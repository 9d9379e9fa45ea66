"""Reads what else may be behind findings, where telemetry could not tell it from their cause."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from fleetwatch.diagnosis.cause import Step
from fleetwatch.diagnosis.causes import of_kind
from fleetwatch.lib.rows import fetched

LEAST = 0.25  # of the finding's time in which it was possible
MOST_TOLD = 3
Key = tuple[int, str]  # a job and a finding's cause

# One row: a cause that was possible beside a finding's, and the held time in which it was; the
# whole of the finding's with "".
_POSSIBLE = """
SELECT entry.job_id, entry.cause, possible.cause, sum(entry.held_ms)::bigint
FROM diagnosis_causeentry AS entry
CROSS JOIN LATERAL (SELECT '' AS cause UNION ALL SELECT unnest(entry.also)) AS possible
WHERE entry.job_id = ANY(%s) AND entry.cause = ANY(%s) AND entry.high_ms > 0
GROUP BY 1, 2, 3
"""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A cause that looks the same, and the step that tells it from the finding's."""

    cause: str
    title: str
    step: Step


def alternatives(keys: Collection[Key]) -> dict[Key, tuple[str, ...]]:
    """Of each of these findings the causes that were possible for a quarter of its time, those with
    most time first.
    """
    job_ids = sorted({job_id for job_id, _ in keys})
    causes = sorted({cause for _, cause in keys})
    held: dict[Key, dict[str, int]] = defaultdict(dict)
    for job_id, cause, other, held_ms in fetched(_POSSIBLE, [job_ids, causes]):
        held[job_id, cause][other] = held_ms
    return {key: _most(held[key]) for key in keys if key in held}


def _most(held_ms: dict[str, int]) -> tuple[str, ...]:
    least_ms = LEAST * held_ms[""]
    likely = [cause for cause, ms in held_ms.items() if cause and ms >= least_ms]
    return tuple(sorted(likely, key=lambda cause: (-held_ms[cause], cause))[:MOST_TOLD])


def in_words(codes: Collection[str], kind: str) -> list[Alternative]:
    """The causes as they are told of a job of that kind, each with its next diagnostic step."""
    causes = [of_kind(code, kind) for code in codes]
    return [
        Alternative(cause.code, cause.title, (*cause.tell, *cause.fixes)[0]) for cause in causes
    ]
