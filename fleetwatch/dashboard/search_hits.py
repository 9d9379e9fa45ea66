"""What a search finds: things by their names, and pages and words by theirs; as far as the reader
may see them.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from difflib import get_close_matches
from functools import reduce
from itertools import islice
from operator import and_, or_
from textwrap import shorten
from typing import Any

from django.db.models import F, Q, QuerySet
from django.urls import resolve, reverse
from django.utils.http import urlencode

from fleetwatch.accounts.models import User
from fleetwatch.accounts.names.holders import holders_of
from fleetwatch.accounts.permissions import may
from fleetwatch.accounts.saved_views import views_of
from fleetwatch.accounts.selectors import zone
from fleetwatch.accounts.visibility import may_open, sight, visible_teams
from fleetwatch.alerts.incidents.incident_inbox import of_owner
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.selectors import breach_of, visible_incidents
from fleetwatch.dashboard import agreed_hits
from fleetwatch.dashboard.glossary import TERMS
from fleetwatch.dashboard.machine_pages import days_in_words, is_heard_since
from fleetwatch.dashboard.search_places import PLACES
from fleetwatch.dashboard.words import NO_WASTE, STOPPED, finding_stands, incident_state
from fleetwatch.diagnosis.causes import BY_CODE, CATALOGUE, SLOWED, title
from fleetwatch.diagnosis.findings.exempt import exemptions
from fleetwatch.diagnosis.findings.ranked_findings import EXEMPT
from fleetwatch.diagnosis.models import Finding
from fleetwatch.inventory import selectors as inventory
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.called_jobs import called, jobs_called, jobs_of_users, users_called
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.outcomes import RUNNING, running_ids, with_outcomes
from fleetwatch.jobs.visible_jobs import visible
from fleetwatch.lib.intervals import from_ms

MIN_CHARACTERS = 2
LONGEST = 100  # characters of what is looked for
# "l40s-05 5": the GPU of that number on a node
MAX_NUMBERED = 10
NEAR = 5  # names that are offered where nothing is called so
NAMES_COMPARED = 1_000  # of each kind: some milliseconds
LIKENESS = 0.6  # from which on a name is near: two letters of eight swapped or wrong
SHORT_UUID = 12  # characters, "GPU-1b7f09c2": its page has all of them
MAIN_PAGES = 10
JOINTS = ("-", "_", ".", "")  # of words in a node's name, where "a100 03" is typed
_BETWEEN = re.compile(r"[\s/:._-]+")
# "12", "#12", "incident 12", the address of its page, or the key that PagerDuty has of its group
_NUMBERED = re.compile(
    r"(?:#|(?:\S*/)?(incident|finding|group)s?[\s/#]+)?(\d{1,9})/?", re.IGNORECASE
)
_GPU_OF_NODE = re.compile(r"(\S+)[ :/#]+(?:gpu\s*)?(\d{1,3})", re.IGNORECASE)


TONES = {"running": "good", "open": "bad", "firing": "bad"}
# of each kind how its things stand that are not over, what is most pressing first; an incident is
# over when it is resolved
CURRENT = {
    "incident": (
        ("firing",),
        (STOPPED, "acknowledged"),
        tuple(map(incident_state, ("pending", "snoozed", "accepted"))),
    ),
    "job": ((), ("running",)),
    "finding": ((), ("open",)),
}
OVER = 3
MAX_WORDS = 5  # of a text, each of which may be somebody's name
MEANING = 90  # characters of what a word means


@dataclass(frozen=True, slots=True)
class Subject:
    """A line of a breakdown of costs, by its key; `pk` of one whose lines are rows."""

    group_by: str
    key: str
    pk: int | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that is called so: what it is, its name, where it lies, a word about it, whose it
    is, how it stands and since when; `subject` is what its GPU time is summed by, None of what has
    none.
    """

    kind: str
    name: str
    address: str
    about: str = ""
    subject: Subject | None = None
    finding_id: int | None = None
    owner: str = ""
    state: str = ""
    when: str = ""
    is_own: bool = False  # a job of the reader's
    usd: Decimal | None = None  # what an incident cost so far
    has_number: bool = False  # that was looked for
    saved_words: str = ""  # what the dollars of a finding are
    has_step: bool = False  # that may save less than these, and was not measured
    is_slowed: bool = False  # a finding of slowed GPUs, which cost what their clock cost besides

    @property
    def words(self) -> str:
        """All that is known of it, in a line."""
        return " · ".join(part for part in (self.about, self.owner, self.state, self.when) if part)

    @property
    def usd_words(self) -> str:
        """What its dollars are of."""
        return "in all" if self.state.startswith("resolved") else "so far"

    @property
    def tone(self) -> str:
        """The colour of how it stands: "good", "bad" or neither."""
        return TONES.get(self.state, "")

    @property
    def standing(self) -> int:
        """How pressing it is: 0 fires, 1 goes on or waits to be decided, 2 is put off, OVER all
        else.
        """
        current = CURRENT.get(self.kind, ())
        return next((at for at, states in enumerate(current) if self.state in states), OVER)

    def is_called(self, text: str) -> bool:
        """Whether that is its whole name, its key or its number, whatever parts its words:
        "a100 03" is node a100-03.
        """
        if self.has_number:
            return True
        names = (self.name, self.subject.key if self.subject else "")
        return _plain(text) in map(_plain, names)


