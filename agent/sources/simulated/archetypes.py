"""The archetypes of GPU use as data: what a job of each sort looks like on its GPUs and its host.

Numbers are ranges; each job draws its own from them. The live source and the demo's history read
this one table. Source of the numbers: AcmeTrace, published measurements of GPU waste. Name and
truth of an archetype are ground truth: they never leave the simulator.
"""

from dataclasses import replace

from agent.sources.simulated.archetype import Archetype, Level, Load

TRAINING = Level(
    util=(1.0, 1.0),
    power=(0.86, 0.97),
    sm=(0.75, 0.92),
    tensor=(0.35, 0.48),
    dram=(0.36, 0.42),
    fp32=(0.02, 0.06),
    rx_mib_s=(250, 350),
    tx_mib_s=(150, 250),
    nvlink_mib_s=(50_000, 70_000),
)
EXCHANGE = Level(
    util=(0.97, 0.99),
    power=(0.42, 0.50),
    sm=(0.28, 0.34),
    tensor=(0.01, 0.03),
    dram=(0.10, 0.14),
    rx_mib_s=(250, 350),
    tx_mib_s=(150, 250),
    nvlink_mib_s=(160_000, 200_000),
)
VISION = Level(
    util=(1.0, 1.0),
    power=(0.69, 0.76),
    sm=(0.74, 0.82),
    tensor=(0.23, 0.29),
    dram=(0.50, 0.60),
    fp32=(0.06, 0.12),
    rx_mib_s=(800, 1000),
    tx_mib_s=(40, 80),
)
STARVED = Level(
    util=(1.0, 1.0),
    power=(0.64, 0.72),
    sm=(0.65, 0.75),
    tensor=(0.17, 0.23),
    dram=(0.40, 0.50),
    fp32=(0.06, 0.12),
    rx_mib_s=(400, 600),
    tx_mib_s=(20, 60),
)
WAITING = Level(power=(0.10, 0.14))
SPINNING = Level(
    util=(1.0, 1.0),
    power=(0.10, 0.17),
    sm=(0.06, 0.20),
    dram=(0.001, 0.003),
    rx_mib_s=(0.5, 1.5),
    tx_mib_s=(0.5, 1.5),
    nvlink_mib_s=(0.5, 1.5),
)
# a checkpoint leaves the GPU
STREAMING = Level(
    util=(0.02, 0.04), power=(0.23, 0.27), dram=(0.02, 0.04), tx_mib_s=(16_000, 19_000)
)

LLM_LOAD = Load(cpu=(0.10, 0.20), main_thread=(0.50, 0.80), read_mib_s=(5, 30), nic_mib_s=(10, 200))
SAVING_LOAD = Load(
    cpu=(0.04, 0.10), main_thread=(0.20, 0.60), write_mib_s=(400, 1500), io_stall=(0.35, 0.65)
)
SPIN_LOAD = Load(cpu=(0.08, 0.14), main_thread=(0.98, 1.0))
SERVICE_LOAD = Load(cpu=(0.03, 0.07), main_thread=(0.20, 0.50), nic_mib_s=(1, 10))

# Two that others are kin of: these name only what is different of them.
HEALTHY_LLM = Archetype(
    name="healthy_llm", truth="healthy", hours=(11.0, 0.7), process="python3.11",
    memory=(0.80, 0.97),
    names=("train-llm", "llama-sft", "pretrain-7b", "moe-pretrain", "dpo-8b",
    "longctx-finetune"),
    high=TRAINING, low=EXCHANGE, load=LLM_LOAD, period_s=(0.8, 4.0), duty=(0.92, 0.94),
    warmup_s=(60.0, 240.0), sizes=(2, 8),
)  # fmt: skip
STARVED_OF_CPU = Archetype(
    name="data_starved_cpu", truth="data_starved", hours=(6.0, 0.8), process="python3.10",
    memory=(0.40, 0.90),
    names=("resnet-aug", "video-cls", "unet-3d"), high=STARVED, low=WAITING,
    load=Load(cpu=(0.94, 0.99), main_thread=(0.60, 0.90), read_mib_s=(40, 150),
    io_stall=(0.0, 0.06)),
    period_s=(1.5, 7.0), duty=(0.20, 0.55), warmup_s=(60.0, 180.0),
)  # fmt: skip

