"""Background work as /status lists it: each task's newest run beside those before it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetwatch.dashboard import numbers, words
from fleetwatch.operations.models import JobRun
from fleetwatch.operations.selectors import Rhythm, failures_by_name, latest_runs

DAY = timedelta(days=1)
NO_RHYTHM = Rhythm(None, None, 0.0)
MISSED = 3  # times its rhythm without a run: it comes when there is something to do


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A task by its newest run: `usually` is how long it takes, "" where that is not known;
    `next_ms` in how many milliseconds it is expected again, 0 = it is due, None = that is not
    known. `failures` are the day's, `failed_at` when the last of them began.
    """

    run: JobRun
    name: str
    usually: str
    next_ms: int | None
    failures: int
    failed_at: datetime | None

    @property
    def is_well(self) -> bool:
        """Whether its newest run did not fail, nor any of the day."""
        return self.run.ok is not False and not self.failures


def task_lines(now: datetime, rhythm_of: Mapping[str, Rhythm]) -> list[TaskLine]:
    """Every task, those first whose newest run failed, then by name."""
    failed = failures_by_name(now - DAY)
    lines = [
        _line(run, rhythm_of.get(run.name, NO_RHYTHM), failed.get(run.name, (0, None)), now)
        for run in latest_runs()
    ]
    return sorted(lines, key=lambda line: (line.run.ok is not False, line.name))


def _line(
    run: JobRun, rhythm: Rhythm, failed: tuple[int, datetime | None], now: datetime
) -> TaskLine:
    return TaskLine(
        run=run,
        name=words.task_name(run.name),
        usually="" if rhythm.took_s is None else numbers.took(rhythm.took_s * 1000),
        next_ms=_next_ms((now - run.started_at).total_seconds(), rhythm.every_s),
        failures=failed[0],
        failed_at=failed[1],
    )


def _next_ms(since_s: float, every_s: float | None) -> int | None:
    if every_s is None or since_s > MISSED * every_s:
        return None
    return round(max(0, every_s - since_s) * 1000)
