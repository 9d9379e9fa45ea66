"""What FleetWatch itself did, for /status, /metrics and /readyz."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import connection
from django.db.models import Count, Max
from django.utils import timezone

from fleetwatch.operations.models import KEEP_RUNS, OF_A_WORKER, Heartbeat, JobRun

# Walks from name to name over the index jobrun_latest_by_name: DISTINCT ON would read every run of
# a week.
LATEST_RUNS = """
WITH RECURSIVE latest AS (
    (SELECT id, name FROM operations_jobrun ORDER BY name, started_at DESC LIMIT 1)
    UNION ALL
    SELECT next_run.id, next_run.name
    FROM latest
    CROSS JOIN LATERAL (
        SELECT id, name FROM operations_jobrun WHERE name > latest.name
        ORDER BY name, started_at DESC LIMIT 1
    ) AS next_run
)
SELECT run.* FROM operations_jobrun AS run JOIN latest USING (id) ORDER BY run.name
"""


def latest_runs() -> list[JobRun]:
    """The newest run of every name, by name."""
    return list(JobRun.objects.raw(LATEST_RUNS))


# The newest runs of each name, so many that a rhythm is seen, by the same walk
RECENT_RUNS = """
WITH RECURSIVE named AS (
    (SELECT name::text FROM operations_jobrun ORDER BY name LIMIT 1)
    UNION ALL
    SELECT (SELECT min(name)::text FROM operations_jobrun WHERE name > named.name)
    FROM named
    WHERE named.name IS NOT NULL
)
SELECT
    named.name,
    extract(epoch FROM max(run.started_at) - min(run.started_at)) / nullif(count(*) - 1, 0),
    extract(epoch FROM percentile_cont(0.5) WITHIN GROUP (
        ORDER BY run.finished_at - run.started_at
    )),
    extract(epoch FROM sum(run.finished_at - run.started_at))
        / greatest(extract(epoch FROM %(now)s - min(run.started_at)), 1)
FROM named
CROSS JOIN LATERAL (
    SELECT started_at, finished_at FROM operations_jobrun AS each
    WHERE each.name = named.name
    ORDER BY started_at DESC LIMIT 20
) AS run
GROUP BY named.name
"""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How far the newest 20 runs of a name are apart, and how long the middle one took, in seconds;
    None where there are too few. `busy` is the share of the time since the first of them in which
    one ran.
    """

    every_s: float | None
    took_s: float | None
    busy: float


def rhythms(now: datetime) -> dict[str, Rhythm]:
    """By name the rhythm of its runs."""
    with connection.cursor() as cursor:
        cursor.execute(RECENT_RUNS, {"now": now})
        return {
            name: Rhythm(_seconds(every), _seconds(took), _seconds(busy) or 0.0)
            for name, every, took, busy in cursor
        }


def _seconds(number: Decimal | float | None) -> float | None:
    return None if number is None else float(number)


def failures_by_name(since: datetime) -> dict[str, tuple[int, datetime]]:
    """By name how many runs ended in an error since then, and when the last of them began."""
    failed = JobRun.objects.filter(ok=False, started_at__gte=since).values("name").order_by()
    rows = failed.annotate(count=Count("pk"), last=Max("started_at"))
    return {row["name"]: (row["count"], row["last"]) for row in rows}


def has_done(name: str, what: str, *, since: datetime) -> bool:
    """Whether a run of that name that began since then ended well and did some of `what`."""
    return JobRun.objects.filter(
        name=name, started_at__gte=since, ok=True, **{f"did__{what}__gt": 0}
    ).exists()


def first_run_since(name: str, since: datetime) -> datetime | None:
    """When the first run of that name began since then; None where there was none, or earlier ones
    may be forgotten by now.
    """
    if since < timezone.now() - KEEP_RUNS:
        return None
    runs = JobRun.objects.filter(name=name, started_at__gte=since).order_by("started_at")
    return runs.values_list("started_at", flat=True).first()


def recent_failures(since: datetime, *, limit: int = 20) -> list[JobRun]:
    """Runs that ended in an error since then, newest first."""
    return list(
        JobRun.objects.filter(ok=False, started_at__gte=since).order_by("-started_at")[:limit]
    )


def heartbeat_age_s(name: str, now: datetime) -> float | None:
    """Seconds since the process kind `name` last said that it lives; None when it never did."""
    at = Heartbeat.objects.filter(name=name).values_list("at", flat=True).first()
    return None if at is None else (now - at).total_seconds()


def heartbeat(name: str) -> Heartbeat | None:
    """The last word of the process kind `name`; None when it never said that it lives."""
    return Heartbeat.objects.filter(name=name).first()


def process_kinds() -> list[Heartbeat]:
    """The last word of each kind of process, by name."""
    return list(Heartbeat.objects.exclude(name__startswith=OF_A_WORKER).order_by("name"))


def workers() -> list[tuple[str, datetime]]:
    """The host of each worker that did something in the last day, and when last; by name."""
    rows = Heartbeat.objects.filter(name__startswith=OF_A_WORKER).order_by("name")
    return [(row.name.removeprefix(OF_A_WORKER), row.at) for row in rows]
