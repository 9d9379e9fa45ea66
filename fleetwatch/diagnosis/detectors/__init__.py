"""Every cause that is judged from windows, in the order in which the first that holds is the
primary one.
"""

from fleetwatch.diagnosis.detectors import (
    allocated_no_process,
    bursty_service,
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
from fleetwatch.diagnosis.rules import Detector

DETECTORS: tuple[Detector, ...] = (
    allocated_no_process.DETECTOR,
    idle_held.DETECTOR,
    partial_idle.IDLE_BY_LEDGER,
    partial_idle.DETECTOR,
    idle_held.THINKING,
    throttled.DETECTOR,
    video_engines.DETECTOR,
    hung.DETECTOR,
    straggler.DETECTOR,
    checkpoint_stall.DETECTOR,
    h2d_transfer.DETECTOR,
    data_starved.DETECTOR,
    bursty_service.DETECTOR,
    rank_wait.DETECTOR,
    no_tensor_cores.DETECTOR,
    memory_bound.DETECTOR,
    communication_bound.DETECTOR,
    small_batch.DETECTOR,
    oversized_gpu.DETECTOR,
    oom_thrash.DETECTOR,
    oom_thrash.RESTARTS,
    healthy.DETECTOR,
    healthy.BUSY,
)
