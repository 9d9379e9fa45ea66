"""What to change: a cause's fixes with the numbers that follow from a job's evidence, and the
command that ends it. Pure.

Names come from hosts and schedulers and are hostile: in a command each is one quoted word.
"""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field

from fleetwatch.diagnosis.causes import Cause, Step, of_kind

FULL = 0.85  # of the GPU's memory: room for what an allocator takes on top
LARGEST_FACTOR = 16  # of the batch: beyond it the work is of another kind
HEADROOM = 1.3  # a smaller GPU's memory by the peak that it must hold
WORKERS_AT_MOST = 16  # per GPU; more loaders fight for memory and file handles
GIB = 1024**3

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

# From here on the batch loader's reasons are told apart (the detector's own signs).
CPU, DISK, ONE_THREAD = "cpu", "iop", "main1"


@dataclass(frozen=True, slots=True)
class Place:
    """Who holds the GPU and where: what a command needs. Empty = not known."""

    scheduler: str = ""
    job_id: str = ""  # that ends it alone
    name: str = ""  # Kubernetes: namespace/pod
    node: str = ""  # of the GPU that was looked at
    pids: tuple[int, ...] = ()  # of the job, there
    # the job ended: nothing is left to end; of orphaned GPUs, they are free or a job's
    is_over: bool = False
    is_service: bool = False  # that rests is scaled, not ended
    # one of its GPUs works, or nobody knows that it does not: nothing is ended
    may_work: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What the evidence says in numbers; None = not read."""

    place: Place = Place()
    gpus: int = 1
    affected_gpus: int = 1  # at a time
    gpus_on_node: int = 1  # of the job, on the node of the GPU that was looked at
    cores: float | None = None  # of the job, on that node
    memory_total_bytes: float | None = None
    memory_peak_ratio: float | None = None
    gpu_model: str = ""
    mig_profile: str = ""  # of a MIG instance; memory is the instance's then
    kind: str = ""  # of the job: batch, interactive or service
    met: frozenset[str] = frozenset()  # features whose signs are met
    indexes: tuple[int, ...] = ()  # of the affected GPUs, on their node


@dataclass(frozen=True, slots=True)
class Advice:
    """Steps in the order in which to try them; `command` ends or isolates it ("" = nothing
    to end).
    """

    cause: Cause
    steps: tuple[Step, ...]
    command: str = ""
    tell: tuple[Step, ...] = field(default=())


def advise(code: str, facts: Facts) -> Advice:
    """The advice for a cause and a job. Raises KeyError for a code that no cause has."""
    cause = of_kind(code, facts.kind)
    if code == "orphaned" and facts.place.is_over:
        return Advice(cause, (FREE_AGAIN, cause.fixes[0]))
    pid = str(facts.place.pids[0]) if facts.place.pids else "PID"
    tell = tuple(
        Step(step.text, step.code.replace("--pid PID", f"--pid {pid}")) for step in cause.tell
    )
    is_over = code in _ENDED_BY_HAND and facts.place.is_over
    typed = command(code, facts.place)
    first = (OVER,) if is_over else _spared(code, facts.place)
    todo = (*first, *(() if is_over else _concrete(code, facts)), *_fixes(cause, facts.place))
    steps = tuple(Step(step.text, _filled(step.code, facts)) for step in todo)
    return Advice(cause, (*steps, PODS) if typed.startswith(DELETE_POD) else steps, typed, tell)


def first_step(cause: Cause, place: Place) -> Step:
    """What to do first, told by the job's row alone: with the command that ends it, or what fits
    into a line. Empty: nothing.
    """
    steps = (*_spared(cause.code, place), *_fixes(cause, place), Step(""))
    code = steps[0].code
    return Step(steps[0].text, command(cause.code, place) or ("" if "\n" in code else code))


def _fixes(cause: Cause, place: Place) -> tuple[Step, ...]:
    """Of what a person ends the first fix is to end it: of a job that is over, or may work, the
    others are left.
    """
    is_first_left_out = cause.code in _ENDED_BY_HAND and (place.is_over or place.may_work)
    return cause.fixes[1:] if is_first_left_out else cause.fixes


def _spared(code: str, place: Place) -> tuple[Step, ...]:
    """Of a job that may work, that it is not to be ended."""
    return (LET_IT_RUN,) if code in _ENDED_BY_HAND and place.may_work and not place.is_over else ()


def _filled(typed: str, facts: Facts) -> str:
    """The command with the GPUs that it is about and the loaders that fit, where these are
    known.
    """
    workers = workers_per_gpu(facts.cores, facts.gpus_on_node)
    typed = typed if workers is None else typed.replace("CORES_PER_GPU", str(workers))
    return (
        typed.replace("-i INDEX", f"-i {','.join(map(str, facts.indexes))}")
        if facts.indexes
        else typed
    )


def command(code: str, place: Place) -> str:
    """What to type to act on the cause: end the job, or take the node out of service; "" where
    nothing is to be ended.
    """
    if code in _TROUBLE:
        return _drain(place, _TROUBLE[code])
    if code == "persistence_off" and place.node:
        return f"ssh -- {_word(place.node)} nvidia-smi -pm 1"
    is_resting = code == "idle_held" and place.is_service
    is_to_end = code in _ENDED_BY_HAND and not (place.is_over or place.may_work or is_resting)
    return ending(place) if is_to_end else ""


_ENDED_BY_HAND = ("allocated_no_process", "idle_held", "hung")
OVER = Step("The job has ended, nothing is left to end: what follows is for its next run.")
FREE_AGAIN = Step(
    "Nothing is left to free: none of its GPUs was held by no job when it was last seen."
)
LET_IT_RUN = Step("Let the job run: some of its GPUs work, or worked again since.")
PODS = Step(
    "What made the pod (a Deployment, a StatefulSet, a Job) makes it again: scale or delete that"
    " instead."
)
DELETE_POD = "kubectl delete pod"
_TROUBLE = {"gpu_fault": "GPU fault", "throttled": "GPU slowed by heat or power"}


def _drain(place: Place, reason: str) -> str:
    if place.node and place.scheduler == "slurm":
        return f"scontrol update nodename={_word(place.node)} state=drain reason={_word(reason)}"
    return (
        f"kubectl cordon -- {_word(place.node)}"
        if place.node and place.scheduler == "kubernetes"
        else ""
    )


def ending(place: Place) -> str:
    """The command that ends the job; "" where nobody knows one."""
    if place.scheduler == "slurm" and place.job_id:
        return f"scancel {_word(place.job_id)}"
    if place.scheduler == "kubernetes" and "/" in place.name:
        namespace, _, pod = place.name.partition("/")
        return f"{DELETE_POD} -n {_word(namespace)} -- {_word(pod)}"
    if place.scheduler in ("docker", "podman", "containerd") and place.job_id:
        return (
            f"{place.scheduler if place.scheduler == 'podman' else 'docker'} stop --"
            f" {_word(place.job_id)}"
        )
    if place.pids and place.node:
        return f"ssh -- {_word(place.node)} kill {' '.join(str(pid) for pid in place.pids)}"
    return ""


def _word(name: str) -> str:
    """The name as one word of a shell: line breaks and control characters gone, and never an
    option.
    """
    clean = "".join(char for char in name if char.isprintable())
    return shlex.quote(f"./{clean}" if clean.startswith("-") else clean)


def _concrete(code: str, facts: Facts) -> tuple[Step, ...]:
    """Steps whose numbers follow from the evidence."""
    return _STEPS[code](facts) if code in _STEPS else ()


def _session(facts: Facts) -> tuple[Step, ...]:
    """What an idle job is, is told by its kind alone: likely, not sure."""
    likely = Step(
        "Likely a notebook or a shell that nobody uses: save what is open, then shut its kernel"
        " down."
    )
    return (likely,) if facts.kind == "interactive" else ()


def _other_node(facts: Facts) -> tuple[Step, ...]:
    if not facts.place.node:
        return ()
    slow = (
        f"GPU {facts.indexes[0]} of {facts.place.node}"
        if facts.indexes
        else f"a GPU of {facts.place.node}"
    )
    without = (
        f"sbatch --exclude={_word(facts.place.node)} job.sh"
        if facts.place.scheduler == "slurm"
        else ""
    )
    return (Step(f"The slow one is {slow}.", without),)


def _orphans(facts: Facts) -> tuple[Step, ...]:
    pids = facts.place.pids
    if not pids or not facts.place.node:
        return ()
    where = f"ssh -- {_word(facts.place.node)}"
    return (
        Step(
            "See what they are, and ask whose they are.",
            f"{where} ps -o pid,user,lstart,args -p {','.join(map(str, pids))}",
        ),
        Step(
            "What nobody misses, end: what it has not saved is lost.",
            f"{where} kill {' '.join(map(str, pids))}",
        ),
    )


def _fewer_gpus(facts: Facts) -> tuple[Step, ...]:
    used = max(facts.gpus - facts.affected_gpus, 1)
    return (
        Step(
            f"Ask for {used} GPU{'s' * (used > 1)} instead of {facts.gpus}, or use them all.",
            _request(facts, used),
        ),
    )


def _request(facts: Facts, gpus: int) -> str:
    if facts.place.scheduler == "slurm":
        # --gres counts on each node, --gpus over all of them
        return (
            f"#SBATCH --gres=gpu:{gpus}"
            if facts.gpus == facts.gpus_on_node
            else f"#SBATCH --gpus={gpus}"
        )
    return (
        f"resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}"
        if facts.place.scheduler == "kubernetes"
        else ""
    )


def _loader(facts: Facts) -> tuple[Step, ...]:
    gpus = facts.gpus_on_node
    workers = workers_per_gpu(facts.cores, gpus)
    if CPU in facts.met:
        why = (
            "Its cores are full: more workers alone won't help. Ask for more cores, or move"
            " decoding and augmentation to the GPU."
        )
        # by GPU: nobody read into how many tasks the job is split
        more = (
            f"#SBATCH --cpus-per-gpu={round(facts.cores * 2 / gpus)}"
            if facts.cores and facts.place.scheduler == "slurm"
            else ""
        )
        return (Step(why, more),)
    if DISK in facts.met:
        why = (
            "Processes wait for the disk: copy the data to local NVMe before the first epoch, in"
            " shards of 100 MB and more."
        )
        return (Step(why, 'rsync -a DATASET/ "${TMPDIR:-/tmp}"/dataset/'),)
    if workers is None:
        return ()
    only = (
        "One thread is full while the other cores rest, as with num_workers=0. "
        if ONE_THREAD in facts.met
        else ""
    )
    cores = (
        f"{facts.cores:.0f} cores for {gpus}"
        f" GPU{'s' * (gpus > 1)}{' of a node' * (facts.gpus > gpus)}"
    )
    return (
        Step(
            f"{only}With {cores}, {workers} worker{'s' * (workers > 1)} per GPU.",
            f"DataLoader(..., num_workers={workers}, persistent_workers=True, prefetch_factor=4,"
            " pin_memory=True)",
        ),
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


def _larger_batch(facts: Facts) -> tuple[Step, ...]:
    factor = batch_factor(facts.memory_peak_ratio)
    if factor is None:
        return ()
    return (
        Step(
            f"Memory peaks at {(facts.memory_peak_ratio or 0) * 100:.0f} %: a batch {factor:.0f}"
            " times as large still fits. Double it step by step, and scale the learning rate"
            " with it.",
            f"batch_size = {factor:.0f} * batch_size",
        ),
    )


def _smaller_gpu(facts: Facts) -> tuple[Step, ...]:
    found = smaller(
        facts.gpu_model,
        facts.memory_total_bytes,
        facts.memory_peak_ratio,
        mig_profile=facts.mig_profile,
    )
    if not found or facts.memory_total_bytes is None or facts.memory_peak_ratio is None:
        return ()
    peak = facts.memory_total_bytes * facts.memory_peak_ratio / GIB
    text = (
        f"Memory peaks at {peak:.1f} GiB of {facts.memory_total_bytes / GIB:.0f} GiB:"
        f" {' or '.join(found)} holds it with room to spare. An allocator may hold more than it"
        " needs, a model server all it can get."
    )
    # of an instance the parent is divided already: whoever runs it has to make room first
    is_sliced = not facts.mig_profile and found[0].startswith("MIG ")
    # without its index every GPU of the node would be cut
    cut = (
        "nvidia-smi -i INDEX -mig 1 && nvidia-smi mig -i INDEX -cgi"
        f" {found[0].removeprefix('MIG ')} -C"
    )
    return (Step(text, cut if is_sliced else ""),)


def smaller(
    model: str, total_bytes: float | None, peak_ratio: float | None, *, mig_profile: str = ""
) -> tuple[str, ...]:
    """The smallest MIG slice of this GPU and the smallest other GPU whose memory is HEADROOM times
    the peak.

    Of a MIG instance the slices are its parent's, smaller than itself.
    """
    if not total_bytes or peak_ratio is None:
        return ()
    need, total = HEADROOM * peak_ratio * total_bytes / GIB, total_bytes / GIB
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
    return tuple(found for found in (mig, other) if found)


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


_STEPS: dict[str, Callable[[Facts], tuple[Step, ...]]] = {
    "idle_held": _session,
    "data_starved": _loader,
    "small_batch": lambda facts: (*_larger_batch(facts), *_smaller_gpu(facts)),
    "oversized_gpu": _smaller_gpu,
    "bursty_service": _smaller_gpu,
    "straggler": _other_node,
    "partial_idle": _fewer_gpus,
    "orphaned": _orphans,
}
