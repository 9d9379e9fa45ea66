"""The job that a process belongs to: by its control group, else by what it was started with, with
the books' facts.

How sure a name is: the scheduler's books with a control group, the control group alone, the
environment alone (a claim, believed only where it contradicts nothing), the process itself.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Dict, Mapping, Optional, Sequence

from agent.lines import printable
from agent.readings import Holdings, Job
from agent.wire import BOOKED_LABELS
from agent.workloads import environment
from agent.workloads.cgroup import CONTAINER, Owner, alias
from agent.workloads.poller import Answer
from agent.workloads.proc import ProcessFacts

SCHEDULERS = ("slurm", "kubernetes")  # who give out GPUs: beside them nothing else does
ENGINES = ("docker", "podman", "containerd")  # one word on the wire: docker
OF_A_NODE = (*ENGINES, "lxc", "libvirt", "systemd")  # names that mean something on this node only
SHORT_ID = 12  # digits that people know a container by
MAX_ID = 120  # characters; a key that the hub refuses would cost the whole batch
# The variables that name a job, the last of them its own.
_NAMES = {"slurm": ("SLURM_JOB_NAME",), "kubernetes": ("POD_NAMESPACE", "POD_NAME")}
# Services in which other people's work runs: their unit says nothing of whose it is.
HOSTING_UNITS = re.compile(
    r"(?:slurmd|slurmstepd|pbs|pbs_mom|lim|sbatchd|ssh|sshd|ssh@.*|sshd@.*|cron|crond|atd|docker|containerd|crio|podman|kubelet|k3s|"
    r"k3s-agent|rke2-agent|lxc|libvirtd|gdm|lightdm|sddm|display-manager|supervisor|supervisord|screen|tmux|getty@.*)\.service"
)


@dataclass(frozen=True)
class Books:
    """What all schedulers said, by kind: `fresh` of those that answered lately; of the others only
    names are used. `jobs` by key.
    """

    answers: Mapping[str, Answer]
    fresh: Mapping[str, Holdings]
    jobs: Mapping[str, Job]

    def may_hold(self, kind: str, key: str, started_ms: Optional[int]) -> bool:
        """Whether a job may hold what its books do not give it: they can't tell, or its process is
        younger than they are.
        """
        if key in self.fresh[kind].unplaced:
            return True
        seen_ms = self.answers[kind].status.seen_ms or 0
        return key not in self.jobs and started_ms is not None and started_ms >= seen_ms

    def aliases(self, kind: str) -> Mapping[str, str]:
        """What control groups call the kind's jobs -> their keys."""
        return self.answers[kind].known.aliases if kind in self.answers else {}

    @property
    def has_scheduler(self) -> bool:
        """True on a node whose GPUs somebody gives out, whether he answers now or not."""
        return any(kind in SCHEDULERS for kind in self.answers)

    @property
    def pending_gpus(self) -> Optional[int]:
        """GPUs that jobs wait for, of all who tell; None where nobody does."""
        counts = [
            holdings.pending_gpus
            for holdings in self.fresh.values()
            if holdings.pending_gpus is not None
        ]
        return sum(counts) if counts else None

    @property
    def drained(self) -> Optional[str]:
        """As in Holdings, by the first who tells."""
        reasons = (item.drained for item in self.fresh.values() if item.drained is not None)
        return next(reasons, None)


def books_of(answers: Sequence[Answer]) -> Books:
    """The answers as one; where two know a job, the first."""
    return Books(
        {answer.status.kind: answer for answer in answers},
        {answer.status.kind: answer.fresh for answer in answers if answer.fresh is not None},
        {job.key: job for answer in reversed(answers) for job in answer.known.jobs},
    )


