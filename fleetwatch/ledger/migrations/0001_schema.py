"""Entries, runs and what is derived from them; and the first policy."""

from datetime import UTC, datetime
from typing import Any

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

import fleetwatch.ledger.named_numbers

# Written out, not imported: version 1 stays what it was when policy.py's defaults move on.
VERSION_1 = {
    "idle_batch_s": 900, "idle_interactive_s": 1800, "idle_service_s": 3600,
    "grace_batch_s": 900, "grace_interactive_s": 600, "grace_service_s": 1800,
    "observed_min_ratio": 0.5, "quiet_max": 0.02, "blip_max": 0.02, "blip_row_s": 900, "bridge_windows": 3, "active_full": 0.9,
    "contradiction_power_ratio": 0.3, "contradiction_codec_ratio": 0.02, "contradiction_link_bytes_s": 52428800,
    "phantom_memory_bytes": 314572800,
    "spin_util_min": 0.95, "spin_power_max": 0.2, "spin_tensor_max": 0.005, "spin_dram_max": 0.02, "spin_resolvable_s": 10,
    "ceiling_sm": 0.85, "ceiling_tensor": 0.35, "ceiling_dram": 0.75, "ceiling_fp64": 0.6, "ceiling_power": 0.65,
    "power_floor": 0.05, "power_min_working": 0.3, "rest_extra_w": 40, "rest_extra_ratio": 0.2, "energy_max_ratio": 1.3,
    "revival_s": 300,
}  # fmt: skip


