"""The door to Slurm: whether this host computes for it."""

import importlib
import os
import socket
from typing import List, Optional, Sequence

from agent import procfs
from agent.readings import Scheduler
from agent.workloads.scheduler_door import Place
from agent.workloads.slurm.hpc_files import HPCFiles
from agent.workloads.slurm.places import FOLDERS

SLURMD = "slurmd"


def is_here(
    place: Place, *, files: Optional[HPCFiles] = None, folders: Sequence[str] = FOLDERS
) -> bool:
    """Whether Slurm's daemon runs here, or its prolog writes files here. Its commands alone: a
    login node.

    The commands are looked for on PATH and in the folders.
    """
    # an exporter makes its folder also where nobody fills it
    if (files or HPCFiles()).claims():
        return True
    folders = [*filter(None, os.environ.get("PATH", "").split(os.pathsep)), *folders]
    if not any(os.access(os.path.join(folder, "scontrol"), os.X_OK) for folder in folders):
        return False
    pids = (pid for pid in procfs.names(place.proc_root) if pid.isdigit())
    return any(
        procfs.text(place.proc_root, pid, "comm", limit=64).strip() == SLURMD for pid in pids
    )


def open_scheduler(place: Place) -> Scheduler:
    """Slurm's books of this host."""
    folder = os.environ.get("DCGM_HPC_JOB_MAPPING_DIR")
    client = importlib.import_module("agent.workloads.slurm.client")
    scheduler: Scheduler = client.Slurm(
        node_names(), cluster=place.cluster, files=HPCFiles(dcgm=[folder]) if folder else HPCFiles()
    )
    return scheduler


def node_names() -> List[str]:
    """What Slurm may call this host, the likeliest first."""
    host = socket.gethostname()
    names = (os.environ.get("SLURMD_NODENAME"), host.split(".")[0], host)
    return list(dict.fromkeys(name for name in names if name))
