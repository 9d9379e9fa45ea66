"""What migrations of ingest do with rows that stand."""

import pytest
from django.core.management import call_command
from django.db import connection


@pytest.mark.django_db(transaction=True)
def test_a_token_made_for_more_nodes_lets_in_a_thousand_from_the_upgrade_on():
    columns = "(digest, hint, created_at, expires_at, uses_left)"
    try:
        call_command("migrate", "ingest", "0001", verbosity=0)
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO ingest_enrollmenttoken {columns} VALUES ('a', 'fw_a', now(), now(),"
                " 10000), ('b', 'fw_b', now(), now(), 999)"
            )
    finally:
        call_command("migrate", "ingest", verbosity=0)

    with connection.cursor() as cursor:
        cursor.execute("SELECT hint, uses_left FROM ingest_enrollmenttoken ORDER BY hint")
        assert cursor.fetchall() == [("fw_a", 1000), ("fw_b", 999)]
