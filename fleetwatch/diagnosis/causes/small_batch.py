"""Too little work in each step: the GPU is busy launching kernels that fill a part of it."""

import numpy as np

from fleetwatch.diagnosis.cause import FASTER, HOURS, NSYS, WITH_MEMORY, Cause, Facts, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import (
    LOW,
    MEDIUM,
    Detector,
    Judged,
    Sign,
    all_met,
    any_contradicts,
    at_least,
    below,
    contradicts,
    judged,
)
from fleetwatch.diagnosis.sizing import FULL, batch_factor, smaller_gpu
from fleetwatch.ledger.judgement.observations import Mask

UTIL = 0.30
USED = 0.02  # below it is idle
SM = 0.30
TENSOR = 0.06
POWER = 0.38  # power ratio, where SM activity is not read
LONG_PAUSES = 0.10
ONE_THREAD = 0.90
MEMORY = 0.50
LOW_FACTOR = 1.2
HIGH_FACTOR = 2.5


def find(f: Features) -> Judged:
    """By SM and tensor activity; where either is not read by power, with little confidence, and not
    against the other.
    """
    common = (at_least(f, "util", UTIL), below(f, "long_frac", LONG_PAUSES))
    counters = (below(f, "sm", SM), below(f, "ten", TENSOR))
    power = below(f, "pr", POWER)
    is_blind = ~f.has("sm", "ten")
    is_working = any_contradicts(counters)
    # work that fills the memory and draws little may as well be bound by memory
    has_room = below(f, "mem", MEMORY)
    hits = all_met(common) & ~is_working & (~is_blind | (power.met & ~contradicts(has_room)))
    return judged(
        (*common, *counters),
        confidence=np.where(is_blind, LOW, MEDIUM),
        hits=hits,
        recoverable=(1 - 1 / LOW_FACTOR, 1 - 1 / HIGH_FACTOR),
        strengthens=(power, at_least(f, "main1", ONE_THREAD), has_room),
        possible=_may_be_small(f, has_room) & ~is_working,
    )


def _may_be_small(f: Features, has_room: Sign) -> Mask:
    """Of a GPU that rests most of the time in between, each step may still be too small."""
    return at_least(f, "util", USED).met & has_room.met


def larger_batch(facts: Facts) -> tuple[Step, ...]:
    """How much larger the batch may be; if the work can't grow, on what it fits."""
    factor = batch_factor(facts.memory_peak_ratio)
    if factor is None:
        return smaller_gpu(facts)
    text = (
        f"Memory peaks at {(facts.memory_peak_ratio or 0) * 100:.0f} %: a batch {factor:.0f}"
        " times as large still fits. Double it step by step, and scale the learning rate with it."
    )
    code = f"batch_size = {factor:.0f} * batch_size"
    return Step(text, code, topics=("batch",)), *smaller_gpu(facts)


def _into_free_memory(facts: Facts) -> Step | None:
    """None where memory is full already."""
    if facts.memory_peak_ratio is not None and facts.memory_peak_ratio >= FULL:
        return None
    return CAUSE.fixes[0]


CAUSE = Cause(
    code="small_batch",
    title="Too little work per step",
    sentence="The GPU is busy launching kernels that fill only a part of it.",
    looks="A kernel is always there, but few SMs work and memory is far from full.",
    sensors="SM and tensor activity; by power alone with little confidence",
    fixes=(
        Step(
            "Raise the batch until memory is about 85 % full; tune the learning rate again.",
            topics=("batch",),
            fitted=_into_free_memory,
        ),
        Step(
            "Launch less: torch.compile with CUDA graphs; a fused optimizer (fused=True) and fused"
            " attention (scaled_dot_product_attention) in place of many small kernels.",
            "model = torch.compile(model, mode='reduce-overhead')",
        ),
        Step(
            "If the work can't grow, a smaller GPU or a MIG slice does it for less.",
            topics=("smaller",),
        ),
        Step(
            "Or share it: several such jobs on one GPU, by CUDA MPS or with a MIG slice each;"
            " whoever runs the machines sets that up."
        ),
    ),
    effort=HOURS,
    range_words=FASTER,
    alike=(
        "A small model, work bound by launches and work that is sequential by nature"
        " (environments, beam search) look the same."
    ),
    tell=(
        Step("Double the batch once: if a step takes as long as before, it was too small."),
        Step("How long between kernels?", NSYS),
    ),
    detectors=(Detector(find),),
    steps=larger_batch,
    needs_numbers=True,
    curves=WITH_MEMORY,
)
