"""Ranks exchange data while their compute units wait."""

from fleetwatch.diagnosis.cause import FASTER, HOURS, NSYS, Cause, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import (
    MEDIUM,
    Detector,
    Judged,
    all_met,
    any_met,
    at_least,
    below,
    judged,
)

GPUS = 2
UTIL = 0.85
SM = 0.70
TENSOR = 0.28
NETWORK = 2e9  # bytes/s, network or PCIe
# NVLink alone is busy in healthy tensor-parallel work too: there the units must wait more
NVLINK = 20e9
NVLINK_SM = 0.50
NVLINK_TENSOR = 0.20
FULL_SM = 0.85


def find(f: Features) -> Judged:
    """Known only where the profiling counters are read: low power alone has other reasons."""
    signs = (
        at_least(f, "job_gpus", GPUS),
        at_least(f, "util_lowest", UTIL),
        below(f, "sm", SM),
        below(f, "ten", TENSOR),
    )
    network = (at_least(f, "nic_rx", NETWORK), at_least(f, "rx", NETWORK))
    nvlink = (at_least(f, "nvl", NVLINK), below(f, "sm", NVLINK_SM), below(f, "ten", NVLINK_TENSOR))
    hits = all_met(signs) & (any_met(network) | all_met(nvlink))
    waits = 1.0 - f["sm"] / FULL_SM
    return judged(
        signs,
        confidence=MEDIUM,
        hits=hits,
        recoverable=(0.3 * waits, 0.7 * waits),
        strengthens=(*network, nvlink[0]),
    )


CAUSE = Cause(
    code="communication_bound",
    title="Waits for communication",
    sentence="Ranks exchange data while their compute units wait.",
    looks="Busy ranks, much traffic on NVLink or the network, low SM activity.",
    sensors="profiling counters and NVLink, PCIe or network traffic",
    fixes=(
        Step(
            "Overlap: larger buckets, prefetch.",
            "DDP(model, bucket_cap_mb=100)\nFSDP(model,"
            " backward_prefetch=BackwardPrefetch.BACKWARD_PRE)",
        ),
        Step(
            "Exchange less often: accumulate gradients.",
            "with model.no_sync():\n    loss.backward()",
        ),
        Step(
            "Keep tensor parallelism within a node; see that NCCL uses InfiniBand and not sockets.",
            "export NCCL_DEBUG=INFO  # NET/IB, not NET/Socket",
        ),
    ),
    effort=HOURS,
    range_words=FASTER,
    alike="A slow rank and pipeline bubbles make the same wait.",
    tell=(Step("How much of a step is communication that nothing overlaps?", NSYS),),
    detectors=(Detector(find),),
)
