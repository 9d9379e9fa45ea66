"""What manage.py demo_fleet refuses before it makes anything."""

import pytest
from django.core.management import CommandError, call_command

pytestmark = pytest.mark.django_db


def test_windows_that_are_final_when_they_come_are_refused(settings):
    settings.RAW_RETENTION_DAYS = 35

    with pytest.raises(CommandError, match="--ledger-days tiles older ones"):
        call_command("demo_fleet", "--gpus", "8", "--days", "36")