def _plain(text: str) -> str:
    return _BETWEEN.sub(" ", text.lower()).strip()


def hits(text: str, user: User, *, limit: int, now: datetime) -> list[Hit]:
    """At most so many of each kind; for a single character what has that number alone. Of several
    words each is somewhere: in a name, an owner, a cause or a rule.
    """
    wanted = text.strip()[:LONGEST]
    several = list(islice(_numbered(wanted, limit, now), limit))
    if len(wanted) >= MIN_CHARACTERS:
        kinds = _kinds(wanted, user, limit, now)
        several += [hit for kind in kinds for hit in islice(kind, limit)]
    if has_several_words(wanted):
        several += islice(_wasting_jobs(wanted, limit, names_of(user)), limit)
        several += _owners(wanted) if several else ()
    return list({(hit.kind, hit.address): hit for hit in reversed(several)}.values())[::-1]


def has_several_words(text: str) -> bool:
    return len(text.split()) > 1


def _kinds(wanted: str, user: User, limit: int, now: datetime) -> tuple[Iterable[Hit], ...]:
    numbered = _numbered_gpus(wanted)
    return (
        _pages(wanted, user),
        _nodes(wanted, limit),
        (replace(_gpu(gpu), has_number=True) for gpu in numbered),
        _gpus(wanted, limit),
        _teams(wanted, limit),
        _users(wanted, limit),
        _jobs(wanted, limit, names_of(user)),
        _findings(wanted, limit, now),
        _incidents(_of_gpus(numbered) if numbered else _of_words(wanted), limit, now),
        _causes(wanted),
        _views(wanted, user, limit),
        _terms(wanted),
        *_agreed(wanted, user, limit, now),
        _with_ids(agreed_hits.exempt_for(wanted, now), limit, now),
    )


def near(text: str, user: User) -> list[Hit]:
    """What the reader may see whose names are like a text that nothing is called, the likest first:
    pages, nodes, teams, users and the newest jobs.
    """
    wanted = text.strip()[:LONGEST].casefold()
    if len(wanted) < MIN_CHARACTERS:
        return []
    kinds = (
        _pages("", user),
        _nodes("", NAMES_COMPARED),
        _teams("", NAMES_COMPARED),
        _users("", NAMES_COMPARED),
        _jobs("", NAMES_COMPARED),
    )
    by_name: dict[str, Hit] = {}
    for kind in kinds:
        for hit in kind:
            by_name.setdefault(hit.name.casefold()[:LONGEST], hit)
    return [by_name[name] for name in get_close_matches(wanted, by_name, NEAR, LIKENESS)]


def has_word(text: str, within: str) -> bool:
    """Whether a word begins so: "vera" is in no "coverage"."""
    return re.search(rf"(?<![^\W_]){re.escape(text)}", within, re.IGNORECASE) is not None


def main_pages(user: User) -> list[Hit]:
    """The pages that somebody who has not typed anything yet may want to go to."""
    return list(islice(_pages("", user), MAIN_PAGES))


def _pages(text: str, user: User) -> Iterator[Hit]:
    for place in PLACES:
        if not has_word(text, f"{place.title} {place.words}"):
            continue
        address = reverse(place.name)
        is_theirs = place.right is None or may(user, place.right)
        if is_theirs and may_open(user, resolve(address)):
            yield Hit("page", place.title, address)


