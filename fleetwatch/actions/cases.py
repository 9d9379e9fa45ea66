"""Incidents of a policy as its ladder sees them, read anew before each step."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from django.db.models import Count, Sum

from fleetwatch.actions.action_policies import is_dry_run
from fleetwatch.actions.awake import awake_for
from fleetwatch.actions.decision import (
    Course,
    Decision,
    JobStanding,
    LastHour,
    Limits,
    Standing,
    Step,
    first_of,
    next_step,
    refusals,
)
from fleetwatch.actions.models import Action, Policy
from fleetwatch.alerts import matchers
from fleetwatch.alerts.breach import Breach, stored_breach
from fleetwatch.alerts.incidents.muted_incidents import mute_reasons
from fleetwatch.alerts.messaging.address_book import AddressBook, Person, read_address_book
from fleetwatch.alerts.messaging.notifications import habits_of
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.weekly_hours import Hours
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import to_ms
from fleetwatch.notify.models import Delivery

HOUR = timedelta(hours=1)
# what agents can end (agent/actions/stopping.py); a webhook ends what it can
SCHEDULERS = ("slurm", "docker", "podman", "process")
OTHER_SCHEDULERS = ("kubernetes",)
State = Action.State
WAITING = (State.WARNED, State.WARNED_AGAIN)
ACTED = (State.ORDERED, State.DONE, State.REFUSED, State.UNHEARD, State.WOULD)
DRY_RUN_OVER = "the dry run is over"
DRY_RUN_AGAIN = "it is a dry run again"
OTHERS = "its owner is not the one who was warned"
ASKED = "its node's agent was asked, and has not answered yet"
UNWATCHED = "its rule does not watch it any more"
NO_WEBHOOK = "its webhook is switched off"


@dataclass(frozen=True, slots=True)
class Case:
    """An incident with what is to be done about it; `ladder` None: none goes on. `job` None: it is
    gone. `person` None: nobody's account holds the job.
    """

    policy: Policy
    incident: Incident
    breach: Breach
    job: Job | None
    person: Person | None
    ladder: Action | None
    decision: Decision
    is_dry_run: bool

    @property
    def gpu_uuids(self) -> list[str]:
        """The GPUs of the job that are idle."""
        return [gpu["uuid"] for gpu in _gpus(self.breach)]


def limits_of(policy: Policy) -> Limits:
    """What the policy allows."""
    reach = SCHEDULERS if policy.kind == Policy.Kind.STOP else SCHEDULERS + OTHER_SCHEDULERS
    return Limits(
        teams=frozenset(team.slug for team in policy.teams.all()),
        job_kinds=frozenset(policy.job_kinds),
        schedulers=frozenset(reach),
        first_wait=timedelta(minutes=policy.first_wait_minutes),
        second_wait=timedelta(minutes=policy.second_wait_minutes),
        max_per_hour=policy.max_per_hour,
        max_usd_per_hour=policy.max_usd_per_hour,
    )


def read_cases(policy: Policy, incidents: Sequence[Incident], now: datetime) -> list[Case]:
    """Each of these incidents of the policy's rule, as it stands at this moment."""
    return list(map(case_reader(policy, incidents, now), incidents))


def case_reader(
    policy: Policy, incidents: Sequence[Incident], now: datetime
) -> Callable[[Incident], Case]:
    """What gives each of these incidents as it stands; what they need is read once for all."""
    return partial(_case, _read_beside(policy, incidents, now))


@dataclass(frozen=True, slots=True)
class _Beside:
    """What is read once for several incidents: by incident its id, by job its key."""

    policy: Policy
    now: datetime
    is_dry_run: bool
    limits: Limits
    last_hour: LastHour
    muted: Mapping[int, str]
    book: AddressBook
    jobs: Mapping[str, Job]
    sharing: Mapping[str, int]  # by said_key how many jobs have it
    kept: frozenset[tuple[str, int]]
    ladders: Mapping[int, Sequence[Action]]

    def is_only_one(self, job: Job | None) -> bool:
        """Whether its scheduler's id means this job, and no other has its key."""
        return job is not None and bool(job.external_id) and self.sharing[job.said_key] == 1

    def ladder(self, incident: Incident) -> Action | None:
        """The one that goes on."""
        going_on = (each for each in self.ladders.get(incident.pk, ()) if each.ended_at is None)
        return next(going_on, None)


def _read_beside(policy: Policy, incidents: Sequence[Incident], now: datetime) -> _Beside:
    dry = is_dry_run(policy, now)
    jobs = {
        job.key: job for job in Job.objects.filter(key__in={each.subject for each in incidents})
    }
    names = Job.objects.filter(said_key__in={job.said_key for job in jobs.values()})
    counted = names.values("said_key").annotate(count=Count("pk"))
    kept = Action.objects.filter(subject__in=list(jobs), state=State.KEPT)
    return _Beside(
        policy=policy,
        now=now,
        is_dry_run=dry,
        limits=limits_of(policy),
        last_hour=_last_hour(policy, now, dry),
        muted=mute_reasons(incidents, now),
        book=read_address_book({each.person_id for each in incidents if each.person_id}),
        jobs=jobs,
        sharing={row["said_key"]: row["count"] for row in counted},
        kept=frozenset(kept.values_list("subject", "restarts")),
        ladders=_ladders(policy, incidents),
    )


def _last_hour(policy: Policy, now: datetime, dry: bool) -> LastHour:
    acted = policy.actions.filter(is_dry_run=dry, acted_at__gt=now - HOUR)
    sums = acted.aggregate(count=Count("pk"), usd=Sum("usd_per_hour"))
    return LastHour(sums["count"], sums["usd"] or Decimal(0))


