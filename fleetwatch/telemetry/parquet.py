"""Raw windows as Parquet.

Needs pyarrow, which FleetWatch does not bring along: import this module only where it is wanted.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from fleetwatch.telemetry import export
from fleetwatch.telemetry.export import Portion

TYPES = {
    export.TEXT: pa.string(),
    export.WHOLE: pa.int64(),
    export.NUMBER: pa.float64(),
    export.MOMENT: pa.timestamp("ms", tz="UTC"),
}


def write_parquet(portions: Iterable[Portion], metrics: Sequence[str], path: Path) -> int:
    """How many windows were written: a row group per portion; what was not read is null."""
    schema = pa.schema((name, TYPES[kind]) for name, kind in export.kinds(metrics).items())
    count = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for portion in portions:
            columns = [
                pa.array(portion[field.name], type=field.type, from_pandas=True) for field in schema
            ]
            writer.write_table(pa.table(columns, schema=schema))
            count += len(portion["start"])
    return count
