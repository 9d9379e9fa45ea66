"""Slurm: detect says whether this host computes for it, client who holds its GPUs."""
