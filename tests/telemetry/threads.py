"""A second connection for tests of concurrency."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from django.db import connection


def in_another_connection(work: Callable[[], Any]) -> "Future[Any]":
    """The future of `work`, started at once in a thread with a database connection of its own."""

    def run() -> Any:
        try:
            return work()
        finally:
            connection.close()

    executor = ThreadPoolExecutor(max_workers=1)
    future = executor.submit(run)
    executor.shutdown(wait=False)
    return future
