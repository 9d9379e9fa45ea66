"""The accounts' own clock."""

from importlib import import_module

from celery import shared_task
from django.conf import settings

from fleetwatch.operations.services import run_alone


@shared_task(ignore_result=True)
def ask_directory() -> None:
    """No row for each time that there is none, and nothing of LDAP is loaded."""
    if settings.DIRECTORY is None:
        return
    directory_look = import_module("fleetwatch.accounts.log_in.directory_look")
    run_alone("accounts.ask_directory", directory_look.look)
