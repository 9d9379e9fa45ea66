"""Which pods are on this node, from what the kubelet leaves on its file system: names in
/var/log/pods, lives in cgroups.
"""

import os
import re
from typing import Dict, List, Optional, Set, Tuple

from agent import procfs
from agent.workloads.kubernetes.places import CGROUPS, LOGS

# kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/…-pod<uid>.slice (kind)
MAX_DEPTH = 4
# 32: of a file on the node
_UID = r"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_LOG = re.compile(r"([a-z0-9.-]{1,63})_([a-z0-9.-]{1,253})_(%s)" % _UID)
_POD_GROUP = re.compile(r"(?:.*-)?pod(%s)(?:\.slice)?" % _UID)
_ABOVE_PODS = re.compile(r"(?:kubelet|kubelet\.slice|.*kubepods.*|burstable|besteffort)")
_V1_CONTROLLERS = ("", "memory", "cpu", "cpu,cpuacct", "devices", "pids")  # "": v2

Name = Tuple[str, str]  # namespace, name


def named(root: str = LOGS) -> Dict[str, Name]:
    """Pod uid -> (namespace, name), the newest last; pods that ended not long ago are among
    them.
    """
    pods: List[Tuple[int, str, Name]] = []
    for entry in procfs.entries(root):
        match = _LOG.fullmatch(entry.name)
        if match is not None:
            pods.append(
                (procfs.written_ms(entry), match.group(3), (match.group(1), match.group(2)))
            )
    return {uid: name for _, uid, name in sorted(pods)}


def living(root: str = CGROUPS) -> Optional[Set[str]]:
    """The uids of the pods that have a control group; None where no control group of the kubelet's
    is to be seen.
    """
    for controller in _V1_CONTROLLERS:
        tops = [
            entry.path
            for entry in procfs.entries(os.path.join(root, controller))
            if _is_above_pods(entry) and "kube" in entry.name
        ]
        if tops:
            return {uid for top in tops for uid in _pods_under(top, MAX_DEPTH)}
    return None


def _pods_under(path: str, depth: int) -> Set[str]:
    uids: Set[str] = set()
    for entry in procfs.entries(path) if depth else ():
        match = _POD_GROUP.fullmatch(entry.name)
        if match is not None:
            uids.add(match.group(1).replace("_", "-"))
        elif _is_above_pods(entry):
            uids |= _pods_under(entry.path, depth - 1)
    return uids


def _is_above_pods(entry: "os.DirEntry[str]") -> bool:
    return _ABOVE_PODS.fullmatch(entry.name) is not None and entry.is_dir(follow_symlinks=False)
