"""From the text of /proc/<pid>/cgroup to whom the process belongs: a scheduler's job, a container,
a VM, a unit.

Never by a bare hex string: it may be anything. Only root and the runtimes make groups outside of
user.slice, so what is found there is no claim of the user's; inside it, where systemd lets users
make groups of any name, no scheduler's job is believed.
"""

import re
from dataclasses import dataclass, field
from typing import List, Match, Optional, Pattern, Sequence, Set, Tuple

MAX_BYTES = 16 * 1024  # of the text; v1 with every controller and deep containers stays below 4 KiB
# cgroup v1 names a path per controller; these are the ones that every job and container gets.
V1_CONTROLLERS = frozenset(("devices", "memory", "cpu", "pids"))
# of a runtime that did not sign it: only books that know the id make something of it
CONTAINER = "container"

Patterns = Sequence[Tuple[str, Pattern[str]]]  # by the kind of owner
# (controllers, path) of each line; the controllers of v2 are {""}
Entries = Sequence[Tuple[Set[str], str]]


@dataclass(frozen=True)
class Owner:
    """To whom a control group belongs.

    `kind` is slurm, torque, pbs, lsf, kubernetes, docker, podman, containerd, lxc, libvirt, systemd
    or container; `id` the job's id (Slurm >= 26.05: its SLUID), the pod's uid, the container's 64
    digits, the VM's or the unit's name. `user_id` is whose slice it lies in. `path` is the group of
    the whole job, in the hierarchy the text speaks of.
    """

    kind: str
    id: str
    container: str = ""
    user_id: Optional[int] = None
    path: str = field(default="", compare=False)


def alias(container: str, user_id: Optional[int]) -> str:
    """What books call a container: one of a user's own engine is not the one of the same digits
    that root's engine runs.
    """
    return container if user_id is None else "%s@%d" % (container, user_id)


_HEX = r"([0-9a-f]{64})(?=[./:]|$)"
# 32: static pods
_POD = r"([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})"
# Books of a batch system; their processes may run containers inside the job (pyxis, enroot,
# apptainer).
_BATCH: Patterns = (
    # v2, also several slurmd on one node
    ("slurm", re.compile(r"/(?:[^/]+_)?slurmstepd\.scope/job_(\d+)(?=/|$)")),
    # Slurm >= 26.05: the SLUID
    ("slurm", re.compile(r"/(?:[^/]+_)?slurmstepd\.scope/(s[0-9A-HJKMNP-TV-Z]{13})(?=/|$)")),
    ("slurm", re.compile(r"/slurm(?:_[^/]+)?/uid_\d+/job_(\d+)(?=/|$)")),  # v1
    ("torque", re.compile(r"/torque/(\d[^/]*)(?=/|$)")),
    ("pbs", re.compile(r"/pbs(?:_jobs|pro)?\.service/jobid/(\d[^/]*)(?=/|$)")),
    ("lsf", re.compile(r"/lsf/[^/]+/job\.(\d+)\.[^/]+(?=/|$)")),
)
# systemd and cgroupfs drivers
_KUBERNETES = (("kubernetes", re.compile(r"(?<=[/-])pod" + _POD + r"(?:\.slice)?(?=[/:]|$)")),)
# One inside another: the innermost counts.
_CONTAINERS: Patterns = (
    ("docker", re.compile(r"/(?:docker[-/]|ecs/(?:[^/]+/){1,2})" + _HEX)),
    ("podman", re.compile(r"/libpod-(?:payload-)?" + _HEX)),
    ("containerd", re.compile(r"/nerdctl-" + _HEX)),
    ("lxc", re.compile(r"/lxc(?:/|\.payload[./])([^/]+)(?=/|$)")),
    ("lxc", re.compile(r"/machine-lxc\\x2d\d+\\x2d([^/]+)\.scope(?=/|$)")),
    ("libvirt", re.compile(r"/machine-qemu\\x2d\d+\\x2d([^/]+)\.scope(?=/|$)")),
    ("libvirt", re.compile(r"/machine/qemu-\d+-([^/]+)\.libvirt-qemu(?=/|$)")),
)
# not the user's manager, which all his units lie in
_UNIT = re.compile(
    r"/((?!user@\d+\.service(?:/|$))[^/]+\.service|(?:session|run)-[^/]+\.scope)(?=/|$)"
)
_USER_SLICE = re.compile(r"/user-(\d+)\.slice(?=/|$)")
_NAMELESS = re.compile(r"/(?:\.\./)?([0-9a-f]{64})")
_IN_POD = re.compile(r"[/:-]" + _HEX)
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")


