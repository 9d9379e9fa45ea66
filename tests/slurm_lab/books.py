"""Slurm's accounting of the lab's jobs, and beside it what the hub charged."""

import re
from dataclasses import dataclass

from tests.slurm_lab.lab import Lab
from tests.slurm_lab.site import Site

FORMAT = "JobIDRaw,JobID,State,ElapsedRaw,AllocTRES"


@dataclass(frozen=True)
class Run:
    """One run of a job by sacct."""

    name: str
    state: str
    elapsed_s: int
    gpus: int


@dataclass(frozen=True)
class Row:
    """One job: what Slurm says that it had, all its runs together, and what the hub charged, in
    GPU-seconds.
    """

    number: int
    name: str
    state: str
    gpus: int
    real: int
    charged: float
    hub_state: str


def runs(lab: Lab) -> dict[int, list[Run]]:
    """The runs of every job that had a GPU, by its number; a requeued one has several."""
    found: dict[int, list[Run]] = {}
    for line in lab.run("sacct", "-n", "-P", "-X", "-D", "-a", "-o", FORMAT).stdout.splitlines():
        number, name, state, elapsed, tres = line.split("|")
        gpus = re.search(r"gres/gpu=(\d+)", tres)
        if gpus is not None:
            found.setdefault(int(number), []).append(
                Run(name, state, int(elapsed), int(gpus.group(1)))
            )
    return found


def table(site: Site) -> dict[int, Row]:
    """Every job of the lab that had a GPU, by its number."""
    return {number: _row(site, number, found) for number, found in runs(site.lab).items()}


def _row(site: Site, number: int, found: list[Run]) -> Row:
    last = found[-1]
    real = sum(run.elapsed_s * run.gpus for run in found)
    job = site.job(number)
    charged = 0.0 if job is None else job["capacity_ms"] / 1000
    return Row(
        number,
        last.name,
        last.state,
        last.gpus,
        real,
        charged,
        "not known" if job is None else job["state"],
    )


def printed(rows: dict[int, Row]) -> str:
    """The table for people."""
    lines = [f"{'job':>8} {'state':<14} {'GPUs':>4} {'real':>6} {'charged':>8} {'hub says':<12}"]
    for row in rows.values():
        lines.append(
            f"{row.name:>8} {row.state[:14]:<14} {row.gpus:>4} {row.real:>6} {row.charged:>8.1f}"
            f" {row.hub_state:<12}"
        )
    return "\n".join(lines)


def accounted(lab: Lab) -> bool:
    """Whether accounting has written the end of every job: slurmctld sends it a moment later."""
    states = lab.run("sacct", "-n", "-P", "-X", "-a", "-o", "State").stdout.split()
    return not {"RUNNING", "PENDING"} & set(states)
