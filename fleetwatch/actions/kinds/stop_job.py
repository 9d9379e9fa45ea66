"""An idle job is ended: its owner is warned, and may keep this run of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.db.models import Count

from fleetwatch.accounts.names.holders import Holder, people
from fleetwatch.actions.kind import Kind, Place, Reader, Subject, Words
from fleetwatch.actions.models import Action, Policy
from fleetwatch.alerts.back_test import Trial
from fleetwatch.alerts.breach import Breach, named
from fleetwatch.alerts.conditions import job_idle
from fleetwatch.alerts.messaging.address_book import AddressBook, Person
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.jobs.models import Job
from fleetwatch.notify.message import one_line

# what agents can end (agent/actions/stopping.py); a webhook ends what it can
SCHEDULERS = ("slurm", "kubernetes", "docker", "podman", "process")
# what agents can end a pod of (agent/actions/ending_pods.py); others start it anew
POD_OWNERS = ("", "Job", "ReplicaSet", "StatefulSet")
REASON = "idle, its owner was warned twice: FleetWatch incident {}"
NOBODY = "its owner can't be warned"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStanding:
    """The job of an incident: `held_gpus` are all that its scheduler gave it, as far as is known.
    `is_only_one`: no other job has its name. `is_kept`: somebody asked that this run of it goes on.
    `pod_owner` is the kind of what starts a pod, "" of what is none, or has none.
    """

    team: str
    kind: str
    scheduler: str
    pod_owner: str
    nodes: int
    idle_gpus: int
    held_gpus: int
    reaches_beyond: bool
    is_only_one: bool
    is_kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Whose jobs a policy is about: only of these teams (slugs), job kinds and schedulers, of none
    where none is named; of pods those with such owners, None: with any.
    """

    teams: frozenset[str]
    job_kinds: frozenset[str]
    schedulers: frozenset[str]
    pod_owners: frozenset[str] | None = None


def refusals(job: JobStanding, allowed: Allowed) -> tuple[str, ...]:
    """Why the job is not ended, in the order in which it counts; "" where one does not hold."""
    is_endable = allowed.pod_owners is None or job.pod_owner in allowed.pod_owners
    is_whole = job.idle_gpus == job.held_gpus and not job.reaches_beyond
    return (
        "somebody asked to keep it" if job.is_kept else "",
        "" if job.team in allowed.teams else "its team is not on the policy's list",
        "" if job.kind in allowed.job_kinds else "jobs of its kind are not on the list",
        "" if job.scheduler in allowed.schedulers else "no agent can end such a job",
        "" if is_endable else f"its {job.pod_owner} would start another pod in its place",
        "" if job.nodes == 1 else "it is on several nodes",
        "" if is_whole else "it holds more GPUs than are known to be idle",
        "" if job.is_only_one else "several jobs share its name",
    )


@dataclass(frozen=True, slots=True)
class _Books:
    """What is known of the jobs of several incidents."""

    jobs: Mapping[str, Job]  # by key
    sharing: Mapping[str, int]  # by said_key how many jobs have it
    kept: frozenset[tuple[str, int]]

    def standing(self, incident: Incident, breach: Breach) -> JobStanding:
        """Of a job that is gone nothing is true."""
        job = self.jobs.get(incident.subject)
        return replace(
            _by_breach(breach),
            team=incident.team.slug if incident.team else "",
            kind=job.kind if job else "",
            scheduler=job.scheduler if job else "",
            # its scheduler's id means this job, and no other has its key
            is_only_one=job is not None
            and bool(job.external_id)
            and self.sharing[job.said_key] == 1,
            is_kept=job is not None and (job.key, job.restarts) in self.kept,
        )


def _read(policy: Policy, incidents: Sequence[Incident]) -> Reader:
    books = _read_books({incident.subject for incident in incidents})
    return partial(_now, books, _allowed(policy))


def _now(books: _Books, allowed: Allowed, incident: Incident, breach: Breach) -> Subject:
    return _subject(
        breach,
        refusals(books.standing(incident, breach), allowed),
        books.jobs.get(incident.subject),
        reason=REASON.format(incident.pk),
    )


def _read_books(keys: Iterable[str]) -> _Books:
    jobs = {job.key: job for job in Job.objects.filter(key__in=keys)}
    names = Job.objects.filter(said_key__in={job.said_key for job in jobs.values()})
    counted = names.values("said_key").annotate(count=Count("pk"))
    kept = Action.objects.filter(subject__in=list(jobs), state=Action.State.KEPT)
    return _Books(
        jobs=jobs,
        sharing={row["said_key"]: row["count"] for row in counted},
        kept=frozenset(kept.values_list("subject", "restarts")),
    )


