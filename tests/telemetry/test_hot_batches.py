"""The table of hot batches, which Django did not make."""

import pytest
from django.core.management import call_command

from fleetwatch.telemetry.models import Batch
from tests.telemetry.factories import make_node, store

pytestmark = pytest.mark.django_db(transaction=True)


def test_emptying_the_database_empties_the_hot_table():
    store(make_node())

    call_command("flush", interactive=False, verbosity=0)

    assert not Batch.objects.exists()