HEALTHY = (
    HEALTHY_LLM,
    Archetype(
        name="healthy_vision", truth="healthy", hours=(7.0, 0.8), process="python3.11",
        memory=(0.60, 0.95),
        names=("vit-l-imagenet", "segformer-city", "diffusion-train"), high=VISION,
        low=Level(power=(0.30, 0.40)),
        load=Load(cpu=(0.45, 0.65), main_thread=(0.50, 0.80), read_mib_s=(80, 250),
        io_stall=(0.0, 0.05)),
        period_s=(0.15, 0.5), duty=(0.94, 0.97), warmup_s=(60.0, 180.0),
    ),
    replace(
        HEALTHY_LLM,
        name="healthy_eval", hours=(9.0, 0.6), memory=(0.70, 0.95),
        names=("asr-conformer", "retriever-train", "sft-with-eval"), pause=WAITING,
        period_s=(0.8, 3.0), pause_every_s=(540.0, 700.0), pause_share=(0.03, 0.04), sizes=(1, 8),
    ),
    Archetype(
        name="hpc_fp64", truth="healthy", hours=(8.0, 0.7), process="vasp_gpu", memory=(0.30, 0.70),
        names=("vasp-slab", "cp2k-water", "lattice-qcd"),
        high=Level(
            util=(0.97, 0.99), power=(0.74, 0.86), sm=(0.80, 0.90), tensor=(0.0, 0.004),
            dram=(0.35, 0.45), fp32=(0.02, 0.06),
            fp64=(0.40, 0.60), rx_mib_s=(60, 140), tx_mib_s=(40, 100), nvlink_mib_s=(500, 3000),
        ),
        load=Load(cpu=(0.20, 0.45), main_thread=(0.60, 0.95)), workers=(0.0, 0.0),
        warmup_s=(30.0, 60.0),
    ),
)  # fmt: skip

STALLED = (
    STARVED_OF_CPU,
    replace(
        STARVED_OF_CPU,
        name="data_starved_io",
        names=("spectro-train", "satellite-tiles", "video-pretrain"),
        load=Load(cpu=(0.10, 0.35), main_thread=(0.20, 0.60), read_mib_s=(150, 600),
        io_stall=(0.30, 0.70)),
    ),
    replace(
        STARVED_OF_CPU,
        name="data_starved_single_core", hours=(5.0, 0.8),
        names=("notebook-export", "baseline-cnn", "thesis-run"),
        load=Load(cpu=(0.08, 0.14), main_thread=(0.96, 1.0), read_mib_s=(10, 40)),
        workers=(0.0, 0.0), sizes=(1, 4),
    ),
    replace(
        STARVED_OF_CPU,
        name="data_starved_fast", hours=(5.0, 0.7), names=("ocr-train", "detector-v2"),
        high=STARVED._replace(
            power=(0.58, 0.66), sm=(0.60, 0.70), tensor=(0.16, 0.20), dram=(0.36, 0.44)
        ),
        low=Level(power=(0.16, 0.20)),
        load=Load(cpu=(0.93, 0.98), main_thread=(0.60, 0.90), read_mib_s=(40, 150)),
        period_s=(0.06, 0.25), duty=(0.25, 0.60), warmup_s=(30.0, 90.0),
    ),
    replace(
        HEALTHY_LLM,
        name="checkpoint_stall", truth="checkpoint_stall", hours=(10.0, 0.6),
        names=("pretrain-13b", "rlhf-ppo", "train-llm-ckpt"),
        pause=Level(power=(0.16, 0.19)), onset=STREAMING, pause_load=SAVING_LOAD,
        pause_every_s=(120.0, 420.0), pause_share=(0.12, 0.35), onset_s=4.0,
    ),
    Archetype(
        name="h2d_transfer", truth="h2d_transfer", hours=(5.0, 0.7), process="python3.10",
        memory=(0.20, 0.90),
        names=("recsys-embed", "tabular-wide"),
        high=STARVED._replace(
            power=(0.60, 0.70), fp32=(0.05, 0.10), rx_mib_s=(200, 400), tx_mib_s=(50, 150)
        ),
        low=Level(power=(0.17, 0.23), dram=(0.01, 0.02), rx_mib_s=(19_000, 24_000),
        tx_mib_s=(50, 150)),
        load=Load(cpu=(0.15, 0.30), main_thread=(0.60, 0.90), read_mib_s=(20, 80)),
        period_s=(0.3, 1.2), duty=(0.35, 0.60), warmup_s=(30.0, 90.0), sizes=(1, 4),
    ),
    replace(
        HEALTHY_LLM,
        name="hung", truth="hung", hours=(7.0, 0.4), memory=(0.50, 0.95),
        names=("pretrain-7b", "nccl-bench"), pause=SPINNING, pause_load=SPIN_LOAD,
        hangs_after_s=(3600.0, 14_400.0),
    ),
    Archetype(
        name="straggler", truth="straggler", hours=(8.0, 0.6), process="python3.11",
        memory=(0.60, 0.95), names=("ddp-72h", "vlm-pretrain"),
        high=TRAINING._replace(
            power=(0.88, 0.96), sm=(0.78, 0.86), tensor=(0.38, 0.42), dram=(0.36, 0.40),
            nvlink_mib_s=(45_000, 55_000),
        ),
        low=Level(
            util=(1.0, 1.0), power=(0.17, 0.23), sm=(0.10, 0.14), dram=(0.008, 0.012),
            rx_mib_s=(2, 8), tx_mib_s=(2, 8), nvlink_mib_s=(3, 8),
        ),
        culprit=TRAINING._replace(
            power=(0.55, 0.65), sm=(0.76, 0.84), tensor=(0.26, 0.30), dram=(0.24, 0.28),
            nvlink_mib_s=(45_000, 55_000), clock=(0.60, 0.75),
        ),
        load=LLM_LOAD, period_s=(0.8, 3.0), duty=(0.40, 0.65), warmup_s=(60.0, 240.0), sizes=(4, 8),
    ),
)  # fmt: skip

