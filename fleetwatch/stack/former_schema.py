"""Databases and backups of before the migrations were made one a room.

The tables are the same, so what stands at the last of the former migrations is taken over as it
is. What is older is refused: the migrations that would bring it there are no longer here.
"""

from collections.abc import Iterable, Mapping

from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder

from fleetwatch.lib.env import ConfigurationError
from fleetwatch.lib.sql import execute

PRESENT = "0001_schema"
# the last revision of FleetWatch that has the former migrations
LAST_REVISION = "bd064983"
# and the last of them in each room
LAST = {
    "accounts": "0001_initial",
    "alerts": "0003_default_rule",
    "budgets": "0001_initial",
    "costs": "0025_rates_of_boards",
    "diagnosis": "0010_what_wastes_is_not_well",
    "ingest": "0004_rights_of_agent_tokens",
    "inventory": "0013_boards_of_virtual_gpus",
    "jobs": "0012_jobs_that_share_a_key",
    "ledger": "0018_states_of_days_as_shown",
    "notify": "0001_initial",
    "operations": "0001_initial",
    "reports": "0004_free_capacity_in_statements",
    "telemetry": "0007_windows_of_gpus_that_moved",
}


class OlderSchemaError(ConfigurationError):
    """A database or backup that this version can't bring up to date; the text says what to do."""


def newest(migrations: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The newest migration of each app, of pairs of app and name."""
    names: dict[str, str] = {}
    for app, name in migrations:
        names[app] = max(names.get(app, ""), name)
    return names


def applied() -> dict[str, str]:
    """The newest migration of each app that this database has; none = it is empty."""
    return newest(MigrationRecorder(connection).applied_migrations())


def at_present(migrations: Mapping[str, str], *, what: str) -> dict[str, str]:
    """The newest migration of each app, those of the former ones by what stands for them now.

    Raises OlderSchemaError where they are older than the last ones; `what` has them, for people.
    """
    # this room had one migration only, whatever the version
    if migrations.get("accounts") != LAST["accounts"]:
        return dict(migrations)
    for app, last in LAST.items():
        name = migrations.get(app, "none")
        if name != last:
            raise OlderSchemaError(
                f"{what} is of a FleetWatch before revision {LAST_REVISION} ({app} is at {name}),"
                " and what would upgrade it is no longer here: bring it up to date with that"
                " revision first, as docs/upgrading.md says"
            )
    return {**migrations, **dict.fromkeys(LAST, PRESENT)}


def take_over() -> None:
    """Records the present migrations as applied where the last of the former ones are.

    Any other database is left as it is. Raises OlderSchemaError for one that is older.
    """
    before = applied()
    if at_present(before, what="this database") == before:
        return
    with transaction.atomic():
        execute("DELETE FROM django_migrations WHERE app = ANY(%s)", [list(LAST)])
        execute(
            "INSERT INTO django_migrations (app, name, applied)"
            " SELECT app, %s, now() FROM unnest(%s::text[]) AS room (app)",
            [PRESENT, list(LAST)],
        )
