"""GPUs that nobody holds while jobs wait for some: capacity.py judges it by the queue's word."""

from fleetwatch.diagnosis.cause import DAYS, Cause, Machine, Step

CAUSE = Cause(
    code="queue_or_scheduler",
    title="Free GPUs while jobs wait",
    sentence="GPUs that nobody holds stand beside a queue of jobs that wait for some.",
    looks=(
        "The ledger calls GPUs free while the scheduler's queue asks for GPUs, for ten minutes and"
        " more."
    ),
    sensors="the scheduler's queue (the agent's Slurm source) and the ledger",
    fixes=(
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
    effort=DAYS,
    range_words=(
        "free capacity that jobs could have used: a line of its own, not a part of what jobs wasted"
    ),
    alike=(
        "How many GPUs the whole queue waits for is known, not what each job asks for together:"
        " single free GPUs may be too few, the wrong model, or in another partition. The lower"
        " end counts nodes that were free altogether."
    ),
    tell=(Step("When would Slurm start them, and where?", "squeue --start -t PD"),),
    who="whoever runs the scheduler",
    machine=Machine(
        curve="GPUs free while jobs waited",
        worth="free time that waiting jobs could have used",
        of_cluster=True,
    ),
)
