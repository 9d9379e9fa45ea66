"""The sources of allocations. Pure."""

# Where one of these is ok, a GPU in no allocation is free or orphaned; elsewhere a process is the allocation (docs/wire.md).
SCHEDULERS = ("slurm", "kubernetes", "declared")
DECLARED = "declared"
