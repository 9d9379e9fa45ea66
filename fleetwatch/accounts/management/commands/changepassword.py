"""manage.py changepassword [USER]: Django's; that it was done is in the audit log."""

import getpass
from typing import Any

from django.contrib.auth.management.commands import changepassword
from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.lib.commands import HubCommand


class Command(HubCommand, changepassword.Command):
    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> str | None:
        done = super().handle(*args, **options)
        record("person.password", options["username"] or getpass.getuser())
        return done
