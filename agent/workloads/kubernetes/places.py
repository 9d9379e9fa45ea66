"""Where the kubelet leaves what the agent reads."""

from dataclasses import dataclass

SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
LOGS = "/var/log/pods"
CGROUPS = "/sys/fs/cgroup"


@dataclass(frozen=True)
class Paths:
    """The same, as a test may move them."""

    socket: str = SOCKET
    checkpoint: str = CHECKPOINT
    logs: str = LOGS
    cgroups: str = CGROUPS
