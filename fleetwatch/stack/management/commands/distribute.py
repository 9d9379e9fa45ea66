"""`manage.py distribute`: lays the large tables over the database nodes of a Citus cluster; exit 1
where that can't be, and why.
"""

from typing import Any

from fleetwatch.lib.commands import HubCommand
from fleetwatch.stack import distribution


class Command(HubCommand):
    help = (
        "Lay the large tables over the database nodes of a Citus cluster, by GPU node; once, on an"
        " empty or a filled hub whose web hosts and workers are stopped."
    )
    refusals = (distribution.DistributionError,)

    def handle(self, *args: Any, **options: Any) -> None:
        laid_out = distribution.distribute()
        for table, rows in laid_out.rows.items():
            self.stdout.write(f"{table}: {rows} rows")
        self.stdout.write(f"distributed over {laid_out.database_nodes} database nodes")
