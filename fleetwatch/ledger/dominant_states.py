"""The state that took most of each step of a GPU's time, as maps show it.

Of steps within a UTC day a process keeps what it made of the day, while the day's entries are the
same: of weeks that are looked at again only what changed is read.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger import state_days
from fleetwatch.ledger.judgement.observations import Ints
from fleetwatch.ledger.models import HOURS
from fleetwatch.ledger.policy import SHOWN_STATES
from fleetwatch.ledger.state_days import DayHours
from fleetwatch.lib.intervals import DAY_MS, HOUR_MS, Interval
from fleetwatch.lib.kept import Kept

# of all days together: three months of 10,000 GPUs in steps of 8 hours
MOST_BYTES = 16 * 2**20
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class _Day:
    """GPUs by id, ascending, and of each step of a UTC day the place in SHOWN_STATES, or
    UNKNOWN.
    """

    gpu_ids: Ints
    states: NDArray[np.int8]  # GPUs x steps

    @property
    def size(self) -> int:
        """Bytes."""
        return self.gpu_ids.nbytes + self.states.nbytes

    def of_gpus(self, gpu_ids: Ints) -> NDArray[np.int8]:
        """GPUs x steps of these GPUs; UNKNOWN of others."""
        place = np.searchsorted(self.gpu_ids, gpu_ids)
        is_here = np.append(self.gpu_ids, UNKNOWN)[place] == gpu_ids
        states = np.full((len(gpu_ids), self.states.shape[1]), UNKNOWN, dtype=np.int8)
        states[is_here] = self.states[place[is_here]]
        return states


# A UTC day, and the hours of a step.
_Key = tuple[date, int]


_KEPT: Kept[_Key, _Day] = Kept(MOST_BYTES)


def dominant(gpu_ids: Sequence[int], interval: Interval, *, step_ms: int) -> Ints:
    """GPUs x steps: position in SHOWN_STATES of the state that took most of the step, -1 where the
    ledger says nothing.

    The interval and its steps begin at whole UTC hours. Of a MIG GPU its instances' time counts.
    """
    if DAY_MS % step_ms or interval.start_ms % step_ms:
        return state_days.most(state_days.spent(gpu_ids, interval, step_ms=step_ms))
    days = state_days.days_of(interval)
    made = dict(_days(days, step_ms // HOUR_MS))
    wanted = np.array(gpu_ids, dtype=np.int64)
    unknown = np.full((len(wanted), DAY_MS // step_ms), UNKNOWN, dtype=np.int8)
    whole = np.hstack([made[day].of_gpus(wanted) if day in made else unknown for day in days])
    first = interval.start_ms % DAY_MS // step_ms
    return whole[:, first : first + interval.duration_ms // step_ms].astype(np.int64)


def _days(days: Sequence[date], hours: int) -> Iterator[tuple[date, _Day]]:
    """Those of which there are entries, in steps of so many hours."""
    # read before the entries: what is posted meanwhile makes the version another one
    versions = state_days.versions_of(days)
    kept = {day: _KEPT.read((day, hours), versions[day]) for day in versions}
    missing = [day for day in days if kept.get(day) is None]
    yield from ((day, made) for day, made in kept.items() if made is not None)
    for day, made in _made(missing, hours):
        if day in versions:
            _KEPT.keep((day, hours), versions[day], made)
        yield day, made


def _made(days: Sequence[date], hours: int) -> Iterable[tuple[date, _Day]]:
    return ((day.day, _of_day(day, hours)) for day in state_days.of_days(days))


def _of_day(day: DayHours, hours: int) -> _Day:
    steps = day.spent_ms.reshape(len(day.gpu_ids), HOURS // hours, hours, len(SHOWN_STATES))
    order = np.argsort(day.gpu_ids)
    states = state_days.most(steps.sum(axis=2, dtype=np.int64))
    return _Day(day.gpu_ids[order], states[order].astype(np.int8))