def _read_past(policy: Policy, trials: Sequence[Trial]) -> list[Subject]:
    """By what was kept of each job with its breach, and whether its holder has an account."""
    allowed = _allowed(policy)
    reached = people({_holder(trial.breach) for trial in trials if trial.breach.label("user")})
    return [
        _subject(
            trial.breach,
            (
                *refusals(_by_breach(trial.breach), allowed),
                "" if _holder(trial.breach) in reached else NOBODY,
            ),
        )
        for trial in trials
    ]


def _allowed(policy: Policy) -> Allowed:
    is_ours = policy.kind == Policy.Kind.STOP
    return Allowed(
        teams=frozenset(team.slug for team in policy.teams.all()),
        job_kinds=frozenset(policy.job_kinds),
        schedulers=frozenset(SCHEDULERS),
        pod_owners=frozenset(POD_OWNERS) if is_ours else None,
    )


def _holder(breach: Breach) -> Holder:
    """Who holds the job, as its scheduler names him."""
    return Holder(breach.label("scheduler"), breach.label("cluster"), breach.label("user"))


def _gpus(breach: Breach) -> Sequence[Mapping[str, Any]]:
    gpus: Sequence[Mapping[str, Any]] = breach.facts.get("gpus", ())
    return gpus


def _pod_owner(breach: Breach) -> str:
    """As its agent tells of it: "PyTorchJob/llama"."""
    is_pod = breach.label("scheduler") == "kubernetes"
    return one_line(breach.label("label.owner").partition("/")[0], 60) if is_pod else ""


def _by_breach(breach: Breach) -> JobStanding:
    """The job by what was kept of it with its breach."""
    gpus = _gpus(breach)
    return JobStanding(
        team=breach.label("team"),
        kind=breach.label("kind"),
        scheduler=breach.label("scheduler"),
        pod_owner=_pod_owner(breach),
        nodes=len({gpu["node"] for gpu in gpus}),
        idle_gpus=len(gpus),
        held_gpus=breach.facts.get("job_gpus", 0),
        reaches_beyond=breach.facts.get("reaches_beyond", True),
        is_only_one=True,
        is_kept=False,
    )


def _subject(
    breach: Breach, why: tuple[str, ...], job: Job | None = None, *, reason: str = ""
) -> Subject:
    uuids = tuple(gpu["uuid"] for gpu in _gpus(breach))
    return Subject(
        name=breach.subject,
        about=named(breach.subject, breach.name),
        restarts=job.restarts if job else 0,
        gpu_uuids=uuids,
        gpus=len(uuids),
        usd_per_hour=breach.usd_per_hour,
        refusals=why,
        scheduler=job.scheduler if job else "",
        job=job.external_id if job else "",
        reason=reason,
        identity=("Job id", one_line(str(breach.facts.get("external_id", "")))),
    )


def _places(person: Person | None, _: Rule, __: AddressBook) -> tuple[Place, ...]:
    return (person.place,) if person is not None and person.place is not None else ()


KIND = Kind(
    name=Policy.Kind.STOP,
    conditions=(job_idle.CONDITION.name,),  # the only one that says that all of a job rests
    rules="rules of idle jobs",
    is_of_teams=True,
    words=Words(
        owner="its owner",
        thing="job",
        headline="idle job",
        coming="will be ended",
        deed="ends the job",
        done="ended",
        not_done="not ended",
        order="to end the job",
        lasting="Idle for",
        cost="Burning",
        how=(
            "Nothing is done if you keep it, end it yourself, or if one of its GPUs works again."
            " What is not saved by then is lost."
        ),
        request="end job",
        interrupted="a GPU of the job did something, or was not seen, since its owner was warned",
        never=(
            "a job one of whose GPUs works or is not seen, that is on several nodes, that is"
            " acknowledged, silenced, agreed as not waste or kept, or whose owner can’t be warned"
        ),
        keep="Keep it",
        why_keep="What does it wait for?",
        kept="Kept: nothing is done about this run of the job.",
        spared="not spent",
        whom="nobody: name teams and job kinds",
    ),
    read=_read,
    read_past=_read_past,
    places=_places,
)
