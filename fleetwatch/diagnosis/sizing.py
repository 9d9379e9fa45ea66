"""How much of a machine work needs: loaders, batches, and smaller GPUs. Pure."""

import re

from fleetwatch.diagnosis.cause import Facts, Step
from fleetwatch.lib.memory_sizes import GB, gigabytes

FULL = 0.85  # of the GPU's memory: room for what an allocator takes on top
LARGEST_FACTOR = 16  # of the batch: beyond it the work is of another kind
ASK_OPERATOR = "Ask an operator to cut it: nothing may run on the GPU meanwhile."
HEADROOM = 1.3  # a smaller GPU's memory by the peak that it must hold
WORKERS_AT_MOST = 16  # per GPU; more loaders fight for memory and file handles
# as many as that, where nobody read how many cores the job has
WORKERS_HERE = "len(os.sched_getaffinity(0)) // torch.cuda.device_count()"

# Memory of MIG slices in GiB, smallest first (NVIDIA's MIG user guide, "Supported MIG profiles"),
# by the memory of the whole GPU.
SLICES: tuple[tuple[float, tuple[tuple[str, float], ...]], ...] = (
    (40, (("1g.5gb", 4.75), ("2g.10gb", 9.75), ("3g.20gb", 19.5))),
    (80, (("1g.10gb", 9.5), ("2g.20gb", 19.5), ("3g.40gb", 39.25))),
    (93.6, (("1g.12gb", 10.75), ("2g.24gb", 21.5), ("3g.47gb", 46))),
    (95.6, (("1g.12gb", 10.75), ("2g.24gb", 21.5), ("3g.48gb", 46))),
    (141, (("1g.18gb", 16), ("2g.35gb", 32.5), ("3g.71gb", 69))),
    (180, (("1g.23gb", 21.5), ("2g.45gb", 43.5), ("3g.90gb", 87))),
)
CAN_SLICE = re.compile(r"\b(A100|A800|H100|H800|H200|H20|GH200|B200|GB200)\b")
# GPUs with less memory and a lower price, smallest first.
SMALLER: tuple[tuple[str, float], ...] = (
    ("T4", 15),
    ("L4", 22.5),
    ("A10", 22.5),
    ("L40S", 45),
    ("A100 80GB", 79),
)


def workers_per_gpu(cores: float | None, gpus: int) -> int | None:
    """Loader processes per GPU: the cores of one GPU, at most WORKERS_AT_MOST; None where cores
    were not read.
    """
    return None if not cores or gpus < 1 else max(1, min(int(cores / gpus), WORKERS_AT_MOST))


def batch_factor(peak_ratio: float | None) -> float | None:
    """By how much a batch can grow until memory is FULL, as a power of two; None where not read or
    where it is full.

    Memory that does not grow with the batch (weights, optimizer) makes the true factor larger: this
    one is safe.
    """
    if not peak_ratio or peak_ratio * 2 > FULL:
        return None
    factor = 2
    while factor < LARGEST_FACTOR and peak_ratio * factor * 2 <= FULL:
        factor *= 2
    return factor


def smaller_gpu(facts: Facts) -> tuple[Step, ...]:
    """On what smaller GPU, or slice of it, the work fits."""
    names = smaller(
        facts.gpu_model,
        facts.memory_total_bytes,
        facts.memory_peak_ratio,
        mig_profile=facts.mig_profile,
    )
    if not names or facts.memory_total_bytes is None or facts.memory_peak_ratio is None:
        return ()
    peak = facts.memory_total_bytes * facts.memory_peak_ratio / GB
    text = (
        f"Memory peaks at {peak:.1f} GB of {gigabytes(facts.memory_total_bytes)}:"
        f" {' or '.join(names)} holds it with room to spare. An allocator may hold more than it"
        " needs, a model server all it can get."
    )
    # of an instance the parent is divided already: whoever runs it has to make room first
    is_sliced = not facts.mig_profile and names[0].startswith("MIG ")
    # without its index every GPU of the node would be cut
    cut = (
        "nvidia-smi -i INDEX -mig 1 && nvidia-smi mig -i INDEX -cgi"
        f" {names[0].removeprefix('MIG ')} -C"
    )
    if is_sliced:
        text = f"{text} {ASK_OPERATOR}"
    # of a job that is over others hold its GPUs
    is_cut = is_sliced and not facts.place.is_over
    return (Step(text, cut if is_cut else "", topics=("smaller",)),)


def smaller(
    model: str, total_bytes: float | None, peak_ratio: float | None, *, mig_profile: str = ""
) -> tuple[str, ...]:
    """The smallest MIG slice of this GPU and the smallest other GPU whose memory is HEADROOM times
    the peak.

    Of a MIG instance the slices are its parent's, smaller than itself.
    """
    if not total_bytes or peak_ratio is None:
        return ()
    need = HEADROOM * peak_ratio * total_bytes / GB
    total = total_bytes / GB
    slices = _slices(total, mig_profile.partition("+")[0]) if CAN_SLICE.search(model) else ()
    mig = next((f"MIG {name}" for name, memory in slices if memory >= need), None)
    other = next(
        (
            f"an {name}" if name[0] in "AL" else f"a {name}"
            for name, memory in SMALLER
            if need <= memory < total * 0.9
        ),
        None,
    )
    return tuple(name for name in (mig, other) if name)


def _slices(total_gib: float, of: str) -> tuple[tuple[str, float], ...]:
    """Of the kind of GPU whose memory is nearest; of an instance those smaller than it, of the kind
    that has its profile ("" = whole).
    """
    if of:
        return next(
            (
                several[:place]
                for _, several in SLICES
                for place, (name, _) in enumerate(several)
                if name == of
            ),
            (),
        )
    return min(SLICES, key=lambda kind: abs(kind[0] - total_gib))[1]
