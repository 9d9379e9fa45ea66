"""Whose a job's time is: worked out from mapping rules for many jobs at once, and read for single
ones.

A job for which no rule speaks has no row: its account's team has all of its time. So without rules
nothing is written, and a job that came a moment ago is in no wrong place, only not yet in a rule's.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from django.db import connection, transaction
from django.db.models import Q

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.visibility import narrowed
from fleetwatch.costs.mapping import rule_terms
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, Terms
from fleetwatch.costs.models import Attribution, MappingRule
from fleetwatch.costs.rates.subjects import BEGINNING
from fleetwatch.figures.others_names import jobs_shown, keys_meant
from fleetwatch.figures.totals import NOBODY, UNMAPPED
from fleetwatch.jobs.models import ChangedJob, Job
from fleetwatch.jobs.visible_jobs import own_ids
from fleetwatch.ledger.selectors import closed_until
from fleetwatch.lib.any_of import any_id, any_text
from fleetwatch.lib.sql import execute, read_statement, wait_for_lock

# Who changes rules and who applies them to jobs take turns; who stores jobs never waits.
LOCK = "costs.mapping"
MAX_MARKS = 20_000  # of one turn
LATEST = datetime.max.replace(tzinfo=UTC)
Span = tuple[datetime, datetime]

_MATCHING = read_statement("costs/sql/matching.sql")
_ATTRIBUTE = _MATCHING + read_statement("costs/sql/attribute_jobs.sql")
_TEAMS = read_statement("costs/sql/teams_of_jobs.sql")
_TOUCHED = _MATCHING + read_statement("costs/sql/touched_jobs.sql")


def rules() -> list[MappingRule]:
    """Every rule in the order in which they are asked."""
    return sorted(
        MappingRule.objects.select_related("team"),
        key=lambda rule: rule_terms.place(rule.priority, conditions(rule), rule.pk),
    )


def conditions(rule: MappingRule) -> Conditions:
    """What the rule asks of a job."""
    return Conditions(*(getattr(rule, field.name) for field in fields(Conditions)))


def gives(rule: MappingRule) -> Gives:
    """Whose time it is by the rule."""
    return Gives(rule.team.slug if rule.team else "", rule.project, rule.cost_centre)


def terms(rule: MappingRule) -> Terms:
    """What the rule says, and when."""
    return Terms(
        conditions(rule), gives(rule), rule.valid_from, rule.valid_to, rule.priority, rule.note
    )


@transaction.atomic
def attribute_changed() -> dict[str, int]:
    """How many jobs were new or had changed since the last time, and how many rows that made; safe
    twice.
    """
    wait_for_lock(LOCK)
    return _attribute_changed()


def touched(by: Iterable[MappingRule]) -> list[int]:
    """The ids of the jobs that one of the rules matches."""
    rules_asked = json.dumps([_parameters(0, rule) for rule in by])
    return [pk for (pk,) in execute(_TOUCHED, {"job_ids": None, "rules": rules_asked})]


def attribute(job_ids: list[int]) -> int:
    """How many rows of these jobs changed, and of those that wait.

    Needs a transaction that holds the lock.
    """
    waiting = _attribute_changed(limit=None)
    return waiting["rows"] + _attribute(job_ids, [])


def into_teams(jobs: Iterable[Job], *, before: datetime) -> list[Job]:
    """The jobs, each with the `team` whose its time is just before a moment: that of a rule, or of
    its account. In memory alone.
    """
    owned = list(jobs)
    if not owned:
        return []
    held = Q(valid_from__lt=before) & (Q(valid_to__isnull=True) | Q(valid_to__gte=before))
    rows = Attribution.objects.filter(held, job__in=any_id(job.pk for job in owned))
    team_ids = dict(rows.values_list("job_id", "team_id"))
    # of thousands of jobs there are a dozen teams
    teams = Team.objects.in_bulk({pk for pk in team_ids.values() if pk is not None})
    for job in owned:
        if job.pk in team_ids:
            team_id = team_ids[job.pk]
            job.team = None if team_id is None else teams[team_id]
    return owned


def seen_spans(job: Job) -> list[Span] | None:
    """When the job's time is the reader's to see, of a job that is seen by name; None = always."""
    seen = narrowed()
    if seen is None or job.pk in own_ids(seen):
        return None
    rows = Attribution.objects.filter(job=job)
    theirs = rows.filter(team__in=seen.team_ids).values_list("valid_from", "valid_to")
    return [(start, end or LATEST) for start, end in theirs] if rows.exists() else None


def jobs_by_key(keys: Iterable[str], *, before: datetime) -> dict[str, Job]:
    """The jobs of these keys, each with the `team` as into_teams() has it, by key; of a job with a
    pseudonym the key is that, and nothing else leads to whose it is.
    """
    asked = list(keys)
    if not asked:
        return {}
    named = Q(key__in=any_text(asked)) | Q(pk__in=keys_meant(asked))
    jobs = Job.objects.select_related("team").filter(named)
    return {job.key: job for job in jobs_shown(into_teams(jobs, before=before))}


def team_keys(job_ids: Iterable[int]) -> Callable[[int, datetime], str]:
    """What gives the key of a job's team at a moment, as totals_by has it."""
    spans: dict[int, list[tuple[datetime, str]]] = defaultdict(list)
    rows = execute(_TEAMS, {"job_ids": list(job_ids), "beginning": BEGINNING})
    for job_id, valid_from, slug, is_named in rows:
        spans[job_id].append((valid_from, slug or (UNMAPPED if is_named else NOBODY)))

    def team_of(job_id: int, at: datetime) -> str:
        return next(
            (key for valid_from, key in reversed(spans[job_id]) if valid_from <= at), NOBODY
        )

    return team_of


def _attribute_changed(*, limit: int | None = MAX_MARKS) -> dict[str, int]:
    marks = list(ChangedJob.objects.order_by("pk")[:limit])
    if not marks:
        return {"jobs": 0, "rows": 0}
    # of several marks of a job the first says what it named when it was looked at last
    first = {mark.job_id: mark for mark in reversed(marks)}
    former = [
        {"job_id": mark.job_id, "team_id": mark.former_team_id, "is_named": mark.was_named}
        for mark in first.values()
        if not mark.is_new
    ]
    rows = _attribute(sorted(first), former)
    ChangedJob.objects.filter(pk__in=[mark.pk for mark in marks]).delete()
    return {"jobs": len(first), "rows": rows}


def _attribute(job_ids: list[int], former: Sequence[dict[str, Any]]) -> int:
    wanted: dict[str, Any] = {
        "job_ids": job_ids,
        "rules": json.dumps([_parameters(place, rule) for place, rule in enumerate(rules())]),
        "former": json.dumps(former),
        "beginning": BEGINNING,
        "closed_until": closed_until(),
    }
    with connection.cursor() as cursor:
        cursor.execute(_ATTRIBUTE, wanted)
        return int(cursor.rowcount)


def _parameters(place: int, rule: MappingRule) -> dict[str, Any]:
    """The rule as matching.sql has it: what it does not ask is null."""
    asks = {name: rule_terms.like(pattern) for name, pattern in conditions(rule).patterns.items()}
    value = asks.pop("label", None)
    return asks | {
        "place": place,
        "id": rule.pk,
        "label": rule.label or None,
        "label_value": value,
        "team_id": rule.team_id,
        "project": rule.project,
        "cost_centre": rule.cost_centre,
        "valid_from": rule.valid_from.isoformat(),
        "valid_to": None if rule.valid_to is None else rule.valid_to.isoformat(),
    }
