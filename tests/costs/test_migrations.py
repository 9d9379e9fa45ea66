"""The rate book's tables and views can be taken back, and prices stay what they were."""

from decimal import Decimal

import pytest
from django.core.management import call_command
from django.db import connection

from tests.costs.factories import a_gpu, a_rate

BEFORE_GPUS_AND_POOLS = "0004"


@pytest.mark.django_db(transaction=True)
def test_every_step_back_keeps_the_price_of_a_gpu():
    a_rate("1.25", gpu=a_gpu())
    try:
        for step in ("0009", "0007", "0006", BEFORE_GPUS_AND_POOLS):
            call_command("migrate", "costs", step, verbosity=0)
            with connection.cursor() as cursor:
                cursor.execute("SELECT usd_per_gpu_hour FROM costs_gpurate")
                assert cursor.fetchall() == [(Decimal("1.25"),)]
    finally:
        call_command("migrate", "costs", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT usd_per_gpu_hour FROM costs_gpurate")
        assert cursor.fetchall() == [(Decimal("1.25"),)]
