"""Milliseconds and figures of runs, told by name as JSON, become arrays with a place for each name; and back. Every run is kept."""

from django.db import migrations

from fleetwatch.ledger.named_numbers import NamedNumbers

STATES = ("useful", "underused", "stalled", "idle", "starting", "orphaned", "free", "unavailable", "unobserved")
FIGURES = (
    "active_ms", "active_sum", "power_w_ms", "power_w_sum",
    "memory_used_bytes_ms", "memory_used_bytes_sum", "spin_unresolved_ms", "spin_unresolved_sum",
)  # fmt: skip


def _placed(column: str, names: tuple[str, ...], kind: str) -> str:
    numbers = ", ".join(f"coalesce(({column} ->> '{name}')::numeric::{kind}, 0)" for name in names)
    return f"ALTER COLUMN {column} TYPE {kind}[] USING ARRAY[{numbers}]::{kind}[]"


def _named(column: str, names: tuple[str, ...]) -> str:
    pairs = ", ".join(f"'{name}', nullif({column}[{place}], 0)" for place, name in enumerate(names, 1))
    return f"ALTER COLUMN {column} TYPE jsonb USING jsonb_strip_nulls(jsonb_build_object({pairs}))"


TO_ARRAYS = f"ALTER TABLE ledger_run {_placed('state_ms', STATES, 'integer')}, {_placed('figures', FIGURES, 'double precision')}"
TO_JSON = f"ALTER TABLE ledger_run {_named('state_ms', STATES)}, {_named('figures', FIGURES)}"


class Migration(migrations.Migration):
    dependencies = [("ledger", "0011_cells_are_one_column")]

    operations = [
        migrations.RunSQL(
            TO_ARRAYS,
            TO_JSON,
            state_operations=[
                migrations.AlterField(
                    model_name="run",
                    name="state_ms",
                    field=NamedNumbers(int, names=STATES, help_text="state -> GPU-milliseconds"),
                ),
                migrations.AlterField(
                    model_name="run",
                    name="figures",
                    field=NamedNumbers(
                        float, names=FIGURES, help_text="per column: ms in which it was read (_ms), sum of value x ms (_sum)"
                    ),
                ),
            ],
        )
    ]
