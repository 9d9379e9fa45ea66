"""The GPU waits for its input: short regular pauses, or a loader that takes all the job's cores."""

from collections.abc import Sequence

import numpy as np

from fleetwatch.diagnosis.cause import FASTER, HOURS, TORCH_PROFILER, Cause, Facts, Step
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import (
    HIGH,
    MEDIUM,
    Detector,
    Judged,
    Levels,
    Sign,
    all_met,
    any_met,
    at_least,
    below,
    judged,
    less_sure,
)
from fleetwatch.diagnosis.shell import word
from fleetwatch.diagnosis.sizing import WORKERS_HERE, workers_per_gpu
from fleetwatch.ledger.judgement.observations import Mask

UTIL = 0.85
USED = 0.02  # below it is idle
PAUSES = 0.10
CYCLE_S = 60.0
VARIATION = 0.6
DIPS = 2.0  # per minute
CORES = 0.85  # of the job's cores in use
LONG_PAUSES = 0.25  # share of time; more is something else than a loop that waits for input
READS = 0.2  # share of time in which something waits for the disk
ONE_THREAD = 0.95
RHYTHM = frozenset({"lo", "cyc_s", "dips_per_min"})

# what its steps are about: of full cores more workers are no help
WORKERS = ("workers",)
CORES_TOPIC = ("workers", "cores")
DISK = ("disk",)


def find(f: Features) -> Judged:
    """By the rhythm of the pauses, which needs the driver's samples, or by the job's cores, which
    needs the host's.
    """
    busy = below(f, "util", UTIL)
    rhythm = _rhythm(f)
    evenness = (below(f, "cyc_cv", VARIATION), below(f, "dips_cv", VARIATION))
    cores = at_least(f, "cpu", CORES)
    calm = below(f, "long_frac", LONG_PAUSES)
    reasons = (cores, at_least(f, "iop", READS), at_least(f, "main1", ONE_THREAD))
    # of a service even pauses are waiting for requests: then only its full cores say that it waits
    # for its input
    by_rhythm = all_met(rhythm) & _is_even(*evenness) & ~f.lanes.serves
    return judged(
        (busy, *rhythm),
        confidence=_sure(f, by_rhythm, reasons),
        hits=busy.met & (by_rhythm | (cores.met & calm.met)),
        recoverable=(0.4 * f["waits"], 0.9 * f["waits"]),
        strengthens=(*evenness, *reasons, calm),
        possible=busy.met & _is_unknown(f),
    )


def _rhythm(f: Features) -> tuple[Sign, ...]:
    return (
        at_least(f, "lo", PAUSES),
        below(f, "cyc_s", CYCLE_S),
        at_least(f, "dips_per_min", DIPS),
    )


def _is_even(cycles: Sign, windows: Sign) -> Mask:
    """A cycle too long for several in one window has no variation of its own: then that of windows
    among each other.
    """
    return cycles.met | (np.isnan(cycles.values) & windows.met)


def _sure(f: Features, by_rhythm: Mask, reasons: Sequence[Sign]) -> Levels:
    """Where nobody read what is copied to the GPU, the pauses may as well be copies. Full cores
    alone do not say that it waits for them: too little work per step looks the same.
    """
    by_pauses = np.where(any_met(reasons), HIGH, less_sure(MEDIUM, ~f.has("rx")))
    return np.where(by_rhythm, by_pauses, MEDIUM)


def _is_unknown(f: Features) -> Mask:
    """Without the driver's samples nobody sees a rhythm, without the host's facts nobody sees its
    cores.
    """
    return at_least(f, "util", USED).met & ~f.lanes.serves & ~f.has("lo", "cpu")


def loader(facts: Facts) -> tuple[Step, ...]:
    """What is short, by the signs that are met: cores, the disk, or loaders."""
    if "cpu" in facts.met:
        return (_more_cores(facts),)
    if "iop" in facts.met:
        why = (
            "Processes wait for the disk: copy the data to local NVMe (rsync to $TMPDIR) before the"
            " first epoch, in shards of 100 MB and more."
        )
        return (Step(why, topics=DISK),)
    gpus = facts.gpus_on_node
    workers = workers_per_gpu(facts.cores, gpus)
    if workers is None:
        return ()
    only = ""
    if "main1" in facts.met:
        only = "One thread is full while the other cores rest, as with num_workers=0. "
    return (
        Step(
            f"{only}With {_cores_there(facts)}, {workers} worker{'s' * (workers > 1)} per GPU.",
            f"DataLoader(..., num_workers={workers}, persistent_workers=True, prefetch_factor=4,"
            " pin_memory=True)",
            WORKERS,
        ),
    )


