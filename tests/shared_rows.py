"""Rows that are made once for the tests of a file which only read them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction


@contextmanager
def shared_rows(django_db_blocker: Any) -> Iterator[None]:
    """What is written within is there for each test of a file, which takes back what it changed;
    and so does the last. For a fixture of a module, after `django_db_setup`; no test of its file
    has transactions of its own.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)
