"""What FleetWatch itself did, for /status, /metrics and /readyz."""

from datetime import datetime

from fleetwatch.operations.models import Heartbeat, JobRun

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


def has_done(name: str, what: str, *, since: datetime) -> bool:
    """Whether a run of that name that began since then ended well and did some of `what`."""
    return JobRun.objects.filter(
        name=name, started_at__gte=since, ok=True, **{f"did__{what}__gt": 0}
    ).exists()


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