def _numbered(text: str, limit: int, now: datetime) -> Iterator[Hit]:
    """The incident and the finding of that number; of a group's its incidents, the newest first."""
    named = _NUMBERED.fullmatch(text)
    if named is None:
        return
    kind = (named[1] or "").lower()
    number = int(named[2])
    if kind != "finding":
        of = {"group": number} if kind == "group" else {"pk": number}
        rows = visible_incidents().filter(**of).order_by("-opened_at", "-pk")
        yield from (replace(_incident(each, now), has_number=True) for each in rows[:limit])
    if kind in ("", "finding"):
        rows_of_findings = _visible_findings().filter(pk=number)
        for hit in _as_they_stand(rows_of_findings, now):
            yield replace(hit, has_number=True, about=f"#{number} · {hit.about}")


def _numbered_gpus(text: str) -> list[GPU]:
    """Those of that node and number."""
    named = _GPU_OF_NODE.fullmatch(text)
    if named is None or sight() is not None:
        return []
    rows = GPU.objects.filter(
        node__name__icontains=named[1], index=int(named[2]), parent=None
    ).select_related("node")
    return list(inventory.here(rows).order_by("node__name", "uuid")[:MAX_NUMBERED])


def _gpu(gpu: GPU) -> Hit:
    number = "" if gpu.index is None else f" · GPU {gpu.index}"
    about = " · ".join(part for part in (gpu.model_name, gpu.uuid[:SHORT_UUID]) if part)
    address = reverse("gpu", args=[gpu.uuid])
    return Hit("GPU", f"{gpu.node.name}{number}", address, about, Subject("gpu", gpu.uuid, gpu.pk))


def _nodes(text: str, limit: int) -> Iterator[Hit]:
    called = Q(name__icontains=text)
    for joint in JOINTS:
        called |= Q(name__icontains=joint.join(text.split()))
    rows = Node.objects.filter(called) if sight() is None else Node.objects.none()
    for node in rows.order_by("name")[:limit]:
        address = reverse("node", args=[node.name])
        yield Hit("node", node.name, address, subject=Subject("node", node.name, node.pk))


def _gpus(text: str, limit: int) -> Iterator[Hit]:
    if sight() is None:
        called = (
            Q(uuid__icontains=text) | Q(model_name__icontains=text) | Q(node__name__iexact=text)
        )
        rows = inventory.here(GPU.objects.filter(called | Q(model__name__icontains=text)))
        yield from map(_gpu, rows.select_related("node").order_by("node__name", "index")[:limit])


def _teams(text: str, limit: int) -> Iterator[Hit]:
    rows = visible_teams().filter(Q(slug__icontains=text) | Q(name__icontains=text))
    for team in rows[:limit]:
        about = team.slug if team.name not in ("", team.slug) else ""
        address = reverse("team", args=[team.slug])
        yield Hit("team", team.label, address, about, Subject("team", team.slug))


def _users(text: str, limit: int) -> Iterator[Hit]:
    for user in users_called(text, limit=limit):
        address = f"{reverse('jobs')}?{urlencode({'user': user})}"
        yield Hit("user", user, address, "their jobs", Subject("user", user))


def names_of(user: User) -> frozenset[str]:
    """The names that the reader's own jobs run under."""
    return frozenset(identity.name for identity in holders_of(user))


def own_jobs(user: User, limit: int) -> list[Hit]:
    """The reader's own, those that run first, then the newest."""
    names = names_of(user)
    return list(_of_jobs(jobs_of_users(names, limit=limit), names))


def _jobs(text: str, limit: int, own: Collection[str] = ()) -> Iterator[Hit]:
    """Also those of a user who is called so: who is looked for is found with the newest jobs."""
    return _of_jobs(jobs_called(text, limit=limit, first=own), own)


def _of_jobs(jobs: list[Job], own: Collection[str]) -> Iterator[Hit]:
    for job in with_outcomes(jobs):
        team = job.team.label if job.team else ""
        yield Hit(
            "job",
            job.name or job.key,
            reverse("job", args=[job.key]),
            job.key,
            Subject("job", job.key, job.pk),
            owner=" · ".join(part for part in (job.user, team) if part),
            state="running" if job.state == RUNNING and not job.end_ms else "ended",
            when=_ran(job),
            is_own=job.user in own,
        )


def _ran(job: Job) -> str:
    """When it ran: "since 25 Nov, 06:20", "24 Nov, 22:00 – 25 Nov, 03:00"; "" = nobody told."""
    if job.start_ms is None:
        return ""
    start = from_ms(job.start_ms).astimezone(zone())
    if job.end_ms is None:
        return f"since {_moment(start)}"
    end = from_ms(job.end_ms).astimezone(zone())
    if start.date() == end.date():
        return f"{_moment(start)}–{end:%H:%M}"
    return f"{_moment(start)} – {_moment(end)}"


def _moment(local: datetime) -> str:
    return f"{local:%-d %b, %H:%M}"


