"""Reads what else may be behind findings, where telemetry could not tell it from their cause."""

from collections.abc import Collection
from dataclasses import dataclass

from fleetwatch.diagnosis.cause import Step
from fleetwatch.diagnosis.causes import of_kind
from fleetwatch.diagnosis.findings.advice import aimed
from fleetwatch.diagnosis.shell import NOWHERE
from fleetwatch.lib.rows import fetched

LEAST = 0.25  # of the finding's time in which it was possible
MOST_TOLD = 3
Key = tuple[int, str]  # a job and a finding's cause

# One row: a finding's job and cause, and the causes that were possible beside it for long enough,
# those with most time first; the whole of the finding's time is that with "".
_POSSIBLE = """
WITH possible AS (
    SELECT entry.job_id, entry.cause, possible.other, sum(entry.held_ms) AS held_ms,
        max(sum(entry.held_ms)) FILTER (WHERE possible.other = '')
            OVER (PARTITION BY entry.job_id, entry.cause) AS whole_ms
    FROM diagnosis_causeentry AS entry
    CROSS JOIN LATERAL unnest(array_prepend('', entry.also)) AS possible (other)
    WHERE entry.job_id = ANY(%s) AND entry.cause = ANY(%s) AND entry.high_ms > 0
    GROUP BY 1, 2, 3
)
SELECT job_id, cause, array_agg(other ORDER BY held_ms DESC, other COLLATE "C")
FROM possible
WHERE other <> '' AND held_ms >= %s * whole_ms
GROUP BY 1, 2
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
    rows = fetched(_POSSIBLE, [job_ids, causes, LEAST])
    return {(job_id, cause): tuple(others[:MOST_TOLD]) for job_id, cause, others in rows}


def in_words(codes: Collection[str], kind: str) -> list[Alternative]:
    """The causes as they are told of a job of that kind, each with its next diagnostic step."""
    causes = [of_kind(code, kind) for code in codes]
    return [
        Alternative(cause.code, cause.title, aimed((*cause.tell, *cause.fixes)[0], NOWHERE))
        for cause in causes
    ]
