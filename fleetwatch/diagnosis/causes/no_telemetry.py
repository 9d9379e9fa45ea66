"""Nobody saw what the GPU did: too little of the time was observed to say anything."""

from collections.abc import Iterator
from dataclasses import replace

from fleetwatch.diagnosis.cause import (
    ADMIN,
    MINUTES,
    UNSEEN,
    Cause,
    Facts,
    Machine,
    Overruled,
    Step,
)
from fleetwatch.diagnosis.causes.undetermined import TOO_SHORT
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import COVERAGE
from fleetwatch.ledger.judgement.observations import Mask
from fleetwatch.lib.intervals import from_ms

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


AROUND_MS = 10 * 60_000  # of the log before and after a gap


def log_of_gap(facts: Facts) -> Step:
    """What the agent said around the newest gap; of jobs what it said last."""
    if facts.gap is None:
        return LOG
    start_ms, end_ms = facts.gap
    until = f" --until {_moment(end_ms + AROUND_MS)}" if end_ms is not None else ""
    since = f" --since {_moment(start_ms - AROUND_MS)}"
    return Step(
        "See whether it ran, and what it said before and after the newest gap.",
        f"systemctl status fleetwatch-agent; journalctl -u fleetwatch-agent{since}{until}",
    )


def _moment(at_ms: int) -> str:
    """As journalctl takes it."""
    return f"'{from_ms(at_ms):%Y-%m-%d %H:%M:%S} UTC'"


SENTENCE = "Too little was read here to say anything."
READS = Step(
    "Look at what the agent can read there, why not, and what to do.", "fleetwatch-agent check"
)
LOG = Step(
    "See whether it ran, and what it last said.",
    "systemctl status fleetwatch-agent; journalctl -u fleetwatch-agent -n 50",
)
SCHEDULER = Step(
    "A scheduler that did not answer leaves time unseen too: who held a GPU is then not known."
)

CAUSE = Cause(
    code="no_telemetry",
    title="No telemetry",
    sentence=SENTENCE,
    looks="Less than 60 % of the held time was observed.",
    sensors="an agent on the node",
    fixes=(READS, replace(LOG, fitted=log_of_gap), SCHEDULER),
    when_over=(replace(LOG, fitted=log_of_gap), SCHEDULER),
    effort=MINUTES,
    range_words="nothing is promised: the time may have been useful",
    alike="Nobody knows whether the GPUs worked meanwhile: this is neither idle nor useful.",
    who=ADMIN,
    overrule=unseen,
    verdict=UNSEEN,
    is_alone=True,
    if_observed=TOO_SHORT,
    machine=Machine(
        curve="GPUs unseen",
        worth="GPU time that nobody saw",
        entries=ENTRIES,
        episode="gap",
        past="Was not seen",
        past_sentence=SENTENCE,
    ),
)
