"""What is kept out of the log."""

import logging


class ExpectedRefusals(logging.Filter):
    """Drops the 503 of /readyz: while starting it is the answer, not an error."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (getattr(record, "status_code", None) == 503 and "/readyz" in record.getMessage())
