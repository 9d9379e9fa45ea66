"""What people agreed on about a job's waste: who, when, why and until when; a page opens with it,
and what ends the job comes behind it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.urls import reverse

from fleetwatch.accounts.colleagues import show_people
from fleetwatch.accounts.models import User
from fleetwatch.accounts.visibility import sight
from fleetwatch.alerts.exempt_jobs import exempt
from fleetwatch.alerts.incidents.acceptances import acceptance_of, acceptances
from fleetwatch.alerts.incidents.dismissed_findings import findings_of
from fleetwatch.alerts.models import Incident, IncidentEvent, Silence
from fleetwatch.alerts.selectors import timeline
from fleetwatch.alerts.silences import endable, in_words
from fleetwatch.dashboard.agreed_beside import Beside, beside
from fleetwatch.diagnosis.findings.alternatives import Key
from fleetwatch.diagnosis.findings.deciding import decidable
from fleetwatch.diagnosis.findings.inbox import AGREED, Explained, seen_ids
from fleetwatch.diagnosis.findings.ranked_findings import EXEMPT, Line, status
from fleetwatch.diagnosis.models import Finding, Said
from fleetwatch.diagnosis.selectors import history
from fleetwatch.jobs.models import Job

NOT_WASTE = "not waste"
APPROVED = f"{NOT_WASTE}, an operator approved of it"
# as the page says it, by how a finding stands
DECIDED = {
    "accepted": "Accepted, until it is marked fixed: somebody will change it",
    "dismissed": f"{NOT_WASTE}, until somebody ends that",
    "snoozed": "Snoozed",
}


@dataclass(frozen=True, slots=True)
class Agreement:
    """`what` says until when, where it has an end that is no moment; `until` is one. `by` and `at`:
    "" and None where that was not written down. `address`: where it was said, "" on that page.
    `is_of_finding`: it was decided about the finding itself, whose history says so.
    """

    what: str
    why: str
    by: str
    at: datetime | None
    until: datetime | None
    address: str
    is_of_finding: bool = False
    end_address: str = ""  # what the reader may post to to end it
    of: str = ""  # what the exemption is for, in words, for who may see that
    silence_id: int | None = None  # of what is said until a day
    # what else ends with it, the findings beside which it stands left out, for who may end it
    also: Sequence[Beside] = ()

    @property
    def is_no_waste(self) -> bool:
        """Whether somebody said that the time is no waste: the ledger counts it on."""
        return self.what in (NOT_WASTE, APPROVED, DECIDED["dismissed"])

    @property
    def tag(self) -> str:
        """What stands before `what`."""
        if self.is_put_off:
            return "snoozed"
        return "agreed as" if self.what.startswith(NOT_WASTE) else "agreed"

    @property
    def besides(self) -> str:
        """What `what` says besides that it is no waste."""
        rest = self.what.removeprefix(NOT_WASTE).removeprefix(", ")
        return rest[:1].upper() + rest[1:]

    @property
    def title(self) -> str:
        """What was agreed, by itself."""
        return f"Agreed as {self.what}" if self.what.startswith(NOT_WASTE) else self.what

    @property
    def is_put_off(self) -> bool:
        """Whether it is looked at again later: nobody agreed to anything."""
        return self.what == DECIDED["snoozed"]


def agreements(
    job: Job, lines: Iterable[Line], remarks: Sequence[Said], *, reader: User, now: datetime
) -> list[Agreement]:
    """What holds now of the job's incidents and of these findings, of which these are the
    `remarks`, the newest first; of what was said until a day whether the reader may end it: what
    was decided about a finding ends where that is decided.
    """
    shown = list(lines)
    decided = (_of_finding(line.finding, line.status, remarks) for line in shown)
    of_incidents = _of_incidents(job, reader, now)
    agreed = [*of_incidents, *_of_exemptions(shown, reader, now), *filter(None, decided)]
    return _with_beside(agreed, {line.finding.pk for line in shown}, now)


def _with_beside(
    agreed: Sequence[Agreement], own: Collection[int], now: datetime
) -> list[Agreement]:
    """Those that the reader may end with what else they cover than `own` findings."""
    every = _beside(agreed, now)
    return [_beside_all(each, own, every) for each in agreed]


def _beside(agreed: Iterable[Agreement], now: datetime) -> Mapping[int, Sequence[Beside]]:
    """By its id what each that the reader may end covers."""
    ids = {each.silence_id for each in agreed if each.end_address and each.silence_id is not None}
    return beside(ids, now) if ids else {}


def _beside_all(
    agreement: Agreement, own: Collection[int], every: Mapping[int, Sequence[Beside]]
) -> Agreement:
    covered = every.get(agreement.silence_id or 0, ())
    return replace(agreement, also=[each for each in covered if each.pk not in own])


def by_finding(lines: Iterable[Line], *, reader: User, now: datetime) -> dict[int, Agreement]:
    """Of those of these findings that are agreed as not waste, by their ids, what was agreed; of
    jobs that the reader knows by no name nothing.
    """
    agreed = [line for line in lines if line.status in AGREED and not line.job.has_pseudonym]
    silences = _silences_of(_exempt_keys(agreed), now)
    closed = [line.finding for line in agreed if line.finding.pk not in silences]
    remarks = history(*closed) if closed else []
    decided = {each.pk: _of_finding(each, each.status, remarks) for each in closed}
    return {
        **_by_silences(silences, reader, now),
        **{pk: agreement for pk, agreement in decided.items() if agreement is not None},
    }


def _by_silences(
    silences: Mapping[int, Silence], reader: User, now: datetime
) -> dict[int, Agreement]:
    """By the finding's id that by which it is exempt as what was agreed, with what else that
    covers.
    """
    show_people({each.pk: each for each in silences.values()}.values(), "by", "approved_by")
    agreed = _ended_by(reader, silences.values(), now)
    every = _beside(agreed.values(), now)
    return {pk: _beside_all(agreed[each.pk], {pk}, every) for pk, each in silences.items()}


def _ended_by(reader: User, silences: Iterable[Silence], now: datetime) -> dict[int, Agreement]:
    """Each of these as what was agreed, by its id."""
    rows = list({each.pk: each for each in silences}.values())
    may_end = endable(reader, rows, now=now) if rows else set()
    return {
        each.pk: _of_exemption(each, may_end=each.pk in may_end)
        if each.kind == Silence.Kind.EXEMPTION
        else _of_silence(each, "", may_end=each.pk in may_end)
        for each in rows
    }


def behind_what(agreed: Collection[Agreement], seen: Explained) -> str:
    """As which case what is to be done about the finding comes, where it stands behind what was
    agreed: the first thing would end the job, or somebody said that this is no waste. "" where it
    does not.
    """
    is_no_waste = seen.exemption is not None or seen.line.status == "dismissed"
    if not is_no_waste and not (agreed and seen.advice.cause.is_ended):
        return ""
    is_over = seen.line.finding.its_job.end_ms is not None
    return "If it is to change" if is_over else "If it is no longer wanted"


def _of_incidents(job: Job, reader: User, now: datetime) -> list[Agreement]:
    """Those that somebody said are no waste."""
    accepted = acceptances(job.key, now)
    may_end = endable(reader, [each.silence for each in accepted], now=now)
    return [
        _of_silence(
            each.silence,
            reverse("incident", args=[each.incident.pk]),
            may_end=each.silence.pk in may_end,
        )
        for each in accepted
    ]


def _of_exemptions(lines: Iterable[Line], reader: User, now: datetime) -> list[Agreement]:
    """Of findings that an exemption covers, each exemption once."""
    return _approved(_exempt_keys(lines), reader, now)


def _approved(keys: Mapping[int, Key], reader: User, now: datetime) -> list[Agreement]:
    """Each exemption once that these findings' jobs and causes have."""
    every = _silences_of(keys, now).values()
    exemptions = [each for each in every if each.kind == Silence.Kind.EXEMPTION]
    return [each for _, each in sorted(_ended_by(reader, exemptions, now).items())]


