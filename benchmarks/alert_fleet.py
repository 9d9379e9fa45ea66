"""What alerts read beside the ledger's runs, for a large fleet whose newest day was posted and
whose older ones were tiled: five-minute pieces, causes and findings, dollars by day, an open door.
"""

from datetime import datetime, timedelta

import numpy as np
from django.db import connection

from benchmarks.tiling import DAY, SQL, moved
from fleetwatch.accounts.models import Identity, Team, User
from fleetwatch.actions.models import Policy
from fleetwatch.alerts.models import Rule
from fleetwatch.budgets import daily_dollars
from fleetwatch.diagnosis import cause_rows
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.diagnosis.services import diagnose
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import hour_cells
from fleetwatch.ledger.judgement.cell_states import Table, joined
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from fleetwatch.lib.sql import read_statement
from fleetwatch.operations.models import Heartbeat

NO_LIMIT = 10**9
DAY_MS = 24 * HOUR_MS
_CAUSES = read_statement(SQL / "tile_causes.sql")


def complete(posted_day: Interval, days: int) -> None:
    """Diagnoses the posted day, and tiles what that made over so many days before it."""
    diagnose(posted_day.end, NO_LIMIT)
    for shift in range(1, days + 1):
        _tile_causes(posted_day, shift)
        _tile_cells(posted_day, shift)
    pairs = CauseEntry.objects.order_by().values_list("job_id", "cause").distinct()
    cause_rows.refresh_findings(set(pairs))
    daily_dollars.note_days(posted_day.end, days=days, limit=days)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def go_on(before: datetime, after: datetime) -> None:
    """The fleet does until `after` what it did up to `before`, and the hub hears of it."""
    before_ms, after_ms = to_ms(before), to_ms(after)
    Run.objects.filter(end_ms=before_ms).update(end_ms=after_ms)
    Node.objects.filter(last_ms=before_ms).update(last_ms=after_ms, last_received_at=after)
    since = before - timedelta(days=1)
    Heartbeat.objects.update_or_create(name="door", defaults={"at": after, "since": since})


def a_policy(now: datetime) -> Policy:
    """It ends idle jobs of every team, each of whose holders has an account."""
    for name in set(Job.objects.exclude(user="").values_list("user", flat=True)):
        user = User.objects.create(username=f"holder-{name}")
        Identity.objects.create(
            user=user, system="unix", name=name, source="admin", created_at=now, confirmed_at=now
        )
    policy = Policy.objects.create(
        rule=Rule.objects.get(condition="job_idle", is_shipped=True),
        kind=Policy.Kind.STOP,
        job_kinds=[Job.Kind.BATCH, Job.Kind.INTERACTIVE],
        first_wait_minutes=60,
        second_wait_minutes=60,
        max_per_hour=100,
        max_usd_per_hour=100_000,
        created_at=now,
    )
    policy.teams.set(Team.objects.all())
    return policy


def counts() -> dict[str, int]:
    """How much of each there is."""
    models = (GPU, Job, Run, CauseEntry, Finding)
    return {model._meta.verbose_name_plural: model.objects.count() for model in models}


def _tile_causes(posted_day: Interval, shift: int) -> None:
    gpus, others = moved(shift)
    asked = {
        "source_start": posted_day.start,
        "source_end": posted_day.end,
        "shift_days": shift,
        "gpus": gpus,
        "other_gpus": others,
    }
    with connection.cursor() as cursor:
        cursor.execute(_CAUSES, asked)


def _tile_cells(posted_day: Interval, shift: int) -> None:
    other_gpu = dict(zip(*moved(shift), strict=True))
    node_of = dict(GPU.objects.values_list("pk", "node_id"))
    other_job = _tiled_jobs(shift)
    start_ms, end_ms = (to_ms(edge - shift * DAY) for edge in (posted_day.start, posted_day.end))
    nodes = hour_cells.read([*set(node_of.values())], posted_day.start_ms, posted_day.end_ms)
    for table in nodes.values():
        tiled = _moved_table(table, other_gpu, other_job, shift)
        node_id = node_of[int(tiled["gpu_id"][0])]
        hours = range(start_ms, end_ms, HOUR_MS)
        hour_cells.write(node_id, tiled, hours, start_ms=start_ms, end_ms=end_ms)


def _tiled_jobs(shift: int) -> dict[int, int]:
    """By id of a posted day's job the one that was tiled from it."""
    ids = dict(Job.objects.values_list("key", "pk"))
    tiled = {pk: ids.get(f"{key}-{shift}") for key, pk in ids.items()}
    return {pk: other for pk, other in tiled.items() if other is not None}


def _moved_table(
    table: Table, other_gpu: dict[int, int], other_job: dict[int, int], shift: int
) -> Table:
    known = np.isin(table["gpu_id"], list(other_gpu)) & np.isin(table["job_id"], list(other_job))
    tiled = {name: values[known] for name, values in table.items()}
    for name, other in (("gpu_id", other_gpu), ("job_id", other_job)):
        tiled[name] = np.array([other[pk] for pk in tiled[name].tolist()], dtype=np.int64)
    tiled["start_ms"] = tiled["start_ms"] - shift * DAY_MS
    return joined([tiled])
