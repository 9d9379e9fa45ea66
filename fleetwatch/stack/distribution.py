"""Lays the large tables over several database nodes, by Citus: a node's rows lie together, and so
does its ledger with its columns and causes. All else stays on the coordinator.
"""

from dataclasses import dataclass

from django.db import connection, transaction
from psycopg import sql

from fleetwatch.diagnosis.models import CapacityEntry, CauseEntry, NodeCells
from fleetwatch.ledger.models import Entry, HourCells, HourRuns
from fleetwatch.lib.sql import execute, read_statement
from fleetwatch.telemetry.models import Chunk, DayMatrix

KEY = "node_id"
LARGE = (
    *(Chunk, DayMatrix),
    *(Entry, HourRuns, HourCells),
    *(NodeCells, CauseEntry, CapacityEntry),
)
TABLES = tuple(model._meta.db_table for model in LARGE)
_HAS_CITUS = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
_DISTRIBUTED = "SELECT logicalrelid::text FROM pg_dist_partition WHERE partmethod = 'h'"
_SERVERS = "SELECT count(*) FROM pg_dist_node WHERE isactive AND shouldhaveshards"
_REFERENCES = read_statement("stack/sql/references_of.sql")
_FUNCTIONS = read_statement("stack/sql/own_functions.sql")
_PRIMARY_KEY = "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'p'"


class DistributionError(Exception):
    """The tables can't be distributed; says why and what to do."""


@dataclass(frozen=True, slots=True)
class Distributed:
    """What was laid out: tables with their rows, over how many database nodes."""

    rows: dict[str, int]
    database_nodes: int


def distribute() -> Distributed:
    """Lays TABLES out by node, with what is in them; all or nothing. Raises DistributionError.

    Nobody reads or writes them meanwhile. What was there already stays as it is.
    """
    database_nodes = _database_nodes()
    with transaction.atomic():
        waiting = [table for table in TABLES if table not in _distributed()]
        if not waiting:
            raise DistributionError("the tables are distributed already: nothing to do")
        # one connection to each database node: functions and tables are of one transaction
        execute("SET LOCAL citus.multi_shard_modify_mode TO 'sequential'")
        for [signature] in execute(_FUNCTIONS):
            execute("SELECT create_distributed_function(%s::regprocedure)", [signature])
        rows = {table: _lay_out(table) for table in waiting}
    for table in waiting:
        # what was copied to the database nodes still lies in the coordinator's own table
        execute("SELECT truncate_local_data_after_distributing_table(%s::regclass)", [table])
    return Distributed(rows, database_nodes)


def _database_nodes() -> int:
    """How many database nodes hold rows. Raises DistributionError where there is no Citus."""
    [[has_citus]] = execute(_HAS_CITUS)
    if not has_citus:
        raise DistributionError(
            f"the database {connection.settings_dict['NAME']} has no Citus: CREATE EXTENSION citus"
            " in it, on the coordinator and on each worker, then citus_add_node (docs/scale.md)"
        )
    [[count]] = execute(_SERVERS)
    if not count:
        raise DistributionError(
            "no database node takes rows: SELECT citus_add_node('HOST', PORT) for each worker"
        )
    return int(count)


def _distributed() -> set[str]:
    return {table for [table] in execute(_DISTRIBUTED)}


def _lay_out(table: str) -> int:
    """Distributes one table; how many rows it has.

    Keys begin with the node: only within a node can a database node know that they are unique.
    What refers to tables of the coordinator is not checked any more, as most of these never were.
    """
    name = sql.Identifier(table)
    for [constraint] in execute(_REFERENCES, [table]):
        drop = sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}")
        execute(drop.format(name, sql.Identifier(constraint)))
    [[primary_key]] = execute(_PRIMARY_KEY, [table])
    execute(
        sql.SQL("ALTER TABLE {table} DROP CONSTRAINT {old}, ADD PRIMARY KEY ({key}, id)").format(
            table=name, old=sql.Identifier(primary_key), key=sql.Identifier(KEY)
        )
    )
    by_id = sql.Identifier(f"{table}_by_id")
    execute(sql.SQL("CREATE INDEX {} ON {} (id)").format(by_id, name))
    together = "default" if table == TABLES[0] else TABLES[0]
    execute(
        "SELECT create_distributed_table(%s::regclass, %s, colocate_with => %s)",
        [table, KEY, together],
    )
    [[rows]] = execute(sql.SQL("SELECT count(*) FROM {}").format(name))
    return int(rows)
