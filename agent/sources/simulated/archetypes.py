"""The archetypes of GPU use as data: what a job of each sort looks like on its GPUs.

Every archetype is at each instant at one of three levels: `high` and `low` alternate
with a short period (a training step), `pause` interrupts them (a checkpoint, think
time, a hang). Numbers are ranges; each job draws its own from them.
Source of the numbers: AcmeTrace, published measurements of GPU waste.
The name of an archetype is ground truth: it never leaves the simulator.
"""

from dataclasses import dataclass
from typing import Optional, Tuple

from agent.sources.simulated.hardware import Range

NOTHING: Range = (0.0, 0.0)


@dataclass(frozen=True)
class Level:
    """What one level shows: ratios 0 to 1; `power` is the part of (limit - idle) above idle.

    `power` (0, 0) with a process means: just the context.
    """

    util: Range
    power: Range = NOTHING
    sm: Range = NOTHING
    tensor: Range = NOTHING
    dram: Range = NOTHING


@dataclass(frozen=True)
class Archetype:
    """One sort of job. Times in seconds; durations of jobs are log-normal (median in hours, sigma)."""

    name: str
    kind: str
    hours: Range
    names: Tuple[str, ...]
    process: str
    memory: Range  # part of the GPU's memory
    high: Level
    low: Level
    pause: Level = Level(util=NOTHING)
    period_s: Range = (1.0, 1.0)
    duty: Range = (1.0, 1.0)  # part of the period at `high`
    warmup_s: Range = NOTHING
    pause_every_s: Optional[Range] = None  # regular pauses ...
    pause_share: Range = NOTHING  # ... and which part of that period they take
    burst_s: Optional[Range] = None  # irregular: bursts of work ...
    gap_s: Range = NOTHING  # ... after a pause with a mean drawn from here
    is_diurnal: bool = False  # bursts thin out at night
    hangs_after_s: Optional[Range] = None  # from then on `pause`, for ever
    busy_ranks: Range = (1.0, 1.0)  # part of its GPUs that it really uses
    has_process: bool = True
    is_allocated: bool = True
    sizes: Tuple[int, int] = (1, 8)
    in_office_hours: bool = False


TRAINING = Level(util=(1.0, 1.0), power=(0.80, 0.95), sm=(0.75, 0.92), tensor=(0.35, 0.48), dram=(0.36, 0.42))
EXCHANGE = Level(util=(0.96, 1.0), power=(0.42, 0.50), sm=(0.28, 0.34), tensor=(0.01, 0.03), dram=(0.10, 0.14))
WAITING = Level(util=(0.0, 0.0), power=(0.10, 0.15))
SPINNING = Level(util=(1.0, 1.0), power=(0.10, 0.17), sm=(0.06, 0.20), tensor=NOTHING, dram=(0.001, 0.003))

