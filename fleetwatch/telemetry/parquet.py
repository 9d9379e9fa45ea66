"""Raw windows as Parquet.

Needs pyarrow, which FleetWatch does not bring along: import this module only where it is wanted.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from fleetwatch.telemetry.export import Portion

MOMENT = pa.timestamp("ms", tz="UTC")


def write_parquet(portions: Iterable[Portion], metrics: Sequence[str], path: Path) -> int:
    """How many windows were written: a row group per portion; what was not read is null."""
    schema = _schema(metrics)
    count = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for portion in portions:
            writer.write_table(_table(portion, schema))
            count += len(portion)
    return count


def _schema(metrics: Sequence[str]) -> pa.Schema:
    """The columns of the CSV, with types."""
    what = [
        ("node", pa.string()),
        ("gpu", pa.string()),
        ("index", pa.int64()),
        ("start", MOMENT),
        ("end", MOMENT),
        ("observed_s", pa.float64()),
        ("boot_start", MOMENT),
        ("sequence", pa.int64()),
    ]
    return pa.schema([*what, *((name, pa.float64()) for name in metrics)])


def _table(portion: Portion, schema: pa.Schema) -> pa.Table:
    columns = portion.columns
    given = {
        **columns,
        "start": columns["start_ms"],
        "end": columns["end_ms"],
        "boot_start": columns["boot_start_ms"],
        "observed_s": np.asarray(columns["observed_ms"]) / 1000,
    }
    return pa.table(
        [pa.array(given[field.name], type=field.type, from_pandas=True) for field in schema],
        schema=schema,
    )
