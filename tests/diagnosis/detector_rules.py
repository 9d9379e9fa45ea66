"""What each detector needs, as a table: bounds, and values that meet them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fleetwatch.diagnosis.causes import (
    allocated_no_process,
    bursty_service,
    busy,
    checkpoint_stall,
    communication_bound,
    data_starved,
    h2d_transfer,
    healthy,
    hung,
    idle_held,
    memory_bound,
    no_tensor_cores,
    oom_thrash,
    oversized_gpu,
    partial_idle,
    rank_wait,
    small_batch,
    straggler,
    throttled,
    video_engines,
)
from fleetwatch.diagnosis.judgement.rules import Detector
from tests.diagnosis.factories import evidence

MIB = 2**20
LEAST, BELOW = "at least", "below"


@dataclass(frozen=True)
class Rule:
    """What a detector needs: feature -> (LEAST or BELOW, bound, a value that meets it).

    `given` is read beside that.
    """

    detector: Detector
    needs: Mapping[str, tuple[str, float, float]]
    given: Mapping[str, float] = field(default_factory=dict)
    kind: str = "batch"
    failures: int = 0

    def finds(self, **instead: float | None) -> bool:
        known = (
            {name: good for name, (_, _, good) in self.needs.items()} | dict(self.given) | instead
        )
        read = {name: np.nan if value is None else value for name, value in known.items()}
        return bool(
            self.detector.find(evidence(kind=self.kind, failures=self.failures, **read)).hits[0, 0]
        )


RULES = {
    "allocated_no_process": Rule(
        allocated_no_process.CAUSE.detectors[0],
        {"ledger_idle": (LEAST, 0.5, 1), "job_ledger_idle_min": (LEAST, 0.5, 1),
        "processes": (BELOW, 0.5, 0)},
    ),
    "idle_held": Rule(idle_held.CAUSE.detectors[0],
    {"ledger_idle": (LEAST, 0.5, 1), "job_ledger_idle_min": (LEAST, 0.5, 1)}),
    "thinking": Rule(idle_held.CAUSE.detectors[1],
    {"util": (BELOW, 0.05, 0.01), "quiet_s": (LEAST, 600, 900)}, kind="interactive"),
    "partial_idle": Rule(
        partial_idle.CAUSE.detectors[1],
        {"job_gpus": (LEAST, 2, 8), "util_max": (BELOW, 0.02, 0),
        "job_util_max": (LEAST, 0.20, 0.9)}
    ),
    "partial_idle by the ledger": Rule(
        partial_idle.CAUSE.detectors[0],
        {"job_gpus": (LEAST, 2, 8), "ledger_idle": (LEAST, 0.5, 1),
        "job_ledger_idle_min": (BELOW, 0.5, 0)},
    ),
    "throttled": Rule(throttled.CAUSE.detectors[0],
    {"thr": (LEAST, 0.10, 0.5), "clk": (BELOW, 0.85, 0.6), "util": (LEAST, 0.50, 0.9)}),
    "video_engines": Rule(video_engines.CAUSE.detectors[0], {"eng": (LEAST, 0.85, 1.0)}),
    "hung": Rule(
        hung.CAUSE.detectors[0],
        {"p5": (LEAST, 0.95, 1), "pr_max": (BELOW, 0.25, 0.1)},
        {"job_gpus": 8},
    ),
    "hung in silence": Rule(
        hung.CAUSE.detectors[0],
        {
            "p5": (LEAST, 0.95, 1), "pr_max": (BELOW, 0.30, 0.27), "ten": (BELOW, 0.005, 0),
            "dram": (BELOW, 0.02, 0),
            "sm": (BELOW, 0.30, 0.1),
        },
        {"job_gpus": 8},
    ),
    "straggler": Rule(
        straggler.CAUSE.detectors[0],
        {"job_gpus": (LEAST, 2, 8), "job_util_min": (LEAST, 0.60, 0.9),
        "job_clk_min": (BELOW, 0.90, 0.7)},
        {"job_clk_median": 1.0},
    ),
    "checkpoint_stall": Rule(
        checkpoint_stall.CAUSE.detectors[0],
        {
            "long_n": (LEAST, 3, 6), "long_frac": (LEAST, 0.08, 0.2), "long_cv": (BELOW, 0.5, 0.1),
            "long_per_s": (LEAST, 60, 300),
            "hi": (LEAST, 0.4, 0.8),
        },
        {"job_spin_max": 0},
    ),
    "h2d_transfer": Rule(
        h2d_transfer.CAUSE.detectors[0], {"util": (BELOW, 0.85, 0.5), "rx": (LEAST, 4000 * MIB, 9000 * MIB)}
    ),
    "data_starved": Rule(
        data_starved.CAUSE.detectors[0],
        {
            "util": (BELOW, 0.85, 0.5), "lo": (LEAST, 0.10, 0.4), "cyc_s": (BELOW, 60, 3),
            "dips_per_min": (LEAST, 2, 20),
            "cyc_cv": (BELOW, 0.6, 0.1),
        },
    ),
    "data_starved by its cores": Rule(
        data_starved.CAUSE.detectors[0],
        {"util": (BELOW, 0.85, 0.5), "cpu": (LEAST, 0.85, 0.95), "long_frac": (BELOW, 0.25, 0)}
    ),
    "bursty_service": Rule(
        bursty_service.CAUSE.detectors[0],
        {"util": (BELOW, 0.70, 0.3), "longest_low_s": (LEAST, 10, 60), "lo": (LEAST, 0.15, 0.6),
        "long_frac": (LEAST, 0.08, 0.5)},
        kind="service",
    ),
    "bursty_service of a batch job": Rule(
        bursty_service.CAUSE.detectors[0],
        {"util": (BELOW, 0.70, 0.3), "longest_low_s": (LEAST, 10, 60), "lo": (LEAST, 0.30, 0.6),
        "long_frac": (LEAST, 0.15, 0.5)},
    ),
    "rank_wait": Rule(
        rank_wait.CAUSE.detectors[0],
        {"job_gpus": (LEAST, 2, 8), "util": (LEAST, 0.85, 1), "spin": (LEAST, 0.30, 0.5)},
    ),
    "rank_wait near idle": Rule(rank_wait.CAUSE.detectors[0],
    {"job_gpus": (LEAST, 2, 8), "util": (LEAST, 0.85, 1), "pr": (BELOW, 0.12, 0.05)}),
    "rank_wait of units that stand still": Rule(
        rank_wait.CAUSE.detectors[0],
        {
            "job_gpus": (LEAST, 2, 8), "util": (LEAST, 0.85, 1), "pr": (BELOW, 0.35, 0.2),
            "ten": (BELOW, 0.005, 0),
            "dram": (BELOW, 0.02, 0),
        },
    ),
    "no_tensor_cores": Rule(
        no_tensor_cores.CAUSE.detectors[0],
        {"util_lowest": (LEAST, 0.85, 0.98), "sm": (LEAST, 0.50, 0.8), "ten": (BELOW, 0.03, 0),
        "fp32": (LEAST, 0.20, 0.5)},
    ),
    "memory_bound": Rule(
        memory_bound.CAUSE.detectors[0],
        {"util_lowest": (LEAST, 0.85, 0.98), "dram": (LEAST, 0.55, 0.7), "ten": (BELOW, 0.15, 0.05)}
    ),
    "memory_bound where it leads": Rule(
        memory_bound.CAUSE.detectors[0],
        {"util_lowest": (LEAST, 0.85, 0.98), "dram": (LEAST, 0.40, 0.5),
        "ten": (BELOW, 0.15, 0.05)}, {"sm": 0.3}
    ),
    "communication_bound": Rule(
        communication_bound.CAUSE.detectors[0],
        {
            "job_gpus": (LEAST, 2, 8), "util_lowest": (LEAST, 0.85, 1), "sm": (BELOW, 0.70, 0.5),
            "ten": (BELOW, 0.28, 0.2),
            "nic_rx": (LEAST, 2e9, 9e9),
        },
    ),
    "small_batch": Rule(
        small_batch.CAUSE.detectors[0],
        {
            "util": (LEAST, 0.30, 0.8), "long_frac": (BELOW, 0.10, 0), "sm": (BELOW, 0.30, 0.1),
            "ten": (BELOW, 0.06, 0.01),
        },
    ),
    "small_batch without the counters": Rule(
        small_batch.CAUSE.detectors[0],
        {
            "util": (LEAST, 0.30, 0.8), "long_frac": (BELOW, 0.10, 0), "pr": (BELOW, 0.38, 0.2),
        },
    ),
    "oversized_gpu": Rule(oversized_gpu.CAUSE.detectors[0],
    {"util": (BELOW, 0.30, 0.1), "mem_max": (BELOW, 0.25, 0.1)}),
    "oom_thrash": Rule(oom_thrash.CAUSE.detectors[0],
    {"memory_drops_per_min": (LEAST, 1, 3), "dips_per_min": (LEAST, 1, 3)}),
    "oom_thrash by its restarts": Rule(oom_thrash.CAUSE.detectors[1], {"memory_at_end": (LEAST, 0.95, 0.99)},
    failures=3),
    "healthy": Rule(healthy.CAUSE.detectors[0], {"util": (LEAST, 0.85, 0.95), "ten": (LEAST, 0.15, 0.4)}),
    "busy": Rule(busy.CAUSE.detectors[0], {"util": (LEAST, 0.85, 0.95)}),
}  # fmt: skip
NEEDS = [(name, feature) for name, rule in RULES.items() for feature in rule.needs]


def found(cause: str, **known: float):
    rule = RULES[cause]
    good = {name: value for name, (_, _, value) in rule.needs.items()} | dict(rule.given)
    return rule.detector.find(evidence(kind=rule.kind, failures=rule.failures, **(good | known)))


def sure(cause: str, **known: float) -> int:
    return int(found(cause, **known).confidence[0, 0])


def share(cause: str, **known: float) -> tuple[float, float]:
    told = found(cause, **known)
    return float(told.low[0, 0]), float(told.high[0, 0])
