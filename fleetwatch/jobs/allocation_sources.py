"""The sources of allocations. Pure."""

# Where one of these is ok, a GPU in no allocation is free or orphaned; elsewhere a process is the
# allocation (docs/wire.md).
SCHEDULERS = ("slurm", "kubernetes", "declared")
DECLARED = "declared"
# Who gives out GPUs takes all of a job's back when it ends. A declared job ends on each GPU when
# its declaration says.
ENDED_WITH_THE_JOB = ("slurm", "kubernetes")
KINDS = (*SCHEDULERS, "docker", "podman", "process")
