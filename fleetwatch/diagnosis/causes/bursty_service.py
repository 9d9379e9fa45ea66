"""A service that waits for requests most of the time, with its model in memory."""

from dataclasses import replace

import numpy as np

from fleetwatch.diagnosis.cause import DAYS, WITH_MEMORY, Cause, Step
from fleetwatch.diagnosis.judgement.array_tools import ratio
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import (
    LOW,
    MEDIUM,
    Detector,
    Judged,
    all_met,
    at_least,
    below,
    judged,
)
from fleetwatch.diagnosis.sizing import smaller_gpu
from fleetwatch.ledger.judgement.observations import Floats, Mask

PAUSES = 0.30
LONG_PAUSES = 0.15  # share of time in pauses of five seconds and more
# of what is known to be a service, pauses are waiting for requests: fewer of them say so
SERVICE_PAUSES = 0.15
SERVICE_LONG_PAUSES = 0.08
LONGEST_S = 10.0
FULL = 0.70  # utilisation at which one more replica is wanted
REPLICAS = 2  # GPUs of which one could be given back
HELD = 0.02  # of the GPU's memory: a model
USED = 0.02  # of the time: what never works serves nobody, unless it is known to be a service


def find(f: Features) -> Judged:
    """Irregular pauses; without the driver's samples only for what is known to be a service."""
    is_service = f.lanes.serves
    sampled = at_least(f, "lo", PAUSES)
    by_window = at_least(f, "window_lo", PAUSES)
    long_pauses = at_least(f, "long_frac", LONG_PAUSES)
    of_service = (
        at_least(f, "lo", SERVICE_PAUSES),
        at_least(f, "long_frac", SERVICE_LONG_PAUSES),
    )
    has_room = (below(f, "util", FULL), at_least(f, "longest_low_s", LONGEST_S))
    rests = sampled.met | (is_service & np.isnan(sampled.values) & by_window.met)
    waits = (rests & long_pauses.met) | (is_service & all_met(of_service))
    return judged(
        (*has_room, *of_service),
        confidence=np.where(is_service, MEDIUM, LOW),
        hits=all_met(has_room) & waits & _may_serve(f),
        recoverable=_spare(f),
        strengthens=(sampled, long_pauses, by_window, at_least(f, "mem", HELD)),
    )


def _may_serve(f: Features) -> Mask:
    """What may be a service: a person who thinks between cells is none. One rests at least as long
    as the GPU that it shares; why other work does, the GPU does not tell.
    """
    has_own = ~f.is_shared & at_least(f, "util", USED).met
    return ~f.lanes.of_kind("interactive") & (f.lanes.serves | has_own)


def _spare(f: Features) -> tuple[Floats, Floats]:
    """The share of the job's GPUs (its replicas) that the window's largest need leaves over, at
    FULL utilisation each, from low to high.

    At most by five-minute means; at least by each replica's busiest minutes, as if they all fell
    together: of half an hour that is no less than the need that the 99th percentile of single
    minutes shows. One GPU alone can be shared, but not given back: at least nothing.
    """
    gpus = f["job_gpus"]
    has_several = gpus >= REPLICAS
    needed = f["job_util_peak"] / FULL
    low = np.where(has_several, 1.0 - ratio(np.ceil(f["job_minute_peak"] / FULL), gpus), 0.0)
    return low, np.where(has_several, 1.0 - ratio(np.ceil(needed), gpus), 1.0 - needed)


OF_SERVICES = Cause(
    code="bursty_service",
    title="Mostly waits, like a service",
    sentence="What works like a service waits most of the time while its model holds a whole GPU.",
    looks="Long, irregular pauses between bursts of work, with a model in memory.",
    sensors="utilisation samples; a server's name makes it surer",
    fixes=(
        Step("Put several models or replicas on one GPU: MPS, time-slicing or MIG."),
        Step("Scale with the requests, to none at night (KEDA, Knative)."),
        Step(
            "Gather requests into batches.",
            "dynamic_batching { max_queue_delay_microseconds: 5000 }",
        ),
    ),
    effort=DAYS,
    range_words="only when replicas or GPUs are really given back",
    bounds_words=(
        f"Of a known service time below 10 % of {SERVICE_PAUSES * 100:.0f} % is enough: it waits"
        f" for requests; of another job it takes {PAUSES * 100:.0f} %."
    ),
    alike=(
        "An interactive session or a pipeline with an irregular source pauses like this too. The"
        " pauses of a known service are potential, and no waste; those of other jobs are wasted."
    ),
    tell=(Step("Compare with the service's own request rate."),),
    detectors=(Detector(find, holds_of_shared=True),),
    steps=smaller_gpu,
    needs_numbers=True,
    curves=WITH_MEMORY,
    rests_long=True,
    shows_demand=True,
)
OF_BATCH = replace(
    OF_SERVICES,
    tell=(
        Step(
            "Does it answer requests, as a server that was started by a batch job? Training does"
            " not: then it is not this."
        ),
    ),
)
CAUSE = replace(OF_SERVICES, by_kind={"batch": OF_BATCH})
