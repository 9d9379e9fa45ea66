"""A fleet's September and October in the ledger, every figure of which can be added up by hand."""

from datetime import UTC, datetime, timedelta

from fleetwatch.finance import bookings
from fleetwatch.finance.invoices import import_invoice
from fleetwatch.finance.reconciliation import reconciliation
from fleetwatch.ledger.hour_rows import count_versions
from fleetwatch.ledger.models import Adjustment, Policy
from fleetwatch.lib.intervals import to_ms
from fleetwatch.reports import monthly
from fleetwatch.reports.models import MonthRun, Report
from tests.costs.factories import HOUR_MS, a_gpu, a_job, a_rate, an_entry

SEPTEMBER, OCTOBER = datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def counted(gpu, state="useful", gpu_ms=HOUR_MS, *, start=OCTOBER, **fields):
    """An entry as posting leaves it: its hour has a new version."""
    entry = an_entry(gpu, state, gpu_ms, start=start, **fields)
    count_versions({gpu.node_id: [to_ms(start) // HOUR_MS * HOUR_MS]})
    return entry


def a_fleet():
    """Two GPUs.

    October: nlp $9 (2 h H100 at $4, 1 h L4 at $1), vision $4, no team $1, free $4, unobserved $1:
    $19. September: nlp $8.
    """
    big, small = a_gpu(model="H100"), a_gpu(model="L4", node="gpu-02")
    a_rate("4", gpu=big)
    a_rate("1", gpu=small)
    train, tune = (
        a_job(key="slurm/della/1", name="train", user="ann"),
        a_job(key="slurm/della/2", name="tune", user="bob"),
    )
    counted(big, job=train, start=SEPTEMBER)
    counted(big, job=train, start=SEPTEMBER + HOUR)
    counted(big, job=train)
    counted(big, "idle", job=train, start=OCTOBER + HOUR, tier="certain")
    counted(small, job=tune)
    counted(
        big, job=a_job(key="slurm/della/3", user="eve", team="vision"), start=OCTOBER + 2 * HOUR
    )
    counted(small, job=a_job(key="docker/x/4", user="", team=None), start=OCTOBER + HOUR)
    counted(big, "free", start=OCTOBER + 3 * HOUR)
    counted(small, "unobserved", start=OCTOBER + 2 * HOUR)
    return big, small


def computed(name="2026-10", *, now=NOW, **fields) -> MonthRun:
    """The month, computed by one worker to the end."""
    monthly.ask(name, now=now, **fields)
    work(now)
    return MonthRun.objects.latest("pk")


def work(now=NOW) -> None:
    """What Celery does: plans, hands out, computes, until nothing waits."""
    while True:
        monthly.plan_waiting(now)
        parts = monthly.hand_out(now)
        if not parts and not MonthRun.objects.filter(state=MonthRun.State.WAITING).exists():
            return
        for part in parts:
            monthly.compute_part(part, now)


def newest(subject="", kind=None) -> Report:
    """The newest version of a team's statement, or of the fleet's report."""
    return Report.objects.filter(
        kind=kind or ("statement" if subject else "fleet"), subject=subject
    ).latest("version")


def an_adjustment(
    gpu, gpu_ms, *, job=None, state="useful", start=SEPTEMBER, booked_at=OCTOBER + HOUR
):
    return Adjustment.objects.create(
        node=gpu.node,
        gpu=gpu,
        start=start,
        job=job,
        state=state,
        gpu_ms=gpu_ms,
        policy=Policy.objects.first(),
        cause="late data",
        booked_at=booked_at,
    )


def book_everything():
    return book(None)


def book(label):
    """Books the line of that label (None = every line) of an invoice of October's four hours of
    H100 at $4.50.
    """
    import_invoice(b"gpu_model,gpu_hours,amount\nH100,4,18\n", "2026-10", now=NOW)
    found = reconciliation("2026-10", now=NOW)
    return bookings.book(
        "2026-10",
        {line.key for line in found.lines if label in (None, line.label)},
        seen=found.fingerprint,
        reason="=signed",
        by="ann",
        now=NOW,
    )