UNDERUSED = (
    Archetype(
        name="small_batch", truth="small_batch", hours=(5.0, 0.9), memory=(0.05, 0.30),
        names=("gnn-molecules", "rl-env", "tabular-nn", "hyperparam-sweep"),
        high=Level(
            util=(0.55, 0.97), power=(0.20, 0.32), sm=(0.08, 0.22), tensor=(0.005, 0.04),
            dram=(0.05, 0.15), fp32=(0.02, 0.08),
            rx_mib_s=(20, 60), tx_mib_s=(10, 40),
        ),
        load=Load(cpu=(0.10, 0.16), main_thread=(0.97, 1.0), read_mib_s=(1, 10)),
        warmup_s=(20.0, 60.0), sizes=(1, 2),
    ),
    Archetype(
        name="bursty_service", truth="bursty_service", kind="service", hours=(30.0, 0.4),
        process="vllm", memory=(0.30, 0.92),
        names=("chat-api", "embed-api", "rerank-api", "summarise-api"),
        high=Level(
            util=(0.40, 0.95), power=(0.30, 0.55), sm=(0.20, 0.50), tensor=(0.06, 0.10),
            dram=(0.30, 0.40), fp32=(0.01, 0.04),
            rx_mib_s=(40, 120), tx_mib_s=(20, 80),
        ),
        pause=Level(power=(0.08, 0.15)), load=SERVICE_LOAD, workers=(0.0, 2.0), burst_s=(2.0, 40.0),
        gap_s=(4.0, 10.0),
        is_diurnal=True, warmup_s=(60.0, 120.0), sizes=(1, 2),
    ),
    Archetype(
        name="memory_bound", truth="memory_bound", kind="service", hours=(30.0, 0.4),
        process="vllm", memory=(0.70, 0.95),
        names=("batch-inference", "llm-decode"),
        high=Level(
            util=(0.98, 1.0), power=(0.45, 0.65), sm=(0.40, 0.65), tensor=(0.04, 0.11),
            dram=(0.62, 0.85), fp32=(0.03, 0.08),
            rx_mib_s=(40, 80), tx_mib_s=(20, 60), nvlink_mib_s=(500, 4000),
        ),
        load=SERVICE_LOAD, workers=(0.0, 2.0), warmup_s=(60.0, 120.0), sizes=(1, 4),
    ),
    Archetype(
        name="no_tensor_cores", truth="no_tensor_cores", hours=(8.0, 0.7), process="python3.9",
        memory=(0.30, 0.90),
        names=("climate-emulator", "physics-nn", "legacy-gan"),
        high=Level(
            util=(0.97, 0.99), power=(0.50, 0.75), sm=(0.75, 0.93), tensor=(0.0, 0.012),
            dram=(0.18, 0.40), fp32=(0.45, 0.70),
            rx_mib_s=(150, 250), tx_mib_s=(40, 100),
        ),
        load=Load(cpu=(0.15, 0.35), main_thread=(0.50, 0.90), read_mib_s=(10, 60)),
        warmup_s=(30.0, 60.0),
    ),
    Archetype(
        name="communication_bound", truth="communication_bound", hours=(8.0, 0.7),
        process="python3.11", memory=(0.50, 0.95),
        names=("fsdp-70b", "tp-ablation", "multi-node-pretrain"),
        high=TRAINING._replace(
            power=(0.86, 0.92), sm=(0.78, 0.86), tensor=(0.38, 0.42), dram=(0.38, 0.42),
            rx_mib_s=(150, 250), nvlink_mib_s=(15_000, 25_000),
        ),
        low=Level(
            util=(1.0, 1.0), power=(0.25, 0.31), sm=(0.14, 0.18), dram=(0.07, 0.09),
            rx_mib_s=(8000, 10_000), tx_mib_s=(8000, 10_000), nvlink_mib_s=(80_000, 100_000),
        ),
        load=Load(cpu=(0.12, 0.25), main_thread=(0.60, 0.95), read_mib_s=(5, 30),
        nic_mib_s=(4000, 9000)),
        period_s=(0.6, 3.0), duty=(0.35, 0.60), warmup_s=(60.0, 240.0), sizes=(4, 8),
    ),
    Archetype(
        name="throttled", truth="throttled", hours=(10.0, 0.5), process="python3.11",
        memory=(0.60, 0.95),
        names=("train-llm", "pretrain-13b"),
        high=TRAINING._replace(
            power=(0.50, 0.70), sm=(0.75, 0.88), tensor=(0.20, 0.28), dram=(0.23, 0.27),
            fp32=(0.02, 0.05), nvlink_mib_s=(35_000, 45_000), clock=(0.45, 0.70),
        ),
        load=LLM_LOAD, warmup_s=(60.0, 240.0), thermal=(0.30, 0.90),
    ),
)  # fmt: skip