def _more_cores(facts: Facts) -> Step:
    full = f"Its {_cores_there(facts)} are full" if facts.cores else "Its cores are full"
    asked, there, detail = _request(facts)
    why = (
        f"{full}: more workers alone won't help. Ask for more cores{asked}, prepare the data once"
        " and store it, or move decoding and augmentation to the GPU (DALI, nvJPEG, kornia)."
    )
    return Step(why, there, CORES_TOPIC, detail=detail)


def _cores_there(facts: Facts) -> str:
    """The job's cores beside the GPUs that they feed: "16 cores for 2 GPUs"."""
    gpus = facts.gpus_on_node
    node = " of a node" * (facts.gpus > gpus)
    return f"{facts.cores:.0f} cores for {gpus} GPU{'s' * (gpus > 1)}{node}"


def _request(facts: Facts) -> tuple[str, str, str]:
    """By which setting it asks for cores, with those that it has now; what lists its node's, which
    nobody reads ("" = its node is not known); and how many these allow.
    """
    node = word(facts.place.node) if facts.place.node else ""
    if facts.cores and facts.place.scheduler == "kubernetes":
        asked = f" (requests.cpu, now {facts.cores:.0f})"
        listing = node and f"kubectl describe node {node}"
        return asked, listing, "At most what its node says is Allocatable."
    if facts.cores and facts.place.scheduler == "slurm":
        # by GPU: nobody read into how many tasks the job is split
        now = f"{facts.cores / facts.gpus_on_node:.0f}"
        listing = node and f"scontrol show node {node}"
        return f" (--cpus-per-gpu, now {now})", listing, _most_cores(facts.node_gpus)
    return ", as far as its node has them", "", ""


def _most_cores(node_gpus: int | None) -> str:
    """How many cores a GPU's share of its node is; nobody reads how many the node has."""
    by = f"the node's {node_gpus} GPUs" if node_gpus else "the number of its GPUs"
    return f"At most the node's cores (CPUTot, as scontrol lists it) divided by {by}."


def _told_by(facts: Facts) -> str:
    """Full cores alone decide too: then nobody saw a rhythm of pauses."""
    if "cpu" not in facts.met or facts.met >= RHYTHM:
        return ""
    busy = "not" if facts.util is None else f"{facts.util:.0%} busy".replace("%", " %")
    return f"The job's CPU cores are full while the GPU is {busy}: it probably waits for its data."


CAUSE = Cause(
    code="data_starved",
    title="Waits for its input",
    sentence="The GPU works in bursts and waits in between for data to be loaded and prepared.",
    looks=(
        "The sawtooth: short, regular pauses, or all of the job's cores busy while the GPU is not."
    ),
    sensors="utilisation samples; the host's CPU and I/O tell what is short",
    fixes=(
        Step(
            "While cores rest: load in parallel and ahead of time.",
            f"DataLoader(..., num_workers={WORKERS_HERE}, persistent_workers=True,"
            " prefetch_factor=4, pin_memory=True)",
            WORKERS,
        ),
        Step(
            "If the cores are full: ask for more, prepare the data once and store it, or decode"
            " on the GPU (DALI, nvJPEG, kornia).",
            topics=CORES_TOPIC,
            sign="cpu",
        ),
        Step(
            "If the disk is slow: stage the data on local NVMe, pack it into shards"
            " (WebDataset, MDS), read it in large pieces.",
            topics=DISK,
            sign="iop",
        ),
    ),
    effort=HOURS,
    range_words=FASTER,
    alike="Python in the loop (logging, .item(), metrics, a tokeniser) keeps a GPU waiting too.",
    tell=(
        Step("Time it with data made up on the GPU: if it is as slow then, it is not the loader."),
        Step("See what the main process does.", "py-spy record --pid PID -d 60 -o profile.svg"),
        Step("See the gaps between steps.", TORCH_PROFILER),
    ),
    detectors=(Detector(find),),
    steps=loader,
    needs_numbers=True,
    told_by=_told_by,
)
