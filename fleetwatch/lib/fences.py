"""Parts of a run, none of which keeps the others from being done."""

from collections.abc import Callable
from typing import TypeVar

import structlog

Result = TypeVar("Result")

log = structlog.get_logger(__name__)


class PartlyDoneError(Exception):
    """What could not be done, and why; the other parts are done."""


class Fences:
    """Remembers what failed, for `check` to tell once all was tried."""

    def __init__(self) -> None:
        self._failures: list[str] = []

    def within(self, what: str, work: Callable[[], Result], otherwise: Result) -> Result:
        """What the work gives; `otherwise` where it failed. Work that writes is a transaction of
        its own (within one: a savepoint), so that it leaves nothing half done.
        """
        try:
            return work()
        except PartlyDoneError as error:  # its parts are logged
            self._failures.append(str(error))
        except Exception as error:
            log.exception("part failed", part=what)
            self._failures.append(f"{what}: {type(error).__name__}: {error}")
        return otherwise

    def check(self) -> None:
        """Raises PartlyDoneError where something failed."""
        if self._failures:
            raise PartlyDoneError("; ".join(self._failures))
