"""What is wrong when the database says no, in words for whoever has to wait or to do something."""

from psycopg import errors
from psycopg_pool import PoolTimeout

DISK_FULL = "the disk of the database is full"
UNKNOWN = "the database is not available"
TEXTS: tuple[tuple[type[Exception], str], ...] = (
    (errors.DiskFull, DISK_FULL),
    (errors.LockNotAvailable, "others write the same rows"),
    (errors.QueryCanceled, "the database took too long"),
    (errors.DeadlockDetected, "others write the same rows"),
    (PoolTimeout, "all connections to the database are in use"),
)


def database_trouble(error: BaseException) -> str:
    """What the error of Django, or of psycopg, is about."""
    cause = error.__cause__ or error
    return next((text for kind, text in TEXTS if isinstance(cause, kind)), UNKNOWN)
