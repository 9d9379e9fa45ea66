"""Where Slurm lies on a host."""

# Beside the PATH of a service: packages, sources, Bright, AWS ParallelCluster.
FOLDERS = (
    "/usr/bin", "/usr/local/bin", "/usr/local/slurm/bin", "/opt/slurm/bin",
    "/opt/slurm/current/bin", "/cm/shared/apps/slurm/current/bin",
    "/cm/local/apps/slurm/current/bin",
)  # fmt: skip