IDLE = (
    Archetype(
        name="idle_notebook", truth="idle_held", kind="interactive", hours=(12.0, 0.6),
        process="jupyter-lab", memory=(0.05, 0.60),
        names=("jupyter", "vscode", "notebook-gpu"),
        high=Level(
            util=(0.40, 0.80), power=(0.20, 0.35), sm=(0.15, 0.30), tensor=(0.0, 0.04),
            dram=(0.10, 0.20), fp32=(0.02, 0.06),
            rx_mib_s=(20, 400), tx_mib_s=(5, 40),
        ),
        workers=(0.0, 0.0), burst_s=(2.0, 20.0), gap_s=(900.0, 4000.0), warmup_s=(60.0, 600.0),
        sizes=(1, 2), in_office_hours=True,
    ),
    Archetype(
        name="idle_script", truth="idle_held", hours=(6.0, 0.7), process="python",
        memory=(0.10, 0.60),
        names=("eval-wait", "sweep-agent", "finetune-done"), high=Level(), workers=(0.0, 4.0),
        sizes=(1, 4),
    ),
    Archetype(
        name="allocated_no_process", truth="allocated_no_process", hours=(3.5, 0.6),
        names=("interactive-hold", "debug-alloc", "ddp-launch"), process="", high=Level(),
        workers=(0.0, 0.0), has_process=False,
    ),
    Archetype(
        name="partial_idle", truth="partial_idle", hours=(6.0, 0.7), memory=(0.30, 0.80),
        names=("dataparallel-train", "single-gpu-script"),
        high=Level(
            util=(0.90, 1.0), power=(0.45, 0.65), sm=(0.50, 0.70), tensor=(0.12, 0.22),
            dram=(0.25, 0.40), fp32=(0.04, 0.10),
            rx_mib_s=(150, 350), tx_mib_s=(40, 100),
        ),
        load=Load(cpu=(0.08, 0.20), main_thread=(0.50, 0.90), read_mib_s=(10, 60)),
        warmup_s=(30.0, 90.0), busy_ranks=(0.12, 0.5), sizes=(2, 8),
    ),
    Archetype(
        name="leftover", truth="orphaned", hours=(0.7, 0.5), names=("",), process="python",
        memory=(0.10, 0.60), high=Level(),
        is_allocated=False, sizes=(1, 2),
    ),
    Archetype(
        name="free", truth="free", hours=(5.0, 0.7), names=("",), process="", high=Level(),
        has_process=False, is_allocated=False,
    ),
)  # fmt: skip

ARCHETYPES = (*HEALTHY, *STALLED, *UNDERUSED, *IDLE)
BY_NAME = {archetype.name: archetype for archetype in ARCHETYPES}
