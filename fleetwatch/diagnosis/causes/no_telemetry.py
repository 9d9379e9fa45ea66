"""Nobody saw what the GPU did: too little of the time was observed to say anything."""

from collections.abc import Iterator

from fleetwatch.diagnosis.cause import ADMIN, MINUTES, UNSEEN, Cause, Machine, Overruled, Step
from fleetwatch.diagnosis.causes.undetermined import TOO_SHORT
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import COVERAGE
from fleetwatch.ledger.judgement.observations import Mask

ENTRIES = """
SELECT node_id, gpu_id, '', start, 'no_telemetry', sum(gpu_ms), 0, 0
FROM spent
JOIN (
    -- at least half an hour is there, and less than 60 percent of it was observed
    SELECT node_id, hour
    FROM spent
    GROUP BY node_id, hour
    HAVING sum(gpu_ms) >= 1800000 * count(DISTINCT gpu_id)
       AND sum(gpu_ms) FILTER (WHERE state = 'unobserved') > 0.4 * sum(gpu_ms)
) AS unseen USING (node_id, hour)
WHERE state = 'unobserved'
GROUP BY node_id, gpu_id, start
"""


def unseen(now: Features, is_wasteful: Mask) -> Iterator[Overruled]:
    """Cells of which too little was observed; where the ledger saw waste enough, it was seen."""
    yield (now["coverage"] < COVERAGE) & ~is_wasteful, 0, 0.0


CAUSE = Cause(
    code="no_telemetry",
    title="No telemetry",
    sentence="Too little was read here to say anything.",
    looks="Less than 60 % of the held time was observed.",
    sensors="an agent on the node",
    fixes=(
        Step(
            "Look at what the agent can read there, why not, and what to do.",
            "fleetwatch-agent check",
        ),
        Step(
            "See whether it ran, and what it last said.",
            "systemctl status fleetwatch-agent; journalctl -u fleetwatch-agent -n 50",
        ),
        Step(
            "A scheduler that did not answer leaves time unseen too: who held a GPU is then not"
            " known."
        ),
    ),
    effort=MINUTES,
    range_words="nothing is promised: the time may have been useful",
    alike="Nobody knows whether the GPUs worked meanwhile: this is neither idle nor useful.",
    who=ADMIN,
    overrule=unseen,
    verdict=UNSEEN,
    is_alone=True,
    if_observed=TOO_SHORT,
    machine=Machine(
        curve="GPUs unseen", worth="GPU time that nobody saw", entries=ENTRIES, is_outbreak=True
    ),
)
