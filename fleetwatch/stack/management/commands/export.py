"""`manage.py export`: raw windows of a period as CSV or Parquet; exit 1 when it can't be written, 2
for bad arguments.
"""

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from django.core.management.base import CommandParser

from fleetwatch.accounts.audit import record
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.lib.commands import HubCommand
from fleetwatch.lib.intervals import Interval
from fleetwatch.telemetry import export

FORMATS = ("csv", "parquet")


class Command(HubCommand):
    help = (
        "Writes the raw windows of a period: one line per GPU and window, all columns that agents"
        " send (docs/store.md)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--from",
            dest="start",
            metavar="TIME",
            required=True,
            help="ISO 8601, UTC unless it says otherwise",
        )
        parser.add_argument(
            "--to",
            dest="end",
            metavar="TIME",
            required=True,
            help="ISO 8601; windows that start before it",
        )
        parser.add_argument(
            "--node",
            action="append",
            metavar="NAME",
            help="only this node; may be given several times",
        )
        parser.add_argument(
            "--gpu",
            action="append",
            metavar="UUID",
            help="only this GPU; may be given several times",
        )
        parser.add_argument(
            "--metrics", metavar="NAMES", help="only these columns, with commas; default: all"
        )
        parser.add_argument(
            "--format",
            choices=FORMATS,
            default="csv",
            help="parquet needs pyarrow: pip install pyarrow",
        )
        parser.add_argument(
            "--output", metavar="FILE", default="-", help="default: standard output"
        )

    def handle(self, *args: Any, start: str, end: str, output: str, **options: Any) -> None:
        wanted = export.Wanted(
            nodes=self._nodes(options["node"], options["gpu"]),
            gpus=frozenset(options["gpu"]) if options["gpu"] else None,
            interval=self._interval(start, end),
            metrics=self._metrics(options["metrics"]),
        )
        if options["format"] == "parquet":
            count = self._parquet(wanted, output)
        else:
            with self._opened(output) as out:
                count = export.write_csv(export.portions(wanted), wanted.metrics, out)
        facts = {"start": wanted.interval.start.isoformat(), "end": wanted.interval.end.isoformat()}
        record("export.windows", output, windows=count, nodes=len(wanted.nodes), **facts)
        self.stderr.write(f"windows written: {count}, nodes: {len(wanted.nodes)}")

    def _parquet(self, wanted: export.Wanted, output: str) -> int:
        if importlib.util.find_spec("pyarrow") is None:
            self.refuse_argument(
                "--format parquet needs pyarrow, which is not installed here: pip install pyarrow,"
                " or take --format csv"
            )
        if output == "-":
            self.refuse_argument(
                "--format parquet needs --output FILE: a Parquet file is not written in one go"
            )
        written: int = importlib.import_module("fleetwatch.telemetry.parquet").write_parquet(
            export.portions(wanted), wanted.metrics, Path(output)
        )
        return written

    @contextlib.contextmanager
    def _opened(self, output: str) -> Iterator[IO[str]]:
        try:
            if output == "-":
                # the stream itself: OutputWrapper ends every write with a line break
                yield cast(IO[str], self.stdout._out)
            else:
                with Path(output).open("w", encoding="utf-8", newline="") as out:
                    yield out
        except BrokenPipeError:  # `| head` has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except OSError as error:
            self.stderr.write(f"{output}: {error.strerror}")
            sys.exit(1)

    def _nodes(self, names: list[str] | None, uuids: list[str] | None) -> list[Node]:
        """The named nodes, those that hold or held the named GPUs, or all of them."""
        for name in sorted(set(names or []) - set(Node.objects.values_list("name", flat=True))):
            self.refuse_argument(f"--node {name}: there is no such node")
        gpus = GPU.objects.filter(uuid__in=uuids or []).values_list("uuid", "node_id")
        for uuid in sorted(set(uuids or []) - {uuid for uuid, _ in gpus}):
            self.refuse_argument(f"--gpu {uuid}: there is no such GPU")
        nodes = Node.objects.order_by("name")
        if names:
            return list(nodes.filter(name__in=names))
        return list(nodes.filter(pk__in=[node_id for _, node_id in gpus]) if uuids else nodes)

    def _metrics(self, names: str | None) -> list[str]:
        if names is None:
            return list(export.METRICS)
        wanted = [name.strip() for name in names.split(",") if name.strip()]
        for name in wanted:
            if name not in export.METRICS:
                self.refuse_argument(
                    f"--metrics {name}: there is no such column; there are"
                    f" {', '.join(export.METRICS)}"
                )
        return list(dict.fromkeys(wanted))

    def _interval(self, start: str, end: str) -> Interval:
        low = self.moment("--from", start)
        high = self.moment("--to", end)
        if low >= high:
            self.refuse_argument(f"--from {start} is not before --to {end}")
        return Interval(low, high)
