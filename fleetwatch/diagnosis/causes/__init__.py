"""Every cause, one file each: in the order in which the first whose rule holds is the primary one.

Whoever wants to know which cause it is asks its record (cause.py), by code: nothing else names one.
"""

from collections.abc import Callable

from fleetwatch.diagnosis.cause import UNKNOWN, UNSEEN, WASTED, WELL, Cause
from fleetwatch.diagnosis.causes import (
    allocated_no_process,
    bursty_service,
    busy,
    checkpoint_stall,
    communication_bound,
    data_starved,
    gpu_fault,
    h2d_transfer,
    healthy,
    hung,
    idle_held,
    memory_bound,
    no_telemetry,
    no_tensor_cores,
    oom_thrash,
    orphaned,
    oversized_gpu,
    partial_idle,
    persistence_off,
    queue_or_scheduler,
    rank_wait,
    small_batch,
    straggler,
    throttled,
    undetermined,
    video_engines,
)
from fleetwatch.diagnosis.judgement.rules import COVERAGE

CATALOGUE: tuple[Cause, ...] = tuple(
    module.CAUSE
    for module in (
        no_telemetry,
        gpu_fault,
        allocated_no_process,
        idle_held,
        partial_idle,
        throttled,
        video_engines,
        hung,
        straggler,
        checkpoint_stall,
        h2d_transfer,
        data_starved,
        bursty_service,
        rank_wait,
        no_tensor_cores,
        memory_bound,
        communication_bound,
        small_batch,
        oversized_gpu,
        oom_thrash,
        queue_or_scheduler,
        persistence_off,
        orphaned,
        healthy,
        busy,
        undetermined,
    )
)
BY_CODE = {cause.code: cause for cause in CATALOGUE}
OF_DETECTORS = {detector: cause for cause in CATALOGUE for detector in cause.detectors}
DETECTORS = tuple(sorted(OF_DETECTORS, key=lambda detector: detector.turn))


def _codes(holds: Callable[[Cause], object]) -> tuple[str, ...]:
    return tuple(cause.code for cause in CATALOGUE if holds(cause))


# What nobody is asked to act on, of a job.
UNFIT = _codes(lambda cause: cause.verdict != WASTED)
BLIND = _codes(lambda cause: cause.verdict == UNSEEN)
WELL_CODES = _codes(lambda cause: cause.verdict == WELL)
# That video engines work says nothing of how busy compute units could be.
COMPUTES_WELL = (healthy.CAUSE.code, busy.CAUSE.code)
UNMEASURED = _codes(lambda cause: cause.is_unmeasured)
SAYS_NO_WASTE = _codes(lambda cause: cause.verdict in (WELL, UNSEEN))
(UNDETERMINED,) = _codes(lambda cause: cause.verdict == UNKNOWN)
OF_IDLE_JOBS = {cause.idle: cause.code for cause in CATALOGUE if cause.idle}
# Of jobs that run and get nowhere: what helps is to end them.
STUCK = _codes(lambda cause: cause.is_ended and not cause.idle)
# Of jobs that work, and not well.
OF_WORK = _codes(
    lambda cause: (
        cause.verdict == WASTED
        and cause.is_of_cells
        and not (cause.idle or cause.is_ended or cause.machine.curve)
    )
)
# Whose a finding is: a node's, a cluster's, else a job's. What is broken, hot or silent is one
# thing to mend, however many jobs it hurt: one finding for its node, which names them.
OF_NODES = _codes(lambda cause: cause.machine.curve and not cause.machine.of_cluster)
OF_CLUSTERS = _codes(lambda cause: cause.machine.of_cluster)
# Of those of nodes what ends its holder's job, and what a detector tells of jobs.
FAILURES = _codes(lambda cause: cause.machine.is_failure)
(SLOWED,) = _codes(lambda cause: cause.machine.curve and cause.detectors)
# Those that explain all the time of a state of the ledger.
OF_STATES = {cause.code: cause.machine.state for cause in CATALOGUE if cause.machine.state}
# What the ledger calls a GPU's time in those of nodes, whose runs tell the minute.
CONDITIONS = OF_STATES | dict.fromkeys(FAILURES, "unavailable") | dict.fromkeys(BLIND, "unobserved")
# Own lines of the ledger: what could be won there is capacity, never a part of what was wasted.
OF_CAPACITY = _codes(lambda cause: cause.machine.worth)


def of_job(code: str, kind: str, coverage: float | None) -> Cause:
    """As of_kind; of a job that was observed (`coverage`, 0 to 1), parts of five minutes are no
    missing telemetry. Raises KeyError.
    """
    cause = of_kind(code, kind)
    is_observed = coverage is not None and coverage >= COVERAGE
    return cause.if_observed if cause.if_observed and is_observed else cause


def of_kind(code: str, kind: str) -> Cause:
    """The cause as it is told of a job of that kind.

    Raises KeyError for a code that no cause has.
    """
    cause = BY_CODE[code]
    return cause.by_kind.get(kind, cause)


def title(code: str) -> str:
    """The cause's name for people; a code that is not known as it is."""
    return BY_CODE[code].title if code in BY_CODE else code