def _owners(text: str) -> Iterator[Hit]:
    """Whose whole name one of the words is."""
    for word in text.split()[:MAX_WORDS]:
        yield from (hit for hit in _users(word, MAX_NUMBERED) if hit.name.lower() == word.lower())


def _wasting_jobs(text: str, limit: int, own: Collection[str]) -> Iterator[Hit]:
    """Those that run of which each word is the name, the user, or what is wrong with them."""
    jobs = visible(Job.objects.filter(pk__in=running_ids())).select_related("team")
    for word in text.split():
        jobs = jobs.filter(called(word) | Q(key__in=_open_of(word)) | Q(pk__in=_found_in(word)))
    return _of_jobs(list(jobs.order_by("-start_ms", "key")[:limit]), own)


def _open_of(word: str) -> QuerySet[Incident, Any]:
    """The subjects of open incidents of a rule that is called so."""
    rows = visible_incidents().filter(rule__name__icontains=word)
    return rows.exclude(state=Incident.State.RESOLVED).values("subject")


def _found_in(word: str) -> QuerySet[Finding, Any]:
    """The jobs with an open finding of a cause that is called so."""
    rows = Finding.objects.filter(cause__in=_causes_called(word), status=Finding.Status.OPEN)
    return rows.exclude(job=None).values("job")


def _findings(text: str, limit: int, now: datetime) -> Iterator[Hit]:
    """Those of whose job or node, owner, cause and what people wrote of them each word is."""
    rows = _visible_findings()
    for word in text.split():
        rows = rows.filter(_has_word(word))
    yield from _as_they_stand(rows.order_by("-last_ms", "-pk")[:limit], now)


def _as_they_stand(findings: Iterable[Finding], now: datetime) -> list[Hit]:
    """Each as the inbox has it: what is agreed as not waste has nothing to be saved."""
    every = [*findings]
    open_keys = {
        (each.job_id, each.cause)
        for each in every
        if each.job_id is not None and each.status == Finding.Status.OPEN
    }
    exempt = exemptions(open_keys, now) if open_keys else {}
    return [_finding(each, is_exempt=(each.job_id, each.cause) in exempt) for each in every]


def _visible_findings() -> QuerySet[Finding]:
    rows = Finding.objects.select_related("job", "node")
    return rows if sight() is None else rows.filter(job__in=visible(Job.objects.all()))


def _causes_called(word: str) -> list[str]:
    return [cause.code for cause in CATALOGUE if has_word(word, cause.title)]


def _has_word(word: str) -> Q:
    # each of its own table: joined, each finding's job would be looked up
    jobs = Job.objects.filter(called(word)).values("pk")
    nodes = Node.objects.filter(name__icontains=word).values("pk")
    of_whom = Q(job__in=jobs) | Q(node__in=nodes)
    return of_whom | Q(cause__in=_causes_called(word)) | agreed_hits.has_reason(word)


def _finding(finding: Finding, *, is_exempt: bool) -> Hit:
    thing = finding.job or finding.node
    name = (thing.name or getattr(thing, "key", "")) if thing else finding.cluster
    owner = finding.job.user if finding.job else ""
    return Hit(
        "finding",
        f"{title(finding.cause)}: {name}",
        reverse("finding", args=[finding.pk]),
        f"seen {_days(finding)}",
        finding_id=None if is_exempt or finding.status == Finding.Status.DISMISSED else finding.pk,
        owner=owner,
        state=finding_stands(EXEMPT if is_exempt else finding.status),
        saved_words=_saved_words(finding),
        has_step=finding.step_saved_ms is None and _has_step(finding),
        is_slowed=finding.cause == SLOWED and finding.node is not None,
    )


def _has_step(finding: Finding) -> bool:
    """Whether a step of it has a price, once its pauses are measured: of a session alone."""
    is_session = finding.job is not None and finding.job.kind == Job.Kind.INTERACTIVE
    return is_session and bool(BY_CODE[finding.cause].saved_words)


def _saved_words(finding: Finding) -> str:
    """What its dollars are, as its page says it."""
    if BY_CODE[finding.cause].machine.worth:
        return "could have been used"
    job = finding.job
    is_over = job.end_ms is not None if job else is_heard_since(finding)
    return "could have been saved" if is_over else "could be saved"


def _days(finding: Finding) -> str:
    """Its first and its last day, "23–25 Nov"."""
    local = (from_ms(at_ms).astimezone(zone()) for at_ms in (finding.first_ms, finding.last_ms - 1))
    return days_in_words(*local)


