"""Writes of reports: weekly digests."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial

import structlog
from django.conf import settings
from django.db import transaction

from fleetwatch.lib.fences import Fences
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.memo import remembering
from fleetwatch.notify.services import enqueue
from fleetwatch.notify.transports.delivery_log import DELIVERY_LOG
from fleetwatch.reports import digest, digest_figures
from fleetwatch.reports.audiences import Audience, audiences
from fleetwatch.reports.digest import Digest
from fleetwatch.reports.models import Report
from fleetwatch.reports.statement import stored

A_RUN = 100  # digests: the others wait for the next run

log = structlog.get_logger(__name__)


def compute_weekly_digests(now: datetime, limit: int = A_RUN) -> dict[str, int]:
    """How many digests were computed and deliveries queued: of each audience the last full week's,
    once, from Monday 09:00 of its zone on.

    A week without any capacity has none, and one like the week before is kept and not sent. Row and
    deliveries are one transaction, so that a digest is neither lost nor sent twice; a channel that
    wants digests later starts with the next.

    Raises PartlyDoneError once all others were computed.
    """
    fences = Fences()
    did = Counter(computed=0, queued=0)
    for audience in _due(now)[:limit]:
        part = f"{audience.kind} {audience.subject}"
        did.update(fences.within(part, partial(_compute, audience, now), dict[str, int]()))
    fences.check()
    return dict(did)


def _compute(audience: Audience, now: datetime) -> dict[str, int]:
    week = digest.last_week(now, audience.zone)
    with remembering():
        made = digest_figures.read(audience, week, now)
    return {} if made is None else _kept_and_sent(audience, made, week, now)


def _due(now: datetime) -> list[Audience]:
    """Those whose Monday has come, who have none yet of the week, and time in it."""
    waiting = [each for each in audiences() if digest.is_due(now, each.zone)]
    done = _done(waiting, now)
    waiting = [each for each in waiting if _key(each, now) not in done]
    weeks = {digest.last_week(now, each.zone) for each in waiting if each.group}
    with_time = {week: digest_figures.with_time(week) for week in weeks}
    return [
        each
        for each in waiting
        if not each.group or each.keys & with_time[digest.last_week(now, each.zone)][each.group]
    ]


def _done(several: Iterable[Audience], now: datetime) -> set[tuple[str, str, str]]:
    """By kind, subject and week those that are there."""
    weeks = {_key(each, now)[2] for each in several}
    rows = Report.objects.filter(kind__in=digest.KINDS, content__week__in=weeks)
    return set(rows.values_list("kind", "subject", "content__week"))


def _key(audience: Audience, now: datetime) -> tuple[str, str, str]:
    """The same week in another zone is the same digest."""
    week = digest.week_name(digest.last_week(now, audience.zone), audience.zone)
    return audience.kind, audience.subject, week


@transaction.atomic
def _kept_and_sent(
    audience: Audience, made: Digest, week: Interval, now: datetime
) -> dict[str, int]:
    report, is_new = Report.objects.get_or_create(
        kind=audience.kind,
        subject=audience.subject,
        start=week.start,
        version=1,
        defaults={"end": week.end, "computed_at": now, "content": stored(made.content())},
    )
    if not is_new:
        return {}
    queued = _send(audience, made, report, now)
    log.info("digest computed", week=made.week, kind=audience.kind, queued=queued)
    return {"computed": 1, "queued": queued}


def _send(audience: Audience, made: Digest, report: Report, now: datetime) -> int:
    """How many deliveries were queued; the Report says that, whether these are the delivery log's
    alone, and the message.
    """
    url = f"{settings.PUBLIC_URL}/reports/{report.pk}"
    message = digest.message(made, url=url, base=settings.PUBLIC_URL)
    key = f"digest/{made.week}/{audience.kind}/{audience.subject}"
    recipients = audience.recipients if made.has_news else ()
    sent = replace(message, unsubscribe_url=audience.unsubscribe_url)
    queued = enqueue(recipients, sent, key=key, now=now)
    is_kept = all(each.channel.kind == DELIVERY_LOG.kind for each in recipients)
    report.content |= {"message": stored(asdict(message)), "sent": queued, "is_kept": is_kept}
    report.save(update_fields=["content"])
    return queued