ARCHETYPES = (
    Archetype(
        name="free", kind="batch", hours=(5.0, 0.7), names=("",), process="", memory=NOTHING,
        high=Level(util=NOTHING), low=Level(util=NOTHING), has_process=False, is_allocated=False,
    ),
    Archetype(
        name="leftover", kind="batch", hours=(0.7, 0.5), names=("",), process="python", memory=(0.10, 0.60),
        high=Level(util=NOTHING), low=Level(util=NOTHING), is_allocated=False, sizes=(1, 2),
    ),
    Archetype(
        name="healthy_llm", kind="batch", hours=(11.0, 0.7), process="python3.11", memory=(0.80, 0.97),
        names=("llama-sft", "pretrain-7b", "moe-pretrain", "dpo-8b", "longctx-finetune"),
        high=TRAINING, low=EXCHANGE, period_s=(0.8, 4.0), duty=(0.92, 0.94), warmup_s=(60.0, 240.0), sizes=(2, 8),
    ),
    Archetype(
        name="healthy_vision", kind="batch", hours=(7.0, 0.8), process="python3.11", memory=(0.60, 0.95),
        names=("vit-l-imagenet", "segformer-city", "diffusion-train"),
        high=Level(util=(1.0, 1.0), power=(0.68, 0.78), sm=(0.74, 0.82), tensor=(0.23, 0.29), dram=(0.50, 0.60)),
        low=Level(util=NOTHING, power=(0.30, 0.40)), period_s=(0.15, 0.5), duty=(0.94, 0.97), warmup_s=(60.0, 180.0),
    ),
    Archetype(
        name="healthy_eval", kind="batch", hours=(9.0, 0.6), process="python3.11", memory=(0.70, 0.95),
        names=("asr-conformer", "retriever-train"),
        high=TRAINING, low=EXCHANGE, period_s=(0.8, 3.0), duty=(0.92, 0.94), warmup_s=(60.0, 240.0),
        pause_every_s=(540.0, 700.0), pause_share=(0.03, 0.04),
    ),
    Archetype(
        name="data_starved", kind="batch", hours=(6.0, 0.8), process="python3.10", memory=(0.40, 0.90),
        names=("resnet-aug", "video-cls", "unet-3d", "spectro-train"),
        high=Level(util=(1.0, 1.0), power=(0.62, 0.74), sm=(0.65, 0.75), tensor=(0.17, 0.23), dram=(0.40, 0.50)),
        low=WAITING, period_s=(1.5, 7.0), duty=(0.20, 0.55), warmup_s=(60.0, 180.0),
    ),
    Archetype(
        name="data_starved_fast", kind="batch", hours=(5.0, 0.7), process="python3.10", memory=(0.40, 0.90),
        names=("ocr-train", "detector-v2"),
        high=Level(util=(1.0, 1.0), power=(0.58, 0.66), sm=(0.60, 0.70), tensor=(0.16, 0.20), dram=(0.36, 0.44)),
        low=Level(util=NOTHING, power=(0.16, 0.20)), period_s=(0.06, 0.25), duty=(0.25, 0.60), warmup_s=(30.0, 90.0),
    ),
    Archetype(
        name="checkpoint_stall", kind="batch", hours=(10.0, 0.6), process="python3.11", memory=(0.80, 0.97),
        names=("pretrain-13b", "rlhf-ppo"),
        high=TRAINING, low=EXCHANGE, pause=Level(util=NOTHING, power=(0.17, 0.20)), period_s=(0.8, 4.0), duty=(0.92, 0.94),
        warmup_s=(60.0, 240.0), pause_every_s=(120.0, 420.0), pause_share=(0.12, 0.35), sizes=(2, 8),
    ),
    Archetype(
        name="small_batch", kind="batch", hours=(5.0, 0.9), process="python", memory=(0.05, 0.30),
        names=("gnn-molecules", "rl-env", "tabular-nn", "hyperparam-sweep"),
        high=Level(util=(0.55, 0.97), power=(0.20, 0.32), sm=(0.08, 0.22), tensor=(0.005, 0.04), dram=(0.05, 0.15)),
        low=Level(util=NOTHING), warmup_s=(20.0, 60.0), sizes=(1, 2),
    ),
    Archetype(
        name="bursty_service", kind="service", hours=(30.0, 0.4), process="vllm", memory=(0.85, 0.92),
        names=("chat-api", "embed-api", "rerank-api", "summarise-api"),
        high=Level(util=(0.55, 0.95), power=(0.32, 0.55), sm=(0.20, 0.50), tensor=(0.05, 0.10), dram=(0.30, 0.40)),
        low=Level(util=NOTHING), burst_s=(2.0, 40.0), gap_s=(4.0, 10.0), is_diurnal=True, warmup_s=(60.0, 120.0), sizes=(1, 2),
    ),
    Archetype(
        name="memory_bound", kind="service", hours=(30.0, 0.4), process="vllm", memory=(0.70, 0.95),
        names=("batch-inference", "llm-decode"),
        high=Level(util=(0.98, 1.0), power=(0.45, 0.65), sm=(0.40, 0.65), tensor=(0.04, 0.11), dram=(0.62, 0.85)),
        low=Level(util=NOTHING), warmup_s=(60.0, 120.0), sizes=(1, 4),
    ),
    Archetype(
        name="no_tensor_cores", kind="batch", hours=(8.0, 0.7), process="python3.9", memory=(0.30, 0.90),
        names=("climate-emulator", "physics-nn"),
        high=Level(util=(0.97, 1.0), power=(0.50, 0.75), sm=(0.75, 0.93), tensor=(0.0, 0.012), dram=(0.18, 0.40)),
        low=Level(util=NOTHING), warmup_s=(30.0, 60.0),
    ),
    Archetype(
        name="communication_bound", kind="batch", hours=(8.0, 0.7), process="python3.11", memory=(0.50, 0.95),
        names=("fsdp-70b", "tp-ablation"),
        high=Level(util=(1.0, 1.0), power=(0.86, 0.92), sm=(0.78, 0.86), tensor=(0.38, 0.42), dram=(0.38, 0.42)),
        low=Level(util=(1.0, 1.0), power=(0.25, 0.31), sm=(0.14, 0.18), dram=(0.07, 0.09)),
        period_s=(0.6, 3.0), duty=(0.35, 0.60), warmup_s=(60.0, 240.0), sizes=(4, 8),
    ),
    Archetype(
        name="idle_notebook", kind="interactive", hours=(12.0, 0.6), process="jupyter-lab", memory=(0.05, 0.60),
        names=("jupyter", "vscode", "notebook-gpu"),
        high=Level(util=(0.40, 0.80), power=(0.20, 0.35), sm=(0.15, 0.30), tensor=(0.0, 0.04), dram=(0.10, 0.20)),
        low=Level(util=NOTHING), burst_s=(2.0, 20.0), gap_s=(900.0, 4000.0), warmup_s=(60.0, 600.0), sizes=(1, 2), in_office_hours=True,
    ),
    Archetype(
        name="allocated_no_process", kind="batch", hours=(3.5, 0.6), names=("interactive-hold", "debug-alloc", "ddp-launch"),
        process="", memory=NOTHING, high=Level(util=NOTHING), low=Level(util=NOTHING), has_process=False,
    ),
    Archetype(
        name="partial_idle", kind="batch", hours=(6.0, 0.7), process="python", memory=(0.30, 0.80),
        names=("dataparallel-train", "single-gpu-script"),
        high=Level(util=(0.90, 1.0), power=(0.45, 0.65), sm=(0.50, 0.70), tensor=(0.12, 0.22), dram=(0.25, 0.40)),
        low=Level(util=NOTHING), warmup_s=(30.0, 90.0), busy_ranks=(0.12, 0.5), sizes=(2, 8),
    ),
    Archetype(
        name="hung", kind="batch", hours=(7.0, 0.4), process="python3.11", memory=(0.50, 0.95), names=("pretrain-7b", "nccl-bench"),
        high=TRAINING, low=EXCHANGE, pause=SPINNING, period_s=(0.8, 4.0), duty=(0.92, 0.94),
        warmup_s=(60.0, 240.0), hangs_after_s=(3600.0, 14_400.0), sizes=(2, 8),
    ),
)  # fmt: skip

BY_NAME = {archetype.name: archetype for archetype in ARCHETYPES}
