"""The causes in words: what goes on, what helps, what looks the same and how to tell. Pure; all
texts are ours.

Numbers that follow from a job's evidence are put in by advice.py; thresholds are the detectors'.
"""

from dataclasses import dataclass, replace

from fleetwatch.diagnosis.verdicts import COVERAGE, NO_TELEMETRY

MINUTES, HOURS, DAYS = "minutes", "hours", "days"
OWNER, ADMIN, SCHEDULER = (
    "the job's owner",
    "whoever runs the machines",
    "whoever runs the scheduler",
)

PY_SPY = "py-spy dump --pid PID"
NSYS = "nsys profile -t cuda,nvtx,osrt --duration=60 python train.py"
TORCH_PROFILER = (
    "from torch.profiler import profile, schedule, tensorboard_trace_handler\nwith"
    " profile(schedule=schedule(wait=5, warmup=2, active=5),"
    " on_trace_ready=tensorboard_trace_handler('trace')) as prof:\n    for batch in loader:\n      "
    "  train_step(batch)\n        prof.step()"
)


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do: a sentence, and the setting or command to copy ("" = none)."""

    text: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """What people are told of a cause.

    `alike` is what telemetry can't tell from it; `tell` the step that does.
    """

    code: str
    title: str
    sentence: str
    looks: str
    sensors: str
    fixes: tuple[Step, ...]
    effort: str
    range_words: str
    alike: str = ""
    tell: tuple[Step, ...] = ()
    who: str = OWNER


FASTER = "the same work could end so much earlier; GPUs become free only when it does"
FREED = "the GPU is free for others at once"

CATALOGUE: tuple[Cause, ...] = (
    Cause(
        "no_telemetry",
        "No telemetry",
        "Too little was read of this GPU to say anything.",
        "Less than 60 % of the held time was observed.",
        "an agent on the node",
        (
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
        MINUTES,
        "nothing is promised: the time may have been useful",
        alike="Nobody knows whether the GPUs worked meanwhile: this is neither idle nor useful.",
        who=ADMIN,
    ),
    Cause(
        "gpu_fault",
        "GPU can't work",
        "The GPU failed: jobs on it can't make progress until it is reset or replaced.",
        "A hardware XID, a recovery action, a failed remap, new uncorrected memory errors, or the"
        " driver lost the GPU.",
        "the agent's events (XID) and the driver's health fields",
        (
            Step("Take the node out of service."),
            Step(
                "Reset the GPU when nothing runs on it; if the fault comes back, have it replaced.",
                "nvidia-smi --gpu-reset -i INDEX",
            ),
        ),
        HOURS,
        "all of the hours after it was noticed: capacity that comes back, not a part of what jobs"
        " wasted",
        who=ADMIN,
        alike=(
            "An application can trigger some XIDs (13, 31, 43, 45): the same code on another GPU"
            " tells."
        ),
    ),
    Cause(
        "allocated_no_process",
        "Held, nothing runs",
        "The job holds GPUs on which no process ever opened a context.",
        "All the job's GPUs are idle and no process is on them.",
        "utilisation and processes",
        (
            Step("Release the job: what its script does beside the GPUs is lost with it."),
            Step(
                "Look whether the script ended or crashed before it reached the GPU, and end the"
                " allocation with it.",
                "set -euo pipefail",
            ),
            Step(
                "Ask for GPUs only in the step that uses them.", "srun --gres=gpu:1 python train.py"
            ),
        ),
        MINUTES,
        FREED,
    ),
    Cause(
        "idle_held",
        "Idle, still held",
        "A finished script or a notebook that nobody uses keeps its GPUs.",
        "All the job's GPUs are idle for longer than its kind may be, while a process or memory"
        " holds them.",
        "utilisation; processes tell which one",
        (
            Step(
                "Stop the job or shut the kernel down: variables, and whatever was not saved, are"
                " lost."
            ),
            Step(
                "Let idle notebooks end by themselves.",
                "c.MappingKernelManager.cull_idle_timeout ="
                " 3600\nc.MappingKernelManager.cull_interval = 300",
            ),
            Step(
                "Work that only needs a GPU now and then fits a MIG slice or a CPU; emptying the"
                " cache frees memory, not the GPU."
            ),
        ),
        MINUTES,
        FREED,
        alike=(
            "A person who thinks between two cells looks like one who left; only its length tells."
        ),
        tell=(
            Step(
                "Ask its owner; a notebook server says of each kernel when it was last active.",
                'curl -s "$JUPYTER_URL/api/kernels?token=$JUPYTER_TOKEN"',
            ),
        ),
    ),
    Cause(
        "partial_idle",
        "Some of its GPUs never used",
        "The job asked for more GPUs than its program uses.",
        "At least one GPU shows nothing at all while another one of the job works.",
        "utilisation of all the job's GPUs",
        (
            Step(
                "Start one process per GPU.",
                'torchrun --nproc_per_node="$SLURM_GPUS_ON_NODE" train.py',
            ),
            Step(
                "Replace DataParallel by DistributedDataParallel; look whether CUDA_VISIBLE_DEVICES"
                " hides GPUs.",
                'echo "$CUDA_VISIBLE_DEVICES"',
            ),
        ),
        MINUTES,
        "the unused GPUs are free for others at once",
        alike=(
            "A pipeline whose later stages did not start yet looks the same for its first minutes."
        ),
        tell=(
            Step(
                "Which process is on which GPU?",
                "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv",
            ),
        ),
    ),
    Cause(
        "throttled",
        "Slowed by heat or power",
        "The hardware lowers the clock to protect itself: the job runs slower through no fault of"
        " its own.",
        "The driver counts thermal or power-brake slow-down while the clock is well below its"
        " maximum.",
        "throttle counters and clocks",
        (
            Step("Check airflow, fans, power supplies and the neighbours in the rack."),
            Step(
                "See which limit holds it back.", "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"
            ),
            Step(
                "Until it is mended, keep synchronous jobs off this GPU: the slowest rank sets the"
                " pace."
            ),
        ),
        HOURS,
        "what the clock loses",
        who=ADMIN,
    ),
    Cause(
        "hung",
        "Stuck",
        "Every rank spins in a kernel that never ends; nothing is computed and nothing moves.",
        "Utilisation at 100 % with power near idle and silent links, on all ranks or all but one,"
        " for ten minutes and more.",
        "utilisation samples and power; GPM makes it sure",
        (
            Step(
                "End it and let it start again from its last checkpoint: steps since then are lost."
            ),
            Step(
                "Let the next hang end itself and leave a trace.",
                "export TORCH_NCCL_ASYNC_ERROR_HANDLING=1 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
                " TORCH_NCCL_TRACE_BUFFER_SIZE=2000 NCCL_DEBUG=WARN",
            ),
            Step(
                "Shorten the time after which it gives up.",
                "torch.distributed.init_process_group('nccl', timeout=timedelta(minutes=10))",
            ),
        ),
        MINUTES,
        "all of the hours since ten minutes after it began",
        alike=(
            "Ranks that wait for one very slow rank, and an inference engine that polls, look the"
            " same for a while."
        ),
        tell=(
            Step(
                "Where does each rank stand? Ranks in different places hang; all in the same place"
                " wait.",
                PY_SPY,
            ),
        ),
    ),
    Cause(
        "straggler",
        "One slow rank",
        "One GPU of the job is slower than the others, and in every step they wait for it.",
        "One rank's clock, power or tensor activity lies far from the median of its peers while all"
        " are busy.",
        "clocks, power or tensor activity of all the job's GPUs",
        (
            Step(
                "Run it without the slow GPU's node: if the pace returns, take that node out of"
                " service."
            ),
            Step(
                "Compare the slow GPU's clock, temperature and PCIe link with its neighbours'.",
                "nvidia-smi --query-gpu=index,clocks.sm,temperature.gpu"
                ",pcie.link.gen.current,pcie.link.width.current --format=csv",
            ),
            Step("Even out the work: bucket or pack sequences by length, shard data evenly."),
        ),
        HOURS,
        FASTER,
        alike=(
            "Waiting for communication and pipeline bubbles spin at 100 % too; only a rank that"
            " deviates makes a straggler."
        ),
        tell=(Step("Time each rank's step without its collectives.", NSYS),),
    ),
    Cause(
        "checkpoint_stall",
        "Waits for checkpoints",
        "At regular times all the job's GPUs stand still, as for a checkpoint that is written"
        " before the next step.",
        "Long pauses at even intervals, on all ranks together, between stretches of full work.",
        "utilisation samples; disk writes or PCIe bursts make it sure",
        (
            Step(
                "Write in the background (needs host memory for one copy of each rank's state).",
                "torch.distributed.checkpoint.async_save(state_dict, checkpoint_id=path)",
            ),
            Step("Save a sharded state dict to the node's NVMe and upload it afterwards."),
            Step(
                "Save less often: the best interval is √(2 · seconds per save · mean seconds"
                " between failures)."
            ),
        ),
        HOURS,
        FASTER,
        alike=(
            "An evaluation pass, the end of an epoch, or loader workers that start again look the"
            " same."
        ),
        tell=(
            Step(
                "Does it log a save or an evaluation at these times? If an epoch ends there, keep"
                " the workers.",
                "DataLoader(..., persistent_workers=True)",
            ),
            Step("See where it stands during a pause.", PY_SPY),
        ),
    ),
    Cause(
        "h2d_transfer",
        "Waits for copies to the GPU",
        "The GPU stands still while data is copied to it over PCIe.",
        "Short pauses while gigabytes per second flow to the GPU.",
        "PCIe traffic and utilisation samples",
        (
            Step(
                "Copy from pinned memory while the GPU works.",
                "DataLoader(..., pin_memory=True)\nx = x.to(device, non_blocking=True)",
            ),
            Step(
                "Send small types and convert on the GPU.",
                "x = x_uint8.to(device, non_blocking=True).float().div_(255)",
            ),
            Step("Keep on the GPU what every step needs; avoid .item() and .cpu() in the loop."),
            Step(
                "Check that the link has all its lanes.",
                "nvidia-smi --query-gpu=index,pcie.link.gen.current,pcie.link.width.current"
                " --format=csv",
            ),
        ),
        HOURS,
        FASTER,
        alike="A loop that waits for its input and then copies much of it shows both.",
        tell=(Step("Do copies and kernels overlap?", NSYS),),
    ),
    Cause(
        "data_starved",
        "Waits for its input",
        "The GPU works in bursts and waits in between for data to be loaded and prepared.",
        "The sawtooth: short, regular pauses, or all of the job's cores busy while the GPU is not.",
        "utilisation samples; the host's CPU and I/O tell what is short",
        (
            Step(
                "Load in parallel and ahead of time.",
                "DataLoader(..., num_workers=CORES_PER_GPU, persistent_workers=True,"
                " prefetch_factor=4, pin_memory=True)",
            ),
            Step(
                "If the cores are full: ask for more, prepare the data once and store it, or decode"
                " on the GPU (DALI, nvJPEG, kornia)."
            ),
            Step(
                "If the disk is slow: stage the data on local NVMe, pack it into shards"
                " (WebDataset, MDS), read it in large pieces."
            ),
        ),
        HOURS,
        FASTER,
        alike="Python in the loop (logging, .item(), metrics, a tokeniser) makes the same pauses.",
        tell=(
            Step("Time it with data made up on the GPU: if the pauses stay, it is not the loader."),
            Step("See what the main process does.", "py-spy record --pid PID -d 60 -o profile.svg"),
            Step("See the gaps between steps.", TORCH_PROFILER),
        ),
    ),
    Cause(
        "bursty_service",
        "A service that mostly waits",
        "A service waits for requests most of the time while its model holds a whole GPU.",
        "Long, irregular pauses between bursts of work, with a model in memory.",
        "utilisation samples; a server's name makes it surer",
        (
            Step("Put several models or replicas on one GPU: MPS, time-slicing or MIG."),
            Step("Scale with the requests, to none at night (KEDA, Knative)."),
            Step(
                "Gather requests into batches.",
                "dynamic_batching { max_queue_delay_microseconds: 5000 }",
            ),
        ),
        DAYS,
        "only when replicas or GPUs are really given back",
        alike="An interactive session or a pipeline with an irregular source pauses like this too.",
        tell=(Step("Compare with the service's own request rate."),),
    ),
    Cause(
        "rank_wait",
        "Ranks wait for each other",
        "The GPUs show 100 % but draw little power: ranks spin in NCCL and wait for another rank.",
        "High utilisation with power near idle for much of the time, on a job of several GPUs.",
        "utilisation and power of all the job's GPUs",
        (
            Step("Find the rank that the others wait for: it alone draws power at these times."),
            Step(
                "Look for work that one rank does alone: saving, logging, evaluation, uneven data."
            ),
            Step(
                "Ask NCCL what it waits for.",
                "export NCCL_DEBUG=INFO TORCH_NCCL_TRACE_BUFFER_SIZE=2000",
            ),
        ),
        HOURS,
        FASTER,
        alike=(
            "A slow rank, a checkpoint without a rhythm, pipeline bubbles and slow links all end in"
            " this wait."
        ),
        tell=(
            Step("Where does each rank stand?", PY_SPY),
            Step("Which collective is long, and on which rank short?", NSYS),
        ),
    ),
    Cause(
        "no_tensor_cores",
        "Full precision, Tensor Cores unused",
        "The GPU is busy in 32 bit; the units that make it fast for deep learning stand still.",
        "Busy, with FP32 active and tensor activity near 0.",
        "profiling counters (GPM on Hopper and newer, or DCGM)",
        (
            Step(
                "Compute in BF16.",
                "with torch.autocast('cuda', dtype=torch.bfloat16):\n    loss = model(x)",
            ),
            Step(
                "Let what stays in 32 bit use TF32.", "torch.set_float32_matmul_precision('high')"
            ),
            Step("Keep matrix sizes multiples of 8, better of 64."),
        ),
        HOURS,
        FASTER,
        alike="Work without matrix products can't use Tensor Cores at all.",
        tell=(Step("Which kernels take the time?", TORCH_PROFILER),),
    ),
    Cause(
        "memory_bound",
        "Limited by memory bandwidth",
        "The GPU moves data as fast as it can while its compute units wait: often inherent to the"
        " work.",
        "DRAM busy, Tensor Cores not.",
        "profiling counters (GPM on Hopper and newer, or DCGM)",
        (
            Step(
                "Training: fuse, so that intermediate results stay on the chip.",
                "model = torch.compile(model)\ntorch.nn.functional.scaled_dot_product_attention(q,"
                " k, v)",
            ),
            Step(
                "Decoding: larger or continuous batches, weights in FP8 or INT8, speculative"
                " decoding."
            ),
            Step(
                "Near the roofline nothing is left to gain: a GPU with less compute does the same"
                " for less."
            ),
        ),
        DAYS,
        "nothing may be recoverable: near the roofline this is healthy",
        alike="Whether it is inherent or can be mended is not visible from outside.",
        tell=(
            Step(
                "Which kernels are far from their roofline?",
                "ncu --set roofline --launch-count 50 python train.py",
            ),
        ),
    ),
    Cause(
        "communication_bound",
        "Waits for communication",
        "Ranks exchange data while their compute units wait.",
        "Busy ranks, much traffic on NVLink or the network, low SM activity.",
        "profiling counters and NVLink, PCIe or network traffic",
        (
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
                "Keep tensor parallelism within a node; see that NCCL uses InfiniBand and not"
                " sockets.",
                "export NCCL_DEBUG=INFO  # NET/IB, not NET/Socket",
            ),
        ),
        HOURS,
        FASTER,
        alike="A slow rank and pipeline bubbles make the same wait.",
        tell=(Step("How much of a step is communication that nothing overlaps?", NSYS),),
    ),
    Cause(
        "small_batch",
        "Too little work per step",
        "The GPU is busy launching kernels that fill only a part of it.",
        "A kernel is always there, but few SMs work and memory is far from full.",
        "SM and tensor activity; by power alone with little confidence",
        (
            Step("Raise the batch until memory is about 85 % full; tune the learning rate again."),
            Step(
                "Launch less: CUDA graphs and fused kernels.",
                "model = torch.compile(model, mode='reduce-overhead')",
            ),
            Step("If the work can't grow, a smaller GPU or a MIG slice does it for less."),
        ),
        HOURS,
        FASTER,
        alike=(
            "A small model, work bound by launches and work that is sequential by nature"
            " (environments, beam search) look the same."
        ),
        tell=(
            Step("Double the batch once: if a step takes as long as before, it was too small."),
            Step("How long between kernels?", NSYS),
        ),
    ),
    Cause(
        "oversized_gpu",
        "GPU larger than the work",
        "The work uses little of the GPU's time and memory: a slice or a smaller GPU would do.",
        "Low utilisation for an hour and a small peak of memory.",
        "utilisation and memory",
        (Step("Share the GPU with others of its kind.", "nvidia-cuda-mps-control -d"),),
        HOURS,
        "the difference in price, once it runs on the smaller one",
        alike=(
            "A batch too small and a loop that waits for its input use as little: a larger batch or"
            " a faster loader may be worth more. Memory that an allocator reserved counts as used:"
            " the true need may be lower still."
        ),
        tell=(
            Step(
                "Double the batch once: if a step takes as long as before, the GPU is not too"
                " large."
            ),
            Step("What fills the gaps?", NSYS),
        ),
    ),
    Cause(
        "oom_thrash",
        "Memory taken and given back all the time",
        "The job empties and refills its memory over and over.",
        "A sawtooth of used memory with pauses, or short runs of one name that fail with their"
        " memory full.",
        "memory and utilisation samples",
        (
            Step(
                "Let the allocator grow its segments.",
                "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            ),
            Step(
                "Take empty_cache() out of the loop; recompute activations or accumulate gradients"
                " instead of running to the brim."
            ),
        ),
        HOURS,
        FASTER,
        alike="Fragmentation itself can't be seen from outside.",
        tell=(Step("What does the allocator say?", "print(torch.cuda.memory_summary())"),),
    ),
    Cause(
        "queue_or_scheduler",
        "Free GPUs while jobs wait",
        "GPUs that nobody holds stand beside a queue of jobs that wait for some.",
        "The ledger calls GPUs free while the scheduler's queue asks for GPUs, for ten minutes and"
        " more.",
        "the scheduler's queue (the agent's Slurm source) and the ledger",
        (
            Step(
                "See why the jobs wait: the reason is Slurm's.",
                "squeue -t PD -O jobid,reason:30,tres-alloc:40,partition",
            ),
            Step(
                "Let short jobs fill the gaps before large ones start.",
                "SchedulerType=sched/backfill\nSchedulerParameters=bf_continue,bf_window=2880,bf_resolution=300",
            ),
            Step(
                "Single GPUs free on many nodes: pack small jobs onto few nodes: no CR_LLN, no"
                " partition with LLN=YES."
            ),
            Step(
                "See whether a partition, a limit (QOS, fair share) or a request larger than a node"
                " keeps them out.",
                "scontrol show partition",
            ),
        ),
        DAYS,
        "free capacity that jobs could have used: a line of its own, not a part of what jobs"
        " wasted",
        alike=(
            "How many GPUs the whole queue waits for is known, not what each job asks for together:"
            " single free GPUs may be too few, the wrong model, or in another partition. The lower"
            " end counts nodes that were free altogether."
        ),
        tell=(Step("When would Slurm start them, and where?", "squeue --start -t PD"),),
        who=SCHEDULER,
    ),
    Cause(
        "persistence_off",
        "Persistence mode off",
        "The driver unloads between jobs: an idle GPU may read as busy and draw power, and the"
        " first job waits for it to start.",
        "The driver says that persistence mode is off.",
        "the driver's word on persistence mode",
        (
            Step(
                "Keep the driver loaded, also after a reboot.",
                "systemctl enable --now nvidia-persistenced",
            ),
            Step("Or until the next reboot.", "nvidia-smi -pm 1"),
        ),
        MINUTES,
        "seconds at each job's start, and readings that can be trusted; FleetWatch counts such"
        " phantom load as no activity",
        who=ADMIN,
    ),
    Cause(
        "orphaned",
        "Held by no job",
        "Processes, or memory that they left behind, hold GPUs that no job was given: nobody can"
        " use them.",
        "The scheduler gave the GPU to nobody, and a process or more than 300 MiB of memory is"
        " on it.",
        "the scheduler's word, processes and memory",
        (
            Step("Let what a job started end with it.", "ProctrackType=proctrack/cgroup"),
            Step(
                "Memory without a process, or one that can't be killed: reset the GPU when nothing"
                " runs on it.",
                "nvidia-smi --gpu-reset -i INDEX",
            ),
        ),
        MINUTES,
        FREED,
        who=ADMIN,
        alike=(
            "A monitoring tool or a display server, and work that somebody started beside the"
            " scheduler, look the same."
        ),
        tell=(
            Step(
                "Which process is on which GPU?",
                "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv",
            ),
        ),
    ),
    Cause(
        "healthy",
        "Healthy",
        "The GPU does what it can, as far as its sensors tell.",
        "Busy with Tensor Cores, double precision or power to show for it.",
        "profiling counters (GPM on Hopper and newer, or DCGM)",
        (),
        MINUTES,
        "nothing to do",
        alike="Whether the work was worth doing is not visible from outside.",
    ),
    Cause(
        "video_engines",
        "Busy with video",
        "Video, JPEG or optical flow is worked on by engines of their own, which are busy; the"
        " compute units hardly are, and need not be.",
        "An encoder, decoder, JPEG or optical-flow engine is busy.",
        "the driver's utilisation of these engines",
        (),
        MINUTES,
        "nothing to do",
        alike="Whether a smaller GPU with as many of these engines would do is not visible here.",
    ),
    Cause(
        "busy",
        "Busy, efficiency not measurable",
        "The GPU is busy; how well it is used can't be measured on it.",
        "Busy, without profiling counters.",
        "utilisation and power; efficiency needs GPM (Hopper and newer) or DCGM's profiling fields",
        (
            Step(
                "Run dcgm-exporter with profiling fields beside the agent to see it.",
                "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, tensor active",
            ),
        ),
        MINUTES,
        "nothing is promised",
        alike="Without these counters memory-bound, FP32 and healthy work are the same.",
        who=ADMIN,
    ),
    Cause(
        "undetermined",
        "Cause not determined",
        "None of the known causes fits what was read, or several jobs hold the GPU and nobody read"
        " which of them did what.",
        "Waste that no rule explains.",
        "whatever was read",
        (),
        MINUTES,
        "nothing is promised",
        tell=(
            Step("Profile one minute of it.", NSYS),
            Step("See what the main process does.", "py-spy record --pid PID -d 60 -o profile.svg"),
            Step("See the gaps between steps.", TORCH_PROFILER),
        ),
    ),
)

BY_CODE = {cause.code: cause for cause in CATALOGUE}


# What is told otherwise of a service, which rests until somebody asks it: that is neither a script
# that ended nor a notebook.
OF_SERVICES = {
    "idle_held": replace(
        BY_CODE["idle_held"],
        sentence="A service that nobody asks anything for an hour and more keeps its GPUs.",
        fixes=(
            Step("See whether somebody still uses it; if not, take it down."),
            Step(
                "Scale it to none while nobody asks, as at night (KEDA, Knative): loading the model"
                " again is what the first request pays."
            ),
            Step("Put it beside other models on one GPU: MPS, time-slicing or MIG."),
        ),
        range_words="the GPU is free for others while the service rests",
        alike=(
            "A service that stands by for another one, and one that was forgotten, look the same."
        ),
        tell=(Step("Compare with the service's own request rate."),),
    )
}


TOO_SHORT = replace(
    BY_CODE["undetermined"],
    title="Too short to judge",
    sentence="It was observed, but held its GPUs for too short a time to judge.",
    looks="A part of five minutes.",
    tell=(),
)


def of_job(code: str, kind: str, coverage: float | None) -> Cause:
    """As of_kind; of a job that was observed (`coverage`, 0 to 1), parts of five minutes are no
    missing telemetry. Raises KeyError.
    """
    if code == NO_TELEMETRY and coverage is not None and coverage >= COVERAGE:
        return TOO_SHORT
    return of_kind(code, kind)


def of_kind(code: str, kind: str) -> Cause:
    """The cause as it is told of a job of that kind.

    Raises KeyError for a code that no cause has.
    """
    return OF_SERVICES.get(code, BY_CODE[code]) if kind == "service" else BY_CODE[code]


def title(code: str) -> str:
    """The cause's name for people; a code that is not known as it is."""
    return BY_CODE[code].title if code in BY_CODE else code
