"""Rules and jobs that tests of rules' pages show."""

from fleetwatch.alerts.models import Rule
from fleetwatch.lib.intervals import HOUR_MS
from tests import stored_runs
from tests.dashboard import factories


def idle_jobs() -> None:
    """Ann's job was idle for 40 minutes, Bo's for an hour, at $2.00 an hour."""
    factories.rate("2.00")
    node = factories.node()
    for index, (user, hours) in enumerate((("ann", 2 / 3), ("bo", 1.0))):
        gpu = factories.gpu(node, index=index)
        job = factories.job(f"slurm/della/{index + 1}", user=user, team="nlp")
        idle_ms = int(hours * HOUR_MS)
        idle = {"idle": idle_ms}
        active = {"useful": HOUR_MS}
        stored_runs.store(
            factories.run(gpu, hours_ago=5, hours=hours, states=idle, held_by=job),
            factories.run(gpu, hours_ago=5 - hours, hours=1, states=active, held_by=job),
        )


def watch(rule: Rule) -> str:
    return f"/alerts/rules/{rule.pk}"


def text(answer) -> str:
    assert answer.status_code == 200, answer.content[:500]
    return " ".join(answer.content.decode().split())