def insert_first_policy(apps: Any, schema_editor: Any) -> None:
    apps.get_model("ledger", "Policy").objects.create(version=1, thresholds=VERSION_1, created_at=datetime.now(UTC))


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('inventory', '0001_schema'),
        ('jobs', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='Policy',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveIntegerField(unique=True)),
                ('thresholds', models.JSONField()),
                ('created_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Posted',
            fields=[
                ('gpu', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='posted', serialize=False, to='inventory.gpu')),
                ('spans', models.JSONField(help_text='[start_ms, end_ms] of each span of capacity, or to where telemetry went for now')),
                ('outages', models.JSONField(default=list, help_text='[start_ms, end_ms or null, reason] of unavailability')),
            ],
        ),
        migrations.CreateModel(
            name='IdlePower',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('from_ms', models.BigIntegerField(help_text='windows that start before keep what they were judged by')),
                ('watts', models.FloatField()),
                ('readings', models.PositiveIntegerField(default=0, help_text='windows that it was learned from; 0: an admin set it')),
                ('condition', models.CharField(blank=True, default='', help_text='free or quiet: what these windows were', max_length=16)),
                ('first_ms', models.BigIntegerField(help_text='start of the first of them', null=True)),
                ('last_ms', models.BigIntegerField(help_text='end of the last of them', null=True)),
                ('set_by', models.CharField(blank=True, default='', help_text='the admin who set it', max_length=200)),
                ('created_at', models.DateTimeField()),
                ('gpu', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.gpu')),
            ],
        ),
        migrations.CreateModel(
            name='ClosedMonth',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.DateField(help_text='its first day', unique=True)),
                ('start', models.DateTimeField(help_text="the organisation's midnight that begins it")),
                ('end', models.DateTimeField(help_text='and the one that ends it: all before is closed')),
                ('closed_at', models.DateTimeField()),
                ('closed_by', models.CharField(max_length=200)),
                ('reason', models.CharField(blank=True, default='', max_length=300)),
                ('policy', models.ForeignKey(help_text='judges hours of it that had no entry when it was closed', on_delete=django.db.models.deletion.PROTECT, to='ledger.policy')),
            ],
        ),
        migrations.CreateModel(
            name='HourCells',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('payload', models.BinaryField(help_text='zstd of columns (hour_cells.py): GPU and job ids (int64), then from when on and milliseconds (int32)')),
                ('node', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.node')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('node', 'hour'), name='one_row_of_states_per_node_and_hour')],
            },
        ),
        migrations.CreateModel(
            name='NodeDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('versions', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), help_text='one number per UTC hour; it only ever grows', size=24)),
                ('node', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.node')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('node', 'day'), name='one_row_per_node_and_day')],
            },
        ),
        migrations.CreateModel(
            name='Entry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField(help_text="start of the hour cut (clock hour, also cut at the organisation's midnight)")),
                ('state', models.CharField(max_length=16)),
                ('kind', models.CharField(blank=True, default='', help_text='gap, within, spinning, cold, held, interactive', max_length=16)),
                ('reason', models.CharField(blank=True, default='', help_text='why unobserved, unavailable or orphaned', max_length=32)),
                ('signal', models.CharField(blank=True, default='', help_text='activity signal that decided', max_length=32)),
                ('efficiency_source', models.CharField(blank=True, default='', help_text='sensors, power (estimated), none (busy time only)', max_length=16)),
                ('tier', models.CharField(blank=True, default='', help_text='waste tier: certain, probable, potential, or none', max_length=16)),
                ('gpu_ms', models.BigIntegerField()),
                ('energy_j', models.FloatField(help_text='None = not read', null=True)),
                ('gpu', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, to='inventory.gpu')),
                ('job', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, to='jobs.job')),
                ('node', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, to='inventory.node')),
                ('policy', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, to='ledger.policy')),
            ],
            options={
                'indexes': [models.Index(fields=['start', 'gpu'], name='entry_by_start'), models.Index(fields=['node', 'start'], name='entry_by_node'), models.Index(fields=['gpu', 'start'], name='entry_by_gpu'), models.Index(fields=['job', 'start'], name='entry_by_job')],
            },
        ),
        migrations.CreateModel(
            name='Adjustment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField(help_text='start of the hour cut that it corrects')),
                ('state', models.CharField(max_length=16)),
                ('kind', models.CharField(blank=True, default='', max_length=16)),
                ('reason', models.CharField(blank=True, default='', max_length=32)),
                ('signal', models.CharField(blank=True, default='', max_length=32)),
                ('efficiency_source', models.CharField(blank=True, default='', max_length=16)),
                ('tier', models.CharField(blank=True, default='', max_length=16)),
                ('gpu_ms', models.BigIntegerField(help_text='signed; 0 where only the energy differs')),
                ('energy_j', models.FloatField(help_text='signed; None = not read', null=True)),
                ('cause', models.CharField(help_text='why it is judged otherwise now (adjustments.CAUSES)', max_length=32)),
                ('booked_at', models.DateTimeField()),
                ('gpu', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='inventory.gpu')),
                ('job', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to='jobs.job')),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='inventory.node')),
                ('policy', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='ledger.policy')),
            ],
            options={
                'indexes': [models.Index(fields=['booked_at'], name='adjustment_by_booking'), models.Index(fields=['node', 'start'], name='adjustment_by_node')],
            },
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('condition', models.CharField(help_text='quiet, spinning, active, free, orphaned, unavailable, unobserved', max_length=16)),
                ('start_ms', models.BigIntegerField()),
                ('end_ms', models.BigIntegerField()),
                ('continues', models.BooleanField(default=False, help_text='goes on from the part before it of the same GPU, holder and condition')),
                ('state_ms', fleetwatch.ledger.named_numbers.NamedNumbers(int, default=dict, help_text='state -> GPU-milliseconds', names=('useful', 'underused', 'stalled', 'idle', 'starting', 'orphaned', 'free', 'unavailable', 'unobserved'))),
                ('figures', fleetwatch.ledger.named_numbers.NamedNumbers(float, default=dict, help_text='per column: ms in which it was read (_ms), sum of value x ms (_sum)', names=('active_ms', 'active_sum', 'power_w_ms', 'power_w_sum', 'memory_used_bytes_ms', 'memory_used_bytes_sum', 'spin_unresolved_ms', 'spin_unresolved_sum'))),
                ('gpu', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, to='inventory.gpu')),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, to='jobs.job')),
                ('node', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, to='inventory.node')),
            ],
            options={
                'indexes': [models.Index(fields=['gpu', 'start_ms'], name='run_by_gpu'), models.Index(fields=['node', 'end_ms'], name='run_by_node_end'), models.Index(fields=['job', 'end_ms'], name='run_by_job_end')],
            },
        ),
        migrations.CreateModel(
            name='StateDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('versions', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=24)),
                ('spent', models.BinaryField(help_text='zstd of GPU ids (int64), then milliseconds (uint32): GPUs x 24 x states by name')),
                ('node', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.node')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('node', 'day'), name='one_state_day_per_node_and_day')],
            },
        ),
        # it is packed already
        migrations.RunSQL(
            "ALTER TABLE ledger_stateday ALTER COLUMN spent SET STORAGE EXTERNAL", migrations.RunSQL.noop
        ),
        migrations.RunPython(insert_first_policy, migrations.RunPython.noop),
    ]