def _exempt_keys(lines: Iterable[Line]) -> dict[int, Key]:
    """By the finding's id the jobs and causes of those of these that are exempt."""
    exempt_lines = (line for line in lines if line.status == EXEMPT)
    return {line.finding.pk: (line.job.pk, line.finding.cause) for line in exempt_lines}


def _silences_of(keys: Mapping[int, Key], now: datetime) -> dict[int, Silence]:
    """By the finding's id that by which it is exempt now, if it is."""
    mutes = exempt(list(keys.values()), now) if keys else {}
    ids = {pk: mutes[key].silence_id for pk, key in keys.items() if key in mutes}
    if not ids:
        return {}
    rows = Silence.objects.select_related("by", "approved_by").in_bulk(list(ids.values()))
    return {pk: rows[silence_id] for pk, silence_id in ids.items() if silence_id in rows}


def _of_exemption(silence: Silence, *, may_end: bool) -> Agreement:
    """What else it is for is told to who sees everything, or may end it."""
    sees_it = may_end or sight() is None
    address = f"{reverse('silences')}#silence-{silence.pk}"
    return replace(
        _of_silence(silence, address, what=APPROVED, may_end=may_end),
        of=in_words(silence) if sees_it else "",
    )


def of_incident(incident: Incident, reader: User, now: datetime) -> list[Agreement]:
    """What was said on its own page, or on that of another one of its rule and subject: that it is
    no waste; what an operator approved of the finding of the same job and cause, and what was
    decided on it. Each with where the reader ends it, as far as that is the reader's.
    """
    silence = acceptance_of(incident, now)
    every = list(findings_of(incident))
    findings = [each for each in every if each.status != Finding.Status.OPEN]
    keys = {
        each.pk: (each.job_id, each.cause)
        for each in every
        if each not in findings and each.job_id is not None
    }
    agreed = [
        *(_of_acceptance(silence, reader, now) if silence else ()),
        *_approved_of(incident, keys, reader, now),
        *(_decided(findings, reader, now) if findings else ()),
    ]
    return _with_beside(agreed, {each.pk for each in every}, now)