def owner_of(text: str) -> Optional[Owner]:
    """The owner named in the text of /proc/<pid>/cgroup, v1 or v2; None for a process of the host
    itself.

    Batch systems before pods, pods before containers, containers before units. Paths may be
    relative to another cgroup namespace (`/../../kubepods/…`).
    """
    lines = [line.strip().split(":", 2) for line in text[:MAX_BYTES].splitlines()]
    entries = [(set(line[1].split(",")), line[2]) for line in lines if len(line) == 3]
    paths = _ordered(entries)
    shared = [path for path in paths if "/user.slice/" not in path]
    return (
        _first(_BATCH, shared)
        or _first(_KUBERNETES, shared)
        or _first(_CONTAINERS, paths)
        or _nameless(entries)
        or _unit(paths)
    )


def _ordered(entries: Entries) -> List[str]:
    """The paths to look at: that of v2, then those of the controllers that count, then the
    others.
    """
    first = [path for controllers, path in entries if controllers == {""}]
    counted = [path for controllers, path in entries if controllers & V1_CONTROLLERS]
    return list(dict.fromkeys(first + counted + [path for _, path in entries]))


def _first(patterns: Patterns, paths: Sequence[str]) -> Optional[Owner]:
    """By the innermost match in the first path that has any."""
    for path in paths:
        matches = [(kind, match) for kind, pattern in patterns for match in pattern.finditer(path)]
        if matches:
            return _owner(*max(matches, key=lambda pair: pair[1].end()))
    return None


def _owner(kind: str, match: Match[str]) -> Owner:
    path = match.string
    identity = match.group(1)
    # with the rest of the directory's name
    whole = path[: match.end()] + path[match.end() :].split("/", 1)[0]
    if kind == "kubernetes":
        inner = _IN_POD.search(path, match.end())
        return Owner(
            kind,
            identity.replace("_", "-"),
            inner.group(1) if inner is not None else "",
            path=whole,
        )
    container = identity if kind in ("docker", "podman", "containerd") else ""
    return Owner(kind, _unescaped(identity), container, _user_id(path), whole)


def _nameless(entries: Entries) -> Optional[Owner]:
    """A container whose path is nothing but its id: in every hierarchy of v1 that has one, or
    beside our own group.

    One such path alone may have been made by anybody, for anything.
    """
    inner = [path for _, path in entries if path != "/"]
    match = _NAMELESS.fullmatch(inner[0]) if inner and len(set(inner)) == 1 else None
    if match is None or (len(inner) == 1 and not match.string.startswith("/../")):
        return None
    return Owner(CONTAINER, match.group(1), match.group(1), path=match.string)


def _unit(paths: Sequence[str]) -> Optional[Owner]:
    """The innermost service or session of systemd; that of a user carries his number in its id."""
    for path in paths:
        matches = list(_UNIT.finditer(path))
        user_id = _user_id(path)
        if matches:
            unit = _unescaped(matches[-1].group(1))
            name = (
                "user-%d-%s" % (user_id, unit)
                if user_id is not None and unit.endswith(".service")
                else unit
            )
            return Owner("systemd", name, user_id=user_id, path=path[: matches[-1].end()])
        if user_id is not None:
            return Owner("systemd", "user-%d.slice" % user_id, user_id=user_id)
    return None


def _user_id(path: str) -> Optional[int]:
    match = _USER_SLICE.search(path)
    return int(match.group(1)) if match is not None and len(match.group(1)) <= 10 else None


def _unescaped(name: str) -> str:
    """systemd writes what a unit's name can't hold as \\x and two digits; what is no text stays as
    it is.
    """
    return _ESCAPE.sub(
        lambda match: (
            chr(int(match.group(1), 16)) if "20" < match.group(1) < "7f" else match.group(0)
        ),
        name,
    )
