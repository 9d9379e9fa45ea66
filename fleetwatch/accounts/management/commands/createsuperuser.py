"""manage.py createsuperuser: Django's; the account is in the audit log."""

from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.core.management.base import CommandError
from django.db import IntegrityError, transaction

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import User
from fleetwatch.lib.commands import HubCommand


class Command(HubCommand, createsuperuser.Command):
    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        before = set(User.objects.filter(is_superuser=True).values_list("pk", flat=True))
        try:
            super().handle(*args, **options)
        except IntegrityError as error:
            raise CommandError("there is a user of that name, in large or small letters") from error
        for user in User.objects.filter(is_superuser=True).exclude(pk__in=before):
            record("person.create", user.username, role=User.Role.ADMIN, email=user.email)
