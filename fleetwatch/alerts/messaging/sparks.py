"""The small chart in the message of one job: how much its GPUs worked until telemetry ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from django.db import transaction

from fleetwatch.alerts.breach import Breach
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.selectors import holds
from fleetwatch.lib.fences import Fences
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.telemetry import selectors as telemetry

SHOWN_MS = 3 * HOUR_MS
STEP_MS = 5 * 60_000
MAX_GPUS = 8  # read for one chart
UTILISATION = "util_mean"


@dataclass(frozen=True, slots=True)
class Spark:
    """Shares of 0 to 1, the oldest first; None where nothing was measured. `label` says of what."""

    shares: tuple[float | None, ...] = ()
    label: str = ""


NOTHING = Spark()


def of_breach(breach: Breach) -> Spark:
    """The mean utilisation of the job's GPUs in steps of five minutes over the last three hours up
    to where telemetry ends; NOTHING of another subject, and of a job that held no GPU then.

    A chart that can't be drawn keeps no message from being sent.
    """
    if breach.kind != "job":
        return NOTHING
    return Fences().within(f"chart of {breach.subject}", partial(_of_job, breach), NOTHING)


@transaction.atomic
def _of_job(breach: Breach) -> Spark:
    job = Job.objects.filter(key=breach.subject).first()
    if job is None:
        return NOTHING
    end_ms = breach.until_ms // STEP_MS * STEP_MS
    gpus = _held(job, end_ms - SHOWN_MS, end_ms)
    return Spark(_means(_utilisation(gpus[:MAX_GPUS], end_ms)), _label(gpus))


def _held(job: Job, start_ms: int, end_ms: int) -> list[GPU]:
    """The GPUs that the job held at any moment of the time, by node and index."""
    held = {
        row.gpu_id: row.gpu
        for row in holds(job)
        if any(first < end_ms and last > start_ms for first, last in row.held)
    }
    return list(held.values())


def _utilisation(gpus: Sequence[GPU], end_ms: int) -> list[list[float | None]]:
    """Of each GPU; in steps of the longest window where one is longer than a step."""
    step_s = max([STEP_MS // 1000, *(gpu.node.window_s for gpu in gpus)])
    between = {"start_ms": end_ms - SHOWN_MS, "end_ms": end_ms, "step_s": step_s}
    read = [telemetry.series(gpu, columns=[UTILISATION], **between) for gpu in gpus]
    return [series.columns[UTILISATION] for series in read]


def _means(of_gpus: Sequence[Sequence[float | None]]) -> tuple[float | None, ...]:
    """Of each step the mean of what was measured; None where nothing was."""
    steps = zip(*of_gpus, strict=True)
    measured = ([share for share in step if share is not None] for step in steps)
    return tuple(round(fmean(shares), 3) if shares else None for shares in measured)


def _label(gpus: Sequence[GPU]) -> str:
    if not gpus:
        return ""
    whose = "its GPU" if len(gpus) == 1 else f"its {len(gpus)} GPUs"
    if len(gpus) > MAX_GPUS:
        whose = f"{MAX_GPUS} of {whose}"
    return f"Utilisation of {whose}, 3 h until telemetry ends"
