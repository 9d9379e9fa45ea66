"""Writes of reports."""

from dataclasses import asdict
from datetime import datetime
from zoneinfo import ZoneInfo

import structlog
from django.conf import settings
from django.db import transaction

from fleetwatch.accounts.selectors import zone as organisation_zone
from fleetwatch.costs.mapping.attribution import jobs_by_key
from fleetwatch.figures import selectors as costs
from fleetwatch.lib.intervals import Interval
from fleetwatch.notify import selectors as notify
from fleetwatch.notify.services import Recipient, enqueue
from fleetwatch.reports import digest
from fleetwatch.reports.models import Report
from fleetwatch.reports.statement import stored

WEEKLY_DIGEST = "weekly_digest"

log = structlog.get_logger(__name__)


def compute_weekly_digest(now: datetime) -> dict[str, int]:
    """How many digests were computed and deliveries queued: the last full week's, once, from Monday
    09:00 on.

    A week without any capacity has none. Row and deliveries are one transaction, so that a
    digest is neither lost nor sent twice; a channel that wants digests later starts with the next.
    """
    zone = organisation_zone()
    week = digest.last_week(now, zone)
    done = Report.objects.filter(kind=WEEKLY_DIGEST, start=week.start, end=week.end)
    made = None if not digest.is_due(now, zone) or done.exists() else _digest(week, zone)
    return {"computed": 0, "queued": 0} if made is None else _kept_and_sent(made, week, now)


def _kept_and_sent(made: digest.Digest, week: Interval, now: datetime) -> dict[str, int]:
    message = digest.message(
        made, url=f"{settings.PUBLIC_URL}/waste?from={week.start_ms}&to={week.end_ms}&group_by=job"
    )
    queued = 0
    with transaction.atomic():
        _, is_new = Report.objects.get_or_create(
            kind=WEEKLY_DIGEST,
            start=week.start,
            end=week.end,
            defaults={
                "computed_at": now,
                "content": stored(made.content() | {"message": asdict(message)}),
            },
        )
        if is_new:
            key = f"digest/{made.week}"
            recipients = [Recipient(channel) for channel in notify.digest_channels()]
            queued = enqueue(recipients, message, key=key, now=now)
    log.info("digest computed", week=made.week, queued=queued)
    return {"computed": int(is_new), "queued": queued}


def _digest(week: Interval, zone: ZoneInfo) -> digest.Digest | None:
    """The digest of the week; None when no GPU was capacity in it."""
    this = costs.totals(week)
    before = costs.totals(digest.last_week(week.start, zone))
    if not this.capacity_ms:
        return None
    groups = costs.ranked(week, "job", size=digest.TOP_ITEMS).groups
    return digest.Digest(
        week=digest.week_name(week, zone),
        zone=str(zone),
        this=this,
        before=before if before.capacity_ms else None,
        top=digest.top_items(groups, _owners([group.key for group in groups], before=week.end)),
    )


def _owners(job_keys: list[str], *, before: datetime) -> dict[str, str]:
    """User and team of each job that has any."""
    jobs = jobs_by_key(job_keys, before=before).values()
    rows = [(job.key, job.user, job.team.slug if job.team else "") for job in jobs]
    return {key: f"{user} ({team})" if user and team else user or team for key, user, team in rows}