def _approved_of(
    incident: Incident, keys: Mapping[int, Key], reader: User, now: datetime
) -> list[Agreement]:
    """What was over before an operator approved of it was not what is approved."""
    over_at = incident.resolved_at
    approved = _approved(keys, reader, now)
    return [each for each in approved if not (over_at and each.at and each.at > over_at)]


def _decided(findings: Collection[Finding], reader: User, now: datetime) -> Iterator[Agreement]:
    """What was decided on each of these, with where the reader ends it; to whom an incident was
    given alone its finding is no page.
    """
    remarks = history(*findings)
    closed = [each for each in findings if each.status == Finding.Status.DISMISSED]
    may_end = decidable(reader, closed, now=now) if closed else ()
    seen = seen_ids([finding.pk for finding in findings])
    for finding in findings:
        agreement = _of_finding(finding, status(finding, now), remarks)
        if agreement is not None:
            end = reverse("finding_decide", args=[finding.pk, "reopen"])
            yield replace(
                agreement,
                address=agreement.address if finding.pk in seen else "",
                end_address=end if finding.pk in may_end else "",
            )


def _of_acceptance(silence: Silence, reader: User, now: datetime) -> list[Agreement]:
    """What is over can't be ended."""
    holds = silence.ends_at > now
    may_end = holds and bool(endable(reader, [silence], now=now))
    return [_of_silence(silence, "", may_end=may_end)]


def past_events(incident: Incident, agreed: Iterable[Agreement]) -> list[IncidentEvent]:
    """What happened to it, and what of this was decided on its findings, the oldest first; in
    memory alone.
    """
    decided = (each for each in agreed if each.is_of_finding)
    events = [_event(each, each.at) for each in decided if each.at is not None]
    return sorted([*timeline(incident), *events], key=lambda event: event.at)


def _event(agreed: Agreement, at: datetime) -> IncidentEvent:
    by = f" by {agreed.by}" if agreed.by else ""
    why = f": {agreed.why}" if agreed.why else ""
    return IncidentEvent(kind="finding", at=at, text=f"{agreed.title}, on its finding{by}{why}")


def _of_silence(
    silence: Silence, address: str, *, what: str = NOT_WASTE, may_end: bool = False
) -> Agreement:
    """By who approved of it, else by who wrote it down."""
    return Agreement(
        what=what,
        why=silence.reason,
        by=silence.approved_by.get_username() if silence.approved_by else _name(silence),
        at=silence.created_at,
        until=silence.ends_at,
        address=address,
        end_address=reverse("silence_end", args=[silence.pk]) if may_end else "",
        silence_id=silence.pk,
    )


def _of_finding(finding: Finding, stands: str, remarks: Sequence[Said]) -> Agreement | None:
    """None where nobody said so: an operator's exemption is told by itself."""
    of_it = (each for each in remarks if each.finding_id == finding.pk and stands in DECIDED)
    decision = next((each for each in of_it if each.kind == stands), None)
    if decision is None:
        return None
    return Agreement(
        what=DECIDED[stands],
        why=decision.note,
        by=_name(decision),
        at=decision.at,
        until=finding.snoozed_until if stands == "snoozed" else None,
        address=reverse("finding", args=[finding.pk]),
        is_of_finding=True,
    )


def _name(row: Silence | Said | None) -> str:
    return row.by.get_username() if row is not None and row.by is not None else ""
