"""What findings' newest windows said in numbers, noted when they change, so that a list gives each
the advice of its own page: to read the window of every line would take a page seconds.

They are kept in the cache: what is lost is noted again within minutes, and until then a list says
what holds of the cause in general.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import structlog
from django.core.cache import cache
from redis import RedisError

from fleetwatch.diagnosis.cause import Facts
from fleetwatch.diagnosis.causes import CATALOGUE
from fleetwatch.diagnosis.findings.advice import Advice, advise
from fleetwatch.diagnosis.findings.evidence import evidence, facts_of, place_of
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.diagnosis.models import Finding

log = structlog.get_logger()
KEPT_S = 40 * 86_400  # longer than the longest period of a list, 30 days
COMPARED = 50  # runs of a pattern, the newest
NEWEST = 1000  # findings that are looked through each time
# causes of which what to do depends on what was measured
VERSION = 3  # of what is noted: another version's is noted anew
MEASURED = [cause.code for cause in CATALOGUE if cause.needs_numbers]


def advice_of(lines: Sequence[Line]) -> list[Advice]:
    """Of each of these lines of jobs what to do, by the numbers of its newest window."""
    noted = _noted([line.finding.pk for line in lines])
    return [advise(line.finding.cause, _facts(line, noted.get(line.finding.pk))) for line in lines]


def are_unlike(line: Line, pks: Iterable[int]) -> bool:
    """Whether the numbers that are noted of these findings, all of the line's cause, say different
    things of what to do first.
    """
    cause = line.finding.cause
    if cause not in MEASURED:
        return False
    place = place_of(line.job, may_work=line.may_work)
    noted = _noted(list(pks)[:COMPARED]).values()
    alike = (replace(facts, place=replace(place, node=facts.place.node)) for facts in noted)
    steps = (advise(cause, replace(facts, kind=line.job.kind)).first for facts in alike)
    return len({step.text for step in steps}) > 1


def measured_advice_of(line: Line) -> Advice:
    """The same of one line, its window read now: for what is told once, as by a digest."""
    measured = line.finding.cause in MEASURED
    seen = evidence(line.job, line.finding.cause) if measured else None
    return advise(line.finding.cause, _facts(line, seen.facts if seen else None))


def note(limit: int) -> int:
    """How many findings were noted anew, at most so many; those first that were seen last."""
    of_jobs = Finding.objects.filter(job__isnull=False, cause__in=MEASURED)
    newest = dict(of_jobs.order_by("-last_ms").values_list("pk", "last_ms")[:NEWEST])
    noted = cache.get_many(map(_key, newest))
    due = [
        pk for pk, last_ms in newest.items() if noted.get(_key(pk), {}).get("last_ms") != last_ms
    ]
    findings = Finding.objects.filter(pk__in=due[:limit]).select_related("job")
    for finding in findings:
        cache.set(_key(finding.pk), _numbers(finding), KEPT_S)
    return len(findings)


def _numbers(finding: Finding) -> dict[str, Any]:
    seen = evidence(finding.its_job, finding.cause)
    if seen is None:
        return {"last_ms": finding.last_ms, "facts": None}
    _keep_saving(finding, seen.facts)
    return {"last_ms": finding.last_ms, "facts": msgspec.to_builtins(seen.facts)}


def keep_savings(findings: Iterable[Finding]) -> int:
    """Of how many of these what their step would have saved is measured now and differs from what
    was kept: of what is told once, before anything noted it.
    """
    seen = [
        (each, evidence(each.its_job, each.cause)) for each in findings if each.cause in MEASURED
    ]
    return sum(_keep_saving(each, own.facts) for each, own in seen if own)


def not_noted(pks: Collection[int]) -> set[int]:
    """Those of these findings of which nothing was noted yet; none where the cache is not read."""
    try:
        noted = cache.get_many(map(_key, pks))
    except RedisError:
        return set()
    return {pk for pk in pks if _key(pk) not in noted}


def _keep_saving(finding: Finding, facts: Facts) -> bool:
    """Whether what the step that the advice prices would have saved is new in the finding's row:
    sums and ranks are by it.
    """
    kept = advise(finding.cause, facts).step_worth
    is_new = any(getattr(finding, name) != ms for name, ms in kept.items())
    if is_new:
        Finding.objects.filter(pk=finding.pk).update(**kept)
    return is_new


def _key(pk: int) -> str:
    return f"finding-numbers/{VERSION}/{pk}"


def _noted(pks: Iterable[int]) -> dict[int, Facts]:
    """By id, of those of which something is noted."""
    keys = {_key(pk): pk for pk in pks}
    try:
        rows = cache.get_many(keys)
    except RedisError:
        log.warning("noted facts were not read")
        return {}
    return {keys[key]: facts for key, row in rows.items() if (facts := _read(row)) is not None}


def _read(row: Any) -> Facts | None:
    """None where nothing was kept of it, or another version wrote it."""
    try:
        return msgspec.convert(row["facts"], Facts | None)
    except (msgspec.ValidationError, KeyError, TypeError):
        return None


def _facts(line: Line, noted: Facts | None) -> Facts:
    """The numbers of then, and what is known of the job now."""
    job = line.job
    if noted is None:
        counts = {"gpus": max(line.gpus, 1), "affected_gpus": line.gpus}
        return facts_of(job, None, **counts, may_work=line.may_work)
    place = replace(place_of(job, may_work=line.may_work), node=noted.place.node)
    return replace(noted, place=place, kind=job.kind)