class Naming:
    """Keys are scheduler/cluster/id. Remembers what each scheduler calls its cluster."""

    def __init__(self, *, node: str, cluster: str, boot: str) -> None:
        self._node = node
        self._cluster = cluster
        self._boot = boot
        self._clusters: Dict[str, str] = {}  # by scheduler

    def learn(self, books: Books) -> None:
        """The clusters' names, from the jobs in them."""
        jobs = books.jobs.values()
        self._clusters.update((job.scheduler, job.cluster) for job in jobs if job.cluster)

    def job(self, facts: ProcessFacts, books: Books) -> Optional[Job]:
        """The process's job; None for a process that, beside a scheduler, belongs to none of its
        jobs.
        """
        if facts.owner is not None and _is_forged(facts.owner, books):
            facts = replace(facts, owner=None)
        owner = facts.owner
        if owner is not None:
            key = _in_books(owner, books)
            if key is not None:
                return _booked_or_bare(key, owner.kind, owner.id, facts, books)
        named = self._scheduled(facts, books)
        if named is not None or books.has_scheduler:
            return named
        return self._of_this_node(facts)

    def _scheduled(self, facts: ProcessFacts, books: Books) -> Optional[Job]:
        """A job of a batch system or of Kubernetes that its books do not name (they may be silent,
        or there are none).
        """
        owner = facts.owner
        if owner is not None and owner.kind not in (*OF_A_NODE, CONTAINER):
            identity = owner.id
            # the job's number, where its group tells only its SLUID and it was started with both
            if owner.kind == "slurm" and facts.environment.get(environment.SLUID) == identity:
                identity = facts.environment.get("SLURM_JOB_ID") or identity
            return self._known_or_bare(owner.kind, identity, facts, books)
        claim = (
            environment.claimed_job(facts.environment)
            if owner is None or owner.kind == "systemd"
            else None
        )
        if claim is None:
            return None
        job = self._known_or_bare(*claim, facts, books)
        # not one that the books don't know, or know as another user's
        is_unknown = claim[0] in books.fresh and job.key not in books.jobs
        return None if is_unknown or job.user not in ("", facts.user) else job

    def _known_or_bare(self, kind: str, identity: str, facts: ProcessFacts, books: Books) -> Job:
        cluster = self._clusters.get(kind) or self._cluster or "default"
        key = books.aliases(kind).get(identity, "%s/%s/%s" % (kind, cluster, _clean(identity)))
        return _booked_or_bare(key, kind, identity, facts, books)

    def _of_this_node(self, facts: ProcessFacts) -> Job:
        """The container, VM, service or bare process."""
        owner = facts.owner
        if owner is None or owner.kind == CONTAINER or _is_hosting(owner):
            identity = "%s-%d-%d" % (self._boot, *facts.launcher)
            job = self._local("process", identity, facts.name, facts)
            return replace(job, start_ms=facts.launched_ms)
        if owner.container:
            return self._local(owner.kind, owner.id[:SHORT_ID], owner.id[:SHORT_ID], facts)
        # in his slice a user names a container as he likes, also as root's is named
        is_made_up = owner.kind in ("lxc", "libvirt") and owner.user_id is not None
        identity = "user-%s-%s" % (owner.user_id, owner.id) if is_made_up else owner.id
        return self._local(owner.kind, identity, owner.id, facts)

    def _local(self, kind: str, identity: str, name: str, facts: ProcessFacts) -> Job:
        identity = _clean(identity)
        is_service = kind == "systemd" and identity.endswith(".service")
        return Job(
            "%s/%s/%s" % (kind, self._node, identity),
            kind,
            self._node,
            identity,
            name,
            facts.user,
            kind="service" if is_service else "batch",
            state="RUNNING",
        )


def _booked_or_bare(key: str, kind: str, identity: str, facts: ProcessFacts, books: Books) -> Job:
    """The scheduler's job of that key; all that the process itself says of it where no books do."""
    if key in books.jobs:
        return books.jobs[key]
    names = _NAMES.get(kind, ())
    variables = facts.environment
    name = "/".join(variables[word] for word in names if word in variables)
    if not names or names[-1] not in variables:
        name = identity
    account = variables.get("SLURM_JOB_ACCOUNT", "") if kind == "slurm" else ""
    cluster = key.split("/", 2)[1] if key.count("/") >= 2 else ""
    return Job(key, kind, cluster, identity, name, facts.user, account, state="RUNNING")


@dataclass(frozen=True)
class Hints:
    """What a job's processes show of it, by the first of them that shows anything."""

    kind: Optional[str] = None
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def and_of(self, facts: ProcessFacts) -> "Hints":
        """With what another process shows."""
        return Hints(
            self.kind or facts.kind,
            self.user or facts.user,
            self.labels or environment.labels(facts.environment),
        )


def with_hints(job: Job, hints: Hints) -> Job:
    """The job with a kind where its books say none, labels that they do not have, and a container's
    user.
    """
    is_settled = (
        job.kind != "batch"
        or "fleetwatch.kind" in job.labels
        # a job of several nodes must be called the same by all of them, and a server may run on one
        or (job.scheduler == "slurm" and hints.kind == "service")
    )
    kind = job.kind if is_settled else hints.kind or job.kind
    # in a pod everybody is root
    user = job.user or (hints.user if job.scheduler in OF_A_NODE else "")
    missing = {
        name: value
        for name, value in hints.labels.items()
        if name not in job.labels and BOOKED_LABELS.get(name) not in job.labels
    }
    if not missing and (kind, user) == (job.kind, job.user):
        return job  # as most are
    return replace(job, kind=kind, user=user, labels={**job.labels, **missing})


def _clean(identity: str) -> str:
    """Users name containers, VMs and units as they like: without what would end or spoil a key."""
    return re.sub("[/ ]", "_", printable(identity[:MAX_ID], "_"))


def _in_books(owner: Owner, books: Books) -> Optional[str]:
    """The key that the books give to what the control group names."""
    names = [owner.id, owner.container, owner.container[:SHORT_ID]]
    if owner.container and owner.user_id is not None:
        names = [alias(owner.container, owner.user_id)]
    kinds = [owner.kind, "docker"] if owner.kind == "podman" else [owner.kind]
    for kind in books.answers if owner.kind == CONTAINER else kinds:
        aliases = books.aliases(kind)
        for name in names:
            if name in aliases:
                return aliases[name]
    return None


def _is_forged(owner: Owner, books: Books) -> bool:
    """True for a user's own control group that bears the name of a container which root's engine
    runs.
    """
    is_users = bool(owner.container) and owner.user_id is not None
    return is_users and any(owner.container in books.aliases(kind) for kind in books.answers)


def _is_hosting(owner: Owner) -> bool:
    """True for a session, and for a service that only hosts what others start: neither is a job."""
    if owner.kind != "systemd":
        return False
    unit = owner.id.split("-", 2)[-1] if owner.user_id is not None else owner.id
    return (
        owner.id.startswith("session-")
        or owner.id.endswith(".slice")
        or HOSTING_UNITS.fullmatch(unit) is not None
    )