def _ladders(policy: Policy, incidents: Iterable[Incident]) -> dict[int, list[Action]]:
    """Of each incident the policy's, the newest first."""
    rows = policy.actions.filter(incident__in=list(incidents)).order_by("-pk")
    by_incident: dict[int, list[Action]] = defaultdict(list)
    for row in rows.select_related("warning", "second_warning", "person"):
        by_incident[row.incident_id or 0].append(row)
    return by_incident


def _case(beside: _Beside, incident: Incident) -> Case:
    breach = stored_breach(incident.facts)
    person = beside.book.people.get(incident.person_id or 0)
    ladder = beside.ladder(incident)
    quiet = habits_of(person).quiet if person else None
    standing = _standing(beside, incident, breach, quiet)
    course = _course(beside, incident, ladder, quiet)
    return Case(
        policy=beside.policy,
        incident=incident,
        breach=breach,
        job=beside.jobs.get(incident.subject),
        person=person,
        ladder=ladder,
        decision=_of_order(standing, ladder, beside.limits)
        or _changed(beside, incident, ladder)
        or next_step(standing, course, beside.limits, beside.last_hour, now_ms=to_ms(beside.now)),
        is_dry_run=beside.is_dry_run,
    )


def _of_order(standing: Standing, ladder: Action | None, limits: Limits) -> Decision | None:
    """What follows of what was asked for and not answered yet; None where nothing was."""
    if ladder is None or ladder.state != State.ORDERED:
        return None
    never = first_of(refusals(standing, limits))
    return Decision(Step.RECALL, never) if never else Decision(Step.NOTHING, ASKED)


def _changed(beside: _Beside, incident: Incident, ladder: Action | None) -> Decision | None:
    """What follows from the policy's own state; None where the incident decides."""
    if ladder is not None and ladder.is_dry_run != beside.is_dry_run:
        return Decision(Step.END, DRY_RUN_OVER if ladder.is_dry_run else DRY_RUN_AGAIN)
    if ladder is not None and ladder.person_id != incident.person_id:
        return Decision(Step.END, OTHERS)
    channel = beside.policy.channel
    if beside.policy.kind == Policy.Kind.WEBHOOK and (channel is None or not channel.is_enabled):
        return Decision(Step.NOTHING, NO_WEBHOOK)
    return None


def _gpus(breach: Breach) -> Sequence[Mapping[str, Any]]:
    gpus: Sequence[Mapping[str, Any]] = breach.facts.get("gpus", ())
    return gpus


def _standing(beside: _Beside, incident: Incident, breach: Breach, quiet: Hours | None) -> Standing:
    person = beside.book.people.get(incident.person_id or 0)
    return Standing(
        fires=incident.fired_ms is not None and incident.resolved_at is None,
        until_ms=incident.until_ms,
        muted=beside.muted[incident.pk] or _unwatched(incident, breach),
        is_acknowledged=incident.state == Incident.State.ACKNOWLEDGED,
        team=incident.team.slug if incident.team else "",
        usd_per_hour=breach.usd_per_hour,
        is_reached=person is not None and person.place is not None,
        is_quiet=quiet is not None and quiet.hold(beside.now),
        job=_job_standing(beside, incident.subject, breach),
    )


def _unwatched(incident: Incident, breach: Breach) -> str:
    """Why nothing follows from it: what is open stays so when its rule is narrowed."""
    is_watched = matchers.matched(matchers.stored(incident.rule.matchers), breach.labels)
    return "" if is_watched else UNWATCHED


def job_of_breach(breach: Breach) -> JobStanding:
    """The job by what was kept of it with its breach."""
    gpus = _gpus(breach)
    return JobStanding(
        kind=breach.label("kind"),
        scheduler=breach.label("scheduler"),
        nodes=len({gpu["node"] for gpu in gpus}),
        idle_gpus=len(gpus),
        held_gpus=breach.facts.get("job_gpus", 0),
        reaches_beyond=breach.facts.get("reaches_beyond", True),
        is_only_one=True,
        is_kept=False,
    )


def _job_standing(beside: _Beside, subject: str, breach: Breach) -> JobStanding:
    """Of a job that is gone nothing is true."""
    job = beside.jobs.get(subject)
    return replace(
        job_of_breach(breach),
        kind=job.kind if job else "",
        scheduler=job.scheduler if job else "",
        is_only_one=beside.is_only_one(job),
        is_kept=job is not None and (job.key, job.restarts) in beside.kept,
    )


def _course(
    beside: _Beside, incident: Incident, ladder: Action | None, quiet: Hours | None
) -> Course:
    if ladder is None:
        return Course(rests=_rests(beside, incident))

    def heard(warned_at: datetime | None, delivery: Delivery | None) -> timedelta | None:
        at = warned_at if ladder.is_dry_run else _delivered_at(delivery)
        return None if at is None else awake_for(quiet, at, beside.now)

    return Course(
        has_begun=True,
        heard=heard(ladder.began_at, ladder.warning),
        is_warned_again=ladder.warned_again_at is not None,
        heard_again=heard(ladder.warned_again_at, ladder.second_warning),
    )


def _delivered_at(delivery: Delivery | None) -> datetime | None:
    """When the other side took it; None: it did not."""
    is_sent = delivery is not None and delivery.state == Delivery.State.SENT
    return delivery.sent_at if delivery is not None and is_sent else None


def _rests(beside: _Beside, incident: Incident) -> str:
    """Why no ladder begins after those that were; "" where one may."""
    past = [
        each for each in beside.ladders.get(incident.pk, ()) if each.is_dry_run == beside.is_dry_run
    ]
    if any(each.state in ACTED for each in past):
        return "it was acted on already"
    ends = [each.ended_at for each in past if each.ended_at is not None]
    if ends and beside.now < max(ends) + beside.limits.first_wait:
        return "a ladder about it ended shortly before"
    return ""
