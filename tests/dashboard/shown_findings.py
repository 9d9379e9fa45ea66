"""Findings that tests of the inbox show."""

from datetime import timedelta

from fleetwatch.diagnosis.models import Finding
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.diagnosis.told import NOW, cause, finding, gpu, job, rate


def a_week_of_runs() -> list[Finding]:
    """At $2 an hour: three runs of ann's "train", of which the last goes on, and one of bob's, over.

    Each wasted an hour, of which half to all could be saved.
    """
    rate()
    said = []
    for number, (user, ended, hours_ago) in enumerate(
        (("ann", True, 50), ("ann", True, 26), ("ann", False, 1), ("bob", True, 26))
    ):
        end_ms = to_ms(NOW) - (hours_ago - 1) * HOUR_MS
        run = job(f"slurm/della/{number}", user=user, end_ms=end_ms if ended else None)
        cause(of=run, on=gpu(number), start=NOW - timedelta(hours=hours_ago))
        said.append(finding(run, first_ms=end_ms - HOUR_MS, last_ms=end_ms))
    return said
