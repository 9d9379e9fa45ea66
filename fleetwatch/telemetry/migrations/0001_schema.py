"""Batches, chunks, cells and events; the hot table is partitioned (../sql)."""

from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models

import fleetwatch.lib.multirange
from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).resolve().parent.parent / "sql"
# chunks are zstd already, and reading part of one must not decompress all of it in Postgres
AS_THEY_ARE = """
ALTER TABLE telemetry_chunk
    ALTER COLUMN payload SET STORAGE EXTERNAL,
    ALTER COLUMN host SET STORAGE EXTERNAL
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('inventory', '0001_schema'),
    ]

    operations = [
        migrations.RunSQL(
            read_statement(SQL / "hot_batches.sql"),
            "DROP TABLE telemetry_batch",
            state_operations=[
                migrations.CreateModel(
                    name='Batch',
                    fields=[
                        ('pk', models.CompositePrimaryKey('received_at', 'id', blank=True, editable=False, primary_key=True, serialize=False)),
                        ('id', models.BigIntegerField(help_text='from the sequence telemetry_batch_id_seq')),
                        ('received_at', models.DateTimeField()),
                        ('node_id', models.BigIntegerField()),
                        ('boot_id', models.CharField(max_length=128)),
                        ('boot_start_ms', models.BigIntegerField()),
                        ('sequence', models.BigIntegerField()),
                        ('start_ms', models.BigIntegerField(help_text='corrected start of the first window; None = no window', null=True)),
                        ('end_ms', models.BigIntegerField(help_text='corrected end of the last window; None = no window', null=True)),
                        ('offset_ms', models.BigIntegerField(default=0, help_text='clock correction to add to every time in the payload')),
                        ('quarantined', models.BooleanField(default=False, help_text='more than 5 minutes in the future: kept, not used')),
                        ('payload', models.BinaryField(help_text='gzip of the JSON')),
                    ],
                    options={
                        'db_table': 'telemetry_batch',
                    },
                ),
            ],
        ),
        migrations.CreateModel(
            name='Chunk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('node_id', models.BigIntegerField()),
                ('start', models.DateTimeField()),
                ('end', models.DateTimeField()),
                ('version', models.PositiveSmallIntegerField(help_text='of the codec that packed it')),
                ('window_count', models.PositiveIntegerField()),
                ('payload', models.BinaryField(help_text='GPU windows, packed')),
                ('host', models.BinaryField(default=b'', help_text='host samples, packed; empty = none')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('node_id', 'start'), name='one_chunk_per_node_and_start')],
            },
        ),
        migrations.CreateModel(
            name='DayMatrix',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('node_id', models.BigIntegerField()),
                ('day', models.DateField()),
                ('metric', models.CharField(max_length=32)),
                ('gpu_ids', models.JSONField(help_text='row order')),
                ('cells', models.BinaryField(help_text='uint8, GPUs x 288')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('node_id', 'day', 'metric'), name='one_matrix_per_node_day_metric')],
            },
        ),
        migrations.CreateModel(
            name='LateHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('node_id', models.BigIntegerField()),
                ('hour', models.DateTimeField()),
                ('batches', models.PositiveBigIntegerField()),
                ('received_at', models.DateTimeField(help_text='when the last of them came')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('node_id', 'hour'), name='one_row_per_late_hour')],
            },
        ),
        migrations.CreateModel(
            name='SealMark',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('node_id', models.BigIntegerField()),
                ('hour', models.DateTimeField()),
                ('batch_id', models.BigIntegerField()),
                ('batch_received_at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['hour', 'node_id'], name='sealmark_by_hour')],
            },
        ),
        migrations.CreateModel(
            name='TouchedHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('node_id', models.BigIntegerField()),
                ('hour', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['node_id', 'hour'], name='touchedhour_by_node')],
            },
        ),
        migrations.CreateModel(
            name='HealthEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at_ms', models.BigIntegerField()),
                ('kind', models.CharField(max_length=32)),
                ('code', models.BigIntegerField(null=True)),
                ('text', models.CharField(blank=True, default='', max_length=400)),
                ('gpu', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='health_events', to='inventory.gpu')),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='health_events', to='inventory.node')),
            ],
            options={
                'indexes': [models.Index(fields=['node', 'at_ms'], name='healthevent_by_node_and_time')],
                'constraints': [models.UniqueConstraint(fields=('node', 'gpu', 'at_ms', 'kind', 'code'), name='an_event_once', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='ReceivedSequence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('boot_id', models.CharField(max_length=128)),
                ('boot_start_ms', models.BigIntegerField()),
                ('clock_offset_ms', models.BigIntegerField(default=0, help_text="added to the agent's times of this boot (beyond 2 s)")),
                ('received', fleetwatch.lib.multirange.Int8MultiRangeField(help_text='sequences, half-open')),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to='inventory.node')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('node', 'boot_id'), name='one_row_per_node_and_boot')],
            },
        ),
        migrations.RunSQL(AS_THEY_ARE, migrations.RunSQL.noop),
        migrations.RunSQL(
            read_statement(SQL / "chunks_to_join.sql"),
            "ALTER TABLE telemetry_chunk DROP CONSTRAINT a_chunk_is_at_most_six_hours; DROP INDEX chunk_to_join",
        ),
    ]
