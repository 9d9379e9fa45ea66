"""Equal steps of time by the wall clock of a zone. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import overload

import numpy as np

from fleetwatch.lib.intervals import DAY_MS, MILLISECOND, from_ms

# within so long a zone's clock is set once at most: alike at both ends, it was not
SET_ONCE_MS = 7 * DAY_MS


@dataclass(frozen=True, slots=True)
class ClockSteps(Sequence[datetime]):
    """The moments between which so many equal steps lie, as datetimes of the zone: each is made
    where it is asked for.
    """

    first_ms: int
    step_ms: int
    steps: int
    zone: tzinfo

    def __len__(self) -> int:
        return self.steps + 1

    @overload
    def __getitem__(self, place: int) -> datetime: ...

    @overload
    def __getitem__(self, place: slice) -> list[datetime]: ...

    def __getitem__(self, place: int | slice) -> datetime | list[datetime]:
        places = range(self.steps + 1)[place]
        if isinstance(places, range):
            return list(map(self._moment, places))
        return self._moment(places)

    def texts(self) -> list[str]:
        """Each moment as figures.iso() says it, all in one go."""
        offset = self[0].utcoffset() or timedelta(0)
        if self.step_ms * self.steps > SET_ONCE_MS or self[-1].utcoffset() != offset:
            return [moment.isoformat()[:19] for moment in self]
        first_ms = self.first_ms + offset // MILLISECOND
        clock = (first_ms + self.step_ms * np.arange(self.steps + 1)).astype("datetime64[ms]")
        texts: list[str] = np.datetime_as_string(clock, unit="s").tolist()
        return texts

    def _moment(self, place: int) -> datetime:
        return from_ms(self.first_ms + self.step_ms * place).astimezone(self.zone)


def local(moments: Sequence[datetime], zone: tzinfo) -> Sequence[datetime]:
    """The same moments as datetimes of the zone."""
    if isinstance(moments, ClockSteps):
        return ClockSteps(moments.first_ms, moments.step_ms, moments.steps, zone)
    return [moment.astimezone(zone) for moment in moments]


def texts_of(moments: Sequence[datetime]) -> list[str]:
    """Each moment by its own zone's wall clock, to the second: Plotly knows no zones."""
    if isinstance(moments, ClockSteps):
        return moments.texts()
    return [moment.isoformat()[:19] for moment in moments]
