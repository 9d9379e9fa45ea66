"""Of which causes a job's incidents are, by the condition of their rule. Pure."""

from fleetwatch.diagnosis.cause import EMPTY, HELD, PART
from fleetwatch.diagnosis.causes import OF_IDLE_JOBS, OF_WORK, STUCK

# by the condition of a rule the causes whose findings are of what its incidents are about
COVERED = {
    "job_idle": (OF_IDLE_JOBS[HELD], OF_IDLE_JOBS[EMPTY]),
    "gpu_idle": (OF_IDLE_JOBS[PART],),
    "job_hung": STUCK,
    "job_spinning": STUCK,
    "job_stalled": OF_WORK,
    "job_underused": OF_WORK,
    "low_utilisation": OF_WORK,
}
