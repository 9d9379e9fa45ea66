"""The large tables of a hub, laid over three database nodes by `manage.py distribute`."""

import pytest
from django.core.management import CommandError, call_command

from fleetwatch.lib.sql import execute
from fleetwatch.stack.distribution import TABLES

pytestmark = pytest.mark.django_db

LAID_OUT = """
    SELECT table_name::text, distribution_column, colocation_id
    FROM citus_tables WHERE citus_table_type = 'distributed'
"""
KEYS = """
    SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid = ANY(%s::regclass[]) AND contype IN ('p', 'u') ORDER BY contype
"""
HOLDERS = """
    SELECT count(DISTINCT placement.groupid)
    FROM pg_dist_shard AS shard JOIN pg_dist_placement AS placement USING (shardid)
    WHERE shard.logicalrelid = 'ledger_entry'::regclass
"""


def test_each_large_table_lies_by_node_and_a_nodes_rows_lie_together():
    rows = execute(LAID_OUT)

    assert {table: key for table, key, _ in rows} == dict.fromkeys(TABLES, "node_id")
    assert len({together for *_, together in rows}) == 1


def test_rows_lie_on_both_workers():
    assert execute(HOLDERS) == [(2,)]


def test_every_key_begins_with_the_node():
    keys = [key for _, key in execute(KEYS, [list(TABLES)])]

    assert len(keys) > len(TABLES)
    assert [key for key in keys if "(node_id, " not in key] == []


def test_what_is_distributed_already_is_said_and_left_alone():
    before = execute(LAID_OUT)

    with pytest.raises(CommandError, match="the tables are distributed already: nothing to do"):
        call_command("distribute")

    assert execute(LAID_OUT) == before


@pytest.mark.parametrize("table", TABLES)
def test_the_disk_that_a_table_takes_is_that_of_all_database_nodes(table):
    [[stored, of_workers, of_coordinator]] = execute(
        "SELECT telemetry_stored_bytes(%(table)s), citus_total_relation_size(%(table)s),"
        " pg_total_relation_size(%(table)s)",
        {"table": table},
    )

    assert stored == of_workers > of_coordinator
