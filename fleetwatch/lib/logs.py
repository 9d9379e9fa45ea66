"""What is kept out of the log, and what is cut there; and that no work fails for want of it."""

import logging
from contextlib import suppress
from typing import TextIO, cast

MAX_REFUSAL = 300  # characters; a Host header may have thousands


class ExpectedRefusals(logging.Filter):
    """Drops the 503 of /readyz: while starting it is the answer, not an error.

    A request that Django refuses as suspicious (a Host that is not ours, a form of 100,000 fields)
    is one line: anybody can send it, and its traceback leads through Django alone.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("django.security"):
            record.msg = record.getMessage()[:MAX_REFUSAL]
            record.args = record.exc_info = None
        return not (
            getattr(record, "status_code", None) == 503 and "/readyz" in record.getMessage()
        )


class _Lossy:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def lossy(stream: TextIO) -> TextIO:
    """The stream; what it can't take (its disk is full, its reader gone) is lost, as Python's own
    logging loses it.

    A line that raises would be a batch that is stored and never answered.
    """
    return cast(TextIO, _Lossy(stream))
