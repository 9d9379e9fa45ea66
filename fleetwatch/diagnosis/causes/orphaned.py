"""Processes, or memory that they left, hold a GPU that no job was given: the ledger says so."""

from fleetwatch.diagnosis.cause import ADMIN, FREED, MINUTES, Cause, Facts, Machine, Step
from fleetwatch.diagnosis.shell import word

ENTRIES = """
SELECT node_id, gpu_id, '', start, 'orphaned', sum(gpu_ms), sum(gpu_ms), sum(gpu_ms)
FROM spent
WHERE state = 'orphaned'
GROUP BY node_id, gpu_id, start
"""
ENDS_WITH_JOB = Step("Let what a job started end with it.", "ProctrackType=proctrack/cgroup")
FREE_AGAIN = Step("A process or memory outside any job held it; that is gone now.", is_over=True)


def orphans(facts: Facts) -> tuple[Step, ...]:
    """Which processes hold the GPUs, where they are known, and how to end them."""
    pids = facts.place.pids
    if not pids or not facts.place.node:
        return ()
    where = f"ssh -- {word(facts.place.node)}"
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


CAUSE = Cause(
    code="orphaned",
    title="Held by no job",
    sentence=(
        "Processes, or memory that they left behind, hold GPUs that no job was given: nobody can"
        " use them."
    ),
    looks=(
        "The scheduler gave the GPU to nobody, and a process or more than 300 MiB of memory is"
        " on it."
    ),
    sensors="the scheduler's word, processes and memory",
    fixes=(
        ENDS_WITH_JOB,
        Step(
            "Memory without a process, or one that can't be killed: reset the GPU when nothing"
            " runs on it.",
            "nvidia-smi --gpu-reset -i INDEX",
        ),
    ),
    effort=MINUTES,
    range_words=FREED,
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
    who=ADMIN,
    steps=orphans,
    when_over=(FREE_AGAIN, ENDS_WITH_JOB),
    machine=Machine(
        curve="GPUs held by no job",
        how="held by processes of no job",
        entries=ENTRIES,
        state="orphaned",
        past="Was held by no job",
        past_sentence=(
            "Processes, or memory that they left behind, held GPUs that no job was given: nobody"
            " could use them."
        ),
        episode="time",
    ),
)
