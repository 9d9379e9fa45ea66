"""When a job held GPUs: the period of its figures unless another is asked for."""

from fleetwatch.jobs.models import Hold, Job
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms

LONGEST_JOB_MS = 90 * 24 * HOUR_MS  # of a longer job the last 90 days are shown unless asked


def held_interval(job: Job) -> Interval | None:
    """From the job's first hold on a GPU to the end of its last; None when it never held one."""
    spans = [
        span
        for held in Hold.objects.filter(job=job).values_list("held", flat=True)
        for span in held
    ]
    if not spans:
        return None
    first_ms = min(first for first, _ in spans)
    last_ms = max(last for _, last in spans)
    return Interval(from_ms(max(first_ms, last_ms - LONGEST_JOB_MS)), from_ms(last_ms))
