"""What `check` asks of the host itself: the agent's rights, its folder, and who could be asked for
jobs. Reads, and changes nothing.
"""

import os
import shutil
from pathlib import Path
from typing import List

from agent import procfs
from agent.check.report import Finding
from agent.kmsg import Kmsg

INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # include/linux/proc_ns.h: PROC_PID_INIT_INO
LOW_SPACE_BYTES = 1024**3
UNIT = "fleetwatch-agent"
KUBELET = "var/lib/kubelet/pod-resources/kubelet.sock"
DOCKER = "var/run/docker.sock"
_NVIDIA = "0x10de"
_DISPLAYS = ("0x0300", "0x0302")  # PCI vendor; VGA and 3D controllers


def look_at_host(
    spool: Path, *, proc: Path = Path("/proc"), root: Path = Path("/")
) -> List[Finding]:
    """The agent's rights on this host."""
    return [
        _processes(proc),
        _environments(proc),
        _pid_namespace(proc),
        _kernel_log(root),
        _spool(spool),
    ]


def look_for_schedulers(root: Path = Path("/")) -> List[Finding]:
    """Which books could be asked for jobs here, and why not."""
    return [
        _slurm(),
        _socket(
            "kubernetes",
            root / KUBELET,
            "run the agent as root, or as the DaemonSet of deploy/kubernetes",
        ),
        _socket(
            "docker", root / DOCKER, "usermod -aG docker %s, or run the agent by its unit" % UNIT
        ),
    ]


def look_for_driver(root: Path = Path("/")) -> Finding:
    """Why there may be no GPU to read."""
    devices = root / "sys/bus/pci/devices"
    cards = sum(_is_gpu(devices, name) for name in procfs.names(str(devices)))
    version = procfs.text(root, "proc/driver/nvidia/version").split("\n")[0]
    control = root / "dev/nvidiactl"
    if not version and not cards:
        return Finding(
            "driver",
            "no",
            "no NVIDIA GPU on the PCI bus, and no driver is loaded",
            "nothing to watch on this host",
        )
    if not version:
        return Finding(
            "driver",
            "no",
            "%d NVIDIA GPUs on the PCI bus, but no driver is loaded" % cards,
            "install the driver, or modprobe nvidia",
        )
    if not control.exists():
        what = (
            "give a container the GPUs (--gpus all, or the device plugin); a unit must not have"
            " PrivateDevices="
        )
        return Finding("driver", "no", "the driver is loaded, but /dev/nvidiactl is not here", what)
    if not os.access(control, os.R_OK | os.W_OK):
        return Finding(
            "driver",
            "no",
            "the agent may not open /dev/nvidiactl",
            "DeviceAllow=char-nvidia* rw in its unit, or run it as root",
        )
    return Finding(
        "driver",
        "warn",
        version[:80],
        "libnvidia-ml.so.1 or nvidia-smi of this very version must be there: nvidia-smi says more",
    )


def _processes(proc: Path) -> Finding:
    if procfs.text(proc, "1/cgroup"):
        return Finding("processes", "ok", "control groups of all users' processes can be read")
    return Finding(
        "processes",
        "no",
        "processes of other users are hidden (hidepid)",
        "mount /proc with hidepid=0, or run the agent by its unit",
    )


def _environments(proc: Path) -> Finding:
    try:
        with open(proc / "1/environ", "rb") as file:
            file.read(1)
    except OSError:
        what = (
            "AmbientCapabilities=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH, as the shipped unit has them"
        )
        return Finding(
            "job environment",
            "warn",
            "variables of other users' processes can't be read: jobs show no run or notebook names",
            what,
        )
    return Finding(
        "job environment", "ok", "allow-listed variables of all users' processes can be read"
    )


def _pid_namespace(proc: Path) -> Finding:
    try:
        own = os.readlink(proc / "self/ns/pid")
    except OSError:
        return Finding("pid namespace", "-", "this kernel does not say")
    if own == INITIAL_PID_NAMESPACE:
        return Finding("pid namespace", "ok", "the host's: the driver's pids are found")
    return Finding(
        "pid namespace",
        "warn",
        "a container's: the driver's pids are not found here",
        "hostPID: true in Kubernetes, --pid=host in Docker",
    )


def _kernel_log(root: Path) -> Finding:
    log = Kmsg(str(root / "dev/kmsg"))
    log.close()
    if log.why is None:
        return Finding("kernel log", "ok", "XIDs are also read from /dev/kmsg")
    return Finding(
        "kernel log",
        "warn",
        log.why,
        "AmbientCapabilities=CAP_SYSLOG, as the shipped unit has it; without it XIDs come from NVML"
        " alone",
    )


def _spool(folder: Path) -> Finding:
    """Whether batches can be kept while the hub is away; the folder itself may be made at the first
    start.
    """
    there = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    is_here = there == folder
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Finding(
            "spool",
            "no",
            "%s%s can't be written" % (folder, "" if is_here else " (in %s)" % there),
            "give --spool a folder that the agent's user may write, or run it as root",
        )
    free = shutil.disk_usage(there).free
    return Finding(
        "spool",
        "ok" if free >= LOW_SPACE_BYTES else "warn",
        "%s%s, %.1f GB free" % (folder, "" if is_here else " will be made", free / 1e9),
        "free some space, or give --spool another disk",
    )


def _slurm() -> Finding:
    for command in ("scontrol", "squeue"):
        if shutil.which(command):
            return Finding("slurm", "ok", "%s is on PATH" % command)
    return Finding(
        "slurm", "-", "no scontrol or squeue on PATH; on a Slurm node, put them on the unit's PATH"
    )


def _socket(kind: str, path: Path, what: str) -> Finding:
    """A scheduler behind a unix socket; who may not write to it can't ask."""
    try:
        path.stat()
    except PermissionError:
        return Finding(kind, "no", "no permission to look at %s" % path, what)
    except OSError:
        return Finding(kind, "-", "no %s" % path)
    if os.access(path, os.R_OK | os.W_OK):
        return Finding(kind, "ok", "%s can be asked" % path)
    return Finding(kind, "no", "no permission for %s" % path, what)


def _is_gpu(devices: Path, name: str) -> bool:
    kind = procfs.text(devices, name, "class").strip()[:6]
    return procfs.text(devices, name, "vendor").strip() == _NVIDIA and kind in _DISPLAYS
