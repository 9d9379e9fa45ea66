"""What shows on this host, without a question to the controller, that a job came or went.

Jobs' control groups and the files of the prolog are listed: a few folders, some 0.1 ms. Their times
of change would not do, control groups do not keep them (kernfs).
"""

import os
from dataclasses import dataclass
from typing import FrozenSet, List, Set, Tuple

from agent import procfs
from agent.workloads.slurm.hpc_files import Claim, HPCFiles

NOTED_MS = 300_000  # as long as slurmctld remembers a job that has ended (MinJobAge)
# v1 has them where a plugin constrains or tracks by them
CGROUPS = ("system.slice", "devices", "memory", "freezer", "")

FileTimes = Tuple[Tuple[str, int], ...]  # a file's path, and when it was written


@dataclass(frozen=True)
class Traces:
    """The names of the jobs' control groups, and the prolog's files with the time when each was
    written.
    """

    cgroups: FrozenSet[str] = frozenset()
    files: FileTimes = ()


class Watch:
    """Looks for the traces; what the prolog's files said is kept for some minutes, also when the
    epilog took them away.
    """

    def __init__(self, files: HPCFiles, cgroup_root: str = "/sys/fs/cgroup") -> None:
        self._files = files
        self._cgroup_root = cgroup_root
        self._scopes: List[str] = []
        self._known: FileTimes = ()
        self.noted: Set[Claim] = set()  # what the files say, and said before

    def look(self) -> Traces:
        """The traces as they are."""
        stamps = tuple(self._files.stamps())
        if stamps != self._known:
            self._known = stamps
            newest_ms = max((written_ms for _, written_ms in stamps), default=0)
            self.noted = {
                claim for claim in self.noted if claim.written_ms > newest_ms - NOTED_MS
            } | set(self._files.claims())
        return Traces(self._job_cgroups(), stamps)

    def _job_cgroups(self) -> FrozenSet[str]:
        """The names of the jobs' control groups, of either version: a changed set is a job that
        came or went.

        Slurm's own group, in which they lie, is looked for only while there is none: it stays, and
        hosts have hundreds.
        """
        if not any(os.path.isdir(scope) for scope in self._scopes):
            self._scopes = self._find_scopes()
        groups: Set[str] = set()
        for scope in self._scopes:
            inner = _names(scope)
            if scope.endswith("slurmstepd.scope"):
                groups.update(name for name in inner if name != "system")
            else:
                groups.update(job for user in inner for job in _names(os.path.join(scope, user)))
        return frozenset(groups)

    def _find_scopes(self) -> List[str]:
        """Slurm's groups, one for each slurmd, in the first hierarchy that has any."""
        for folder in CGROUPS:
            path = os.path.join(self._cgroup_root, folder)
            scopes = [
                name
                for name in _names(path)
                if name.endswith("slurmstepd.scope") or name == "slurm" or name.startswith("slurm_")
            ]
            if scopes:
                return [os.path.join(path, name) for name in scopes]
        return []


def _names(path: str) -> List[str]:
    return [folder.name for folder in procfs.folders(path)]
