"""An hour in which a job worked well: what its finding is drawn beside."""

from dataclasses import dataclass

from fleetwatch.diagnosis.causes import WELL_CODES
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.selectors import runs_like
from fleetwatch.lib.intervals import to_ms

RUNS = 8  # earlier ones, asked too
ALL_CELLS = 0b1111_1111_1111  # of a clock hour


@dataclass(frozen=True, slots=True)
class WellHour:
    """A clock hour of one GPU, all of which is called well."""

    gpu: GPU
    start_ms: int


def well_hour(job: Job) -> WellHour | None:
    """The newest of the job itself, or else of the earlier runs of its name and owner; None where
    none is known.
    """
    own = _newest([job])
    return own or _newest(runs_like(job, limit=RUNS))


def _newest(jobs: list[Job]) -> WellHour | None:
    well = CauseEntry.objects.filter(job__in=jobs, cause__in=WELL_CODES, cells=ALL_CELLS)
    newest = well.select_related("gpu__node", "gpu__model").order_by("-start", "gpu_id").first()
    return WellHour(newest.gpu, to_ms(newest.start)) if newest else None
