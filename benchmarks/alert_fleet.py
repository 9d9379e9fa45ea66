"""What alerts read beside the ledger's runs, for a large fleet whose newest day was posted and
whose older ones were tiled: five-minute pieces, causes and findings, an open door.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache, partial

import django
import numpy as np
from django.db import connection

from agent.sources.simulated.archetypes import ARCHETYPES
from benchmarks import alert_troubles
from benchmarks.apart import say, side_by_side
from benchmarks.tiling import DAY, SQL, moved
from fleetwatch.accounts.models import Identity, Team, User
from fleetwatch.actions.models import Policy
from fleetwatch.alerts.back_test import back_test
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.models import Rule
from fleetwatch.diagnosis import cause_rows
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.diagnosis.services import diagnose
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import hour_cells
from fleetwatch.ledger.judgement.cell_states import Table, joined
from fleetwatch.ledger.judgement.observations import Ints
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from fleetwatch.lib.sql import read_statement
from fleetwatch.operations.models import Heartbeat

NO_LIMIT = 10**9
# rules that say that a job works badly
OF_WORK = ("low_utilisation", "job_stalled", "job_underused", "job_hung", "job_spinning")
DAY_MS = 24 * HOUR_MS
_CAUSES = read_statement(SQL / "tile_causes.sql")
_GO_ON = """
UPDATE ledger_hourruns
SET ends = array_replace(ends, (%(before_ms)s - cut_ms)::int, (%(after_ms)s - cut_ms)::int)
WHERE cut_ms >= %(before_ms)s - 3600000 AND cut_ms < %(before_ms)s
"""


def complete(posted_day: Interval, days: int) -> None:
    """Diagnoses the posted day, tiles what that made over so many days before it, side by side, and
    adds what seldom happens.
    """
    diagnose(posted_day.end, NO_LIMIT)
    say("diagnosed")
    for _ in side_by_side(partial(tile, posted_day), range(1, days + 1), starts=django.setup):
        pass
    say(f"{days} days are tiled")
    pairs = CauseEntry.objects.order_by().values_list("job_id", "cause").distinct()
    cause_rows.refresh_findings(set(pairs))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    say("findings are made")
    alert_troubles.add(Interval(posted_day.start - days * DAY, posted_day.end))


def tile(posted_day: Interval, shift: int) -> None:
    """What diagnosis reads and made of the posted day again, so many days earlier; not safe
    twice.
    """
    _tile_causes(posted_day, shift)
    _tile_cells(posted_day, shift)


def go_on(before: datetime, after: datetime) -> None:
    """The fleet does until `after` what it did up to `before`, and the hub hears of it."""
    before_ms, after_ms = to_ms(before), to_ms(after)
    with connection.cursor() as cursor:
        cursor.execute(_GO_ON, {"before_ms": before_ms, "after_ms": after_ms})
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


def accused(day: Interval) -> Counter[str]:
    """How often the rules of how jobs work would have fired on a posted day, by what was really
    wrong with the job, as the simulation has it ("healthy": nothing).
    """
    truth = {name: each.truth for each in ARCHETYPES for name in each.names}
    trials = [
        trial
        for each in OF_WORK
        for trial in back_test(condition(each), condition(each).usual, (), day).trials.weighed
    ]
    names = dict(Job.objects.values_list("key", "name"))
    return Counter(truth[names[trial.episode.subject]] for trial in trials)


def counts() -> dict[str, int]:
    """How much of each there is."""
    return {
        "GPUs": GPU.objects.count(),
        "jobs": Job.objects.count(),
        "runs": Run.objects.count(),
        "causes of hours": CauseEntry.objects.count(),
        "findings": Finding.objects.count(),
    }


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
    for table in _cells(posted_day):
        tiled = _moved_table(table, other_gpu, other_job, shift)
        if len(tiled["gpu_id"]):
            node_id = node_of[int(tiled["gpu_id"][0])]
            hours = range(start_ms, end_ms, HOUR_MS)
            hour_cells.write({node_id: (tiled, hours)}, start_ms=start_ms, end_ms=end_ms)


@cache
def _cells(posted_day: Interval) -> tuple[Table, ...]:
    """By node, read once in each process."""
    nodes = list(Node.objects.values_list("pk", flat=True))
    return tuple(hour_cells.read(nodes, posted_day.start_ms, posted_day.end_ms).values())


def _tiled_jobs(shift: int) -> dict[int, int]:
    """By id of a posted day's job the one that was tiled from it."""
    ids = dict(Job.objects.values_list("key", "pk"))
    tiled = {pk: ids.get(f"{key}-{shift}") for key, pk in ids.items()}
    return {pk: other for pk, other in tiled.items() if other is not None}


def _moved_table(
    table: Table, other_gpu: Mapping[int, int], other_job: Mapping[int, int], shift: int
) -> Table:
    known = np.isin(table["gpu_id"], list(other_gpu)) & np.isin(table["job_id"], list(other_job))
    tiled = {name: values[known] for name, values in table.items()}
    tiled["gpu_id"] = _replaced(tiled["gpu_id"], other_gpu)
    tiled["job_id"] = _replaced(tiled["job_id"], other_job)
    tiled["start_ms"] = tiled["start_ms"] - shift * DAY_MS
    return joined([tiled])


def _replaced(ids: Ints, other: Mapping[int, int]) -> Ints:
    distinct, places = np.unique(ids, return_inverse=True)
    return np.array([other[pk] for pk in distinct.tolist()], dtype=np.int64)[places]
