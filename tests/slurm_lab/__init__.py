"""Stories beside a real one-node Slurm: `make test-slurm`.

Not part of `make test`, which needs no Slurm and no root.
"""