def _incidents(which: Q, limit: int, now: datetime) -> Iterator[Hit]:
    rows = visible_incidents().filter(which)
    # those that are open first: one that fires since long is not left off for many that are over
    newest = rows.order_by(F("resolved_at").desc(nulls_first=True), "-opened_at", "-pk")[:limit]
    yield from (_incident(each, now) for each in newest)


def _of_gpus(gpus: Sequence[GPU]) -> Q:
    """Those of these GPUs, and of what some of these did in a job."""
    of_jobs = (Q(facts__contains={"facts": {"gpus": [{"uuid": gpu.uuid}]}}) for gpu in gpus)
    return reduce(or_, of_jobs, Q(subject__in=[gpu.uuid for gpu in gpus]))


def _of_words(text: str) -> Q:
    """Those of whose rule, subject, team, owner, node and accepted reason each word is."""
    return reduce(and_, map(_is_of, text.split()), Q())


def _is_of(word: str) -> Q:
    what = Q(rule__name__icontains=word) | Q(team__slug__icontains=word)
    # a number that is a part of another one, or of a UUID, says nothing
    named = Q(subject__regex=rf"\m{word}\M") if word.isdecimal() else Q(subject__icontains=word)
    where = named | Q(facts__contains={"labels": {"node": [word]}})
    why = agreed_hits.was_muted_for(word)
    return what | where | why | Q(facts__name__icontains=word) | of_owner(word)


def _incident(incident: Incident, now: datetime) -> Hit:
    """By what its subject is called, whose it is and what it cost, as far as its breach says so."""
    breach = incident.facts
    team = incident.team.label if incident.team else ""
    return Hit(
        "incident",
        f"{incident.rule.name}: {breach.get('name') or breach.get('where') or incident.subject}",
        reverse("incident", args=[incident.pk]),
        f"#{incident.pk}",
        owner=breach.get("owner") or team,
        state=_stands(incident, now),
        when=_snoozed(incident, now),
        usd=breach_of(incident).cost_usd if breach.get("has_cost", True) else None,
    )


def _stands(incident: Incident, now: datetime) -> str:
    """As its page calls it: what stopped is not said to fire, nor what is no waste to be over
    alone.
    """
    stands = incident.stands(now)
    if stands == Incident.State.FIRING and incident.has_stopped:
        return STOPPED
    is_no_waste = stands == Incident.State.RESOLVED and incident.is_accepted
    return f"{incident_state(stands)}, {NO_WASTE}" if is_no_waste else incident_state(stands)


def _snoozed(incident: Incident, now: datetime) -> str:
    """Until when it is; "" where it is not."""
    if incident.snoozed_until is None or incident.stands(now) != "snoozed":
        return ""
    return f"until {_moment(incident.snoozed_until.astimezone(zone()))}"


def _causes(text: str) -> Iterator[Hit]:
    for cause in CATALOGUE:
        if has_word(text, f"{cause.title} {cause.code}"):
            yield Hit("cause", cause.title, reverse("cause", args=[cause.code]))


def _views(text: str, user: User, limit: int) -> Iterator[Hit]:
    for view in views_of(user).filter(name__icontains=text)[:limit]:
        about = "everybody's" if view.is_shared else "yours"
        yield Hit("view", view.name, reverse("view", args=[view.slug]), about)


def _terms(text: str) -> Iterator[Hit]:
    for term in TERMS:
        if has_word(text, term.word):
            meaning = shorten(term.meaning, MEANING, placeholder="…")
            yield Hit("word", term.word, f"{reverse('glossary')}#{term.slug}", meaning)


def _agreed(text: str, user: User, limit: int, now: datetime) -> tuple[Iterable[Hit], ...]:
    """Where the name of that decision is asked for its tabs, and what is in them."""
    if not agreed_hits.is_asked_for(text):
        return ()
    pages = (
        Hit("page", tab.name, tab.address, tab.about)
        for tab in agreed_hits.tabs(now)
        if may_open(user, resolve(tab.address.partition("?")[0]))
    )
    newest = agreed_hits.incidents(now).order_by("-opened_at", "-pk")[:limit]
    incidents = (_incident(each, now) for each in newest)
    return pages, _with_ids(agreed_hits.finding_ids(now), limit, now), incidents


def _with_ids(ids: Collection[int], limit: int, now: datetime) -> Iterator[Hit]:
    rows = _visible_findings().filter(pk__in=ids) if ids else Finding.objects.none()
    yield from _as_they_stand(rows.order_by("-last_ms", "-pk")[:limit], now)
