"""What is kept out of the log, and what is cut there."""

import logging

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
