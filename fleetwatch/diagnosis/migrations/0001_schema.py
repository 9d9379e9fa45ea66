"""Causes, findings and what people said of them; and the function of ../sql."""

from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).resolve().parent.parent / "sql"
# a day of eight GPUs is some 3 kB that every list of findings reads: beside the row, not behind it,
# and not compressed
INLINE = """
ALTER TABLE diagnosis_diagnosedday
    ALTER COLUMN spans SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160)
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('inventory', '0001_schema'),
        ('jobs', '0001_schema'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Finding',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cluster', models.CharField(blank=True, db_default='', default='', help_text='whose queue it is about', max_length=128)),
                ('cause', models.CharField(max_length=32)),
                ('first_ms', models.BigIntegerField(help_text='start of its first cell')),
                ('last_ms', models.BigIntegerField(help_text='end of its last cell')),
                ('status', models.CharField(choices=[('open', 'Open'), ('accepted', 'Accepted'), ('snoozed', 'Snoozed'), ('dismissed', 'Dismissed'), ('fixed', 'Fixed')], default='open', max_length=16)),
                ('snoozed_until', models.DateTimeField(null=True)),
                ('decided_at', models.DateTimeField(help_text='when its status was last changed by a person', null=True)),
                ('assignee', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='findings', to=settings.AUTH_USER_MODEL)),
                ('job', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='findings', to='jobs.job')),
                ('node', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='findings', to='inventory.node')),
            ],
        ),
        migrations.CreateModel(
            name='Fix',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('user', models.CharField(max_length=128)),
                ('job_name', models.CharField(max_length=300)),
                ('gpus', models.PositiveIntegerField(help_text='that a run holds; NULL for services, whose runs are days', null=True)),
                ('cause', models.CharField(max_length=32)),
                ('at', models.DateTimeField(help_text='runs that ended before are compared with those that began since')),
                ('was_noticed', models.BooleanField(help_text='nobody said so: runs behave differently since')),
                ('outcome', models.CharField(max_length=16)),
                ('runs_before', models.PositiveIntegerField()),
                ('runs_after', models.PositiveIntegerField()),
                ('useful_before', models.FloatField(help_text='share of the held time, 0 to 1', null=True)),
                ('useful_after', models.FloatField(null=True)),
                ('effect_low', models.FloatField(help_text='of useful_after - useful_before, 95 % interval', null=True)),
                ('effect_high', models.FloatField(null=True)),
                ('saved_low_ms', models.BigIntegerField(help_text='GPU time of all runs since, 0 unless they became shorter')),
                ('saved_high_ms', models.BigIntegerField()),
                ('finding', models.ForeignKey(help_text='that somebody called fixed', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='fixes', to='diagnosis.finding')),
            ],
        ),
        migrations.CreateModel(
            name='NodeCells',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('payload', models.BinaryField()),
                ('node', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.node')),
            ],
        ),
        migrations.CreateModel(
            name='Said',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('accepted', 'Accepted'), ('dismissed', 'Dismissed'), ('snoozed', 'Snoozed'), ('assigned', 'Assigned'), ('fixed', 'Fixed'), ('reopened', 'Reopened'), ('confirmed', 'Confirmed'), ('rejected', 'Rejected')], max_length=16)),
                ('at', models.DateTimeField()),
                ('note', models.CharField(blank=True, default='', max_length=500)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('finding', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='said', to='diagnosis.finding')),
            ],
        ),
        migrations.CreateModel(
            name='CapacityEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cluster', models.CharField(blank=True, default='', help_text='whose queue waited; "" = the node is the cause', max_length=128)),
                ('start', models.DateTimeField(help_text='start of the hour cut; of a queue, of the clock hour')),
                ('cause', models.CharField(max_length=32)),
                ('gpu_ms', models.BigIntegerField()),
                ('low_ms', models.BigIntegerField(help_text='could have been used at least')),
                ('high_ms', models.BigIntegerField(help_text='could have been used at most')),
                ('gpu', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.gpu')),
                ('node', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.node')),
            ],
            options={
                'indexes': [models.Index(fields=['node', 'start'], name='capacity_by_node'), models.Index(fields=['start', 'cause'], name='capacity_by_start'), models.Index(condition=models.Q(('cluster', '')), fields=['node', 'cause', 'start'], name='capacity_by_node_cause'), models.Index(condition=models.Q(('high_ms__gt', 0), models.Q(('cluster', ''), _negated=True)), fields=['cluster', 'cause', 'start'], name='capacity_by_cluster')],
                'constraints': [models.CheckConstraint(condition=models.Q(('high_ms__lte', models.F('gpu_ms')), ('low_ms__gte', 0), ('low_ms__lte', models.F('high_ms'))), name='no_more_is_used_than_there_was')],
            },
        ),
        migrations.CreateModel(
            name='CauseEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField(help_text='start of the hour cut')),
                ('cause', models.CharField(max_length=32)),
                ('confidence', models.PositiveSmallIntegerField(help_text='0 none, 1 low, 2 medium, 3 high: the surest of its cells')),
                ('also', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=32), default=list, help_text='what else is possible', size=None)),
                ('cells', models.PositiveSmallIntegerField(help_text='bit n = the n-th five minutes of the clock hour')),
                ('held_ms', models.BigIntegerField()),
                ('idle_certain_ms', models.BigIntegerField()),
                ('idle_probable_ms', models.BigIntegerField()),
                ('stalled_probable_ms', models.BigIntegerField()),
                ('stalled_potential_ms', models.BigIntegerField()),
                ('underused_ms', models.BigIntegerField()),
                ('low_ms', models.BigIntegerField(help_text='recoverable at least; never more than what is wasted')),
                ('high_ms', models.BigIntegerField(help_text='recoverable at most')),
                ('gpu', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.gpu')),
                ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='causes', to='jobs.job')),
                ('node', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.node')),
            ],
            options={
                'indexes': [models.Index(fields=['node', 'start'], name='cause_by_node'), models.Index(fields=['start', 'cause'], name='cause_by_start'), models.Index(fields=['job', 'cause', 'start'], name='cause_by_job'), models.Index(condition=models.Q(('high_ms__gt', 0)), fields=['job', 'cause', 'start'], name='waste_by_job'), models.Index(condition=models.Q(('cause', 'throttled'), ('high_ms__gt', 0)), fields=['node', 'start'], name='throttled_by_node')],
                'constraints': [models.CheckConstraint(condition=models.Q(('low_ms__gte', 0), ('low_ms__lte', models.F('high_ms'))), name='savings_are_an_interval')],
            },
        ),
        migrations.CreateModel(
            name='DiagnosedDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('versions', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=24)),
                ('is_summed', models.BooleanField(db_default=False, default=False, help_text='whether its spans say what its CauseEntries say')),
                ('causes', models.TextField(blank=True, db_default='', default='', help_text='what numbers in spans stand for, from 1 on, with commas')),
                ('spans', models.BinaryField(db_default=b'', default=b'', help_text='of each GPU, job and cause, as cause_columns.py reads them')),
                ('node', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.node')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('node', 'day'), name='one_diagnosed_row_per_node_and_day')],
            },
        ),
        migrations.AddIndex(
            model_name='finding',
            index=models.Index(fields=['last_ms'], name='finding_by_last'),
        ),
        migrations.AddConstraint(
            model_name='finding',
            constraint=models.UniqueConstraint(fields=('job', 'cause'), name='one_finding_per_job_and_cause'),
        ),
        migrations.AddConstraint(
            model_name='finding',
            constraint=models.UniqueConstraint(fields=('node', 'cause'), name='one_finding_per_node_and_cause'),
        ),
        migrations.AddConstraint(
            model_name='finding',
            constraint=models.UniqueConstraint(condition=models.Q(('cluster', ''), _negated=True), fields=('cluster', 'cause'), name='one_finding_per_cluster_and_cause'),
        ),
        migrations.AddConstraint(
            model_name='finding',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('cluster', ''), ('job__isnull', False), ('node__isnull', True)), models.Q(('cluster', ''), ('job__isnull', True), ('node__isnull', False)), models.Q(('job__isnull', True), ('node__isnull', True), models.Q(('cluster', ''), _negated=True)), _connector='OR'), name='a_finding_has_one_subject'),
        ),
        migrations.AddConstraint(
            model_name='finding',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('snoozed_until__isnull', False), ('status', 'snoozed')), models.Q(models.Q(('status', 'snoozed'), _negated=True), ('snoozed_until__isnull', True)), _connector='OR'), name='a_snooze_has_an_end'),
        ),
        migrations.AddIndex(
            model_name='fix',
            index=models.Index(fields=['at'], name='fix_by_at'),
        ),
        migrations.AddConstraint(
            model_name='fix',
            constraint=models.UniqueConstraint(fields=('user', 'job_name', 'gpus', 'cause'), name='one_fix_per_series_and_cause', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='fix',
            constraint=models.CheckConstraint(condition=models.Q(('saved_low_ms__gte', 0), ('saved_low_ms__lte', models.F('saved_high_ms'))), name='realised_savings_are_an_interval'),
        ),
        migrations.AddConstraint(
            model_name='nodecells',
            constraint=models.UniqueConstraint(fields=('node', 'hour'), name='one_row_of_cells_per_node_and_hour'),
        ),
        migrations.AddIndex(
            model_name='said',
            index=models.Index(fields=['finding', 'at'], name='said_of_finding'),
        ),
        migrations.RunSQL(INLINE, migrations.RunSQL.noop),
        migrations.RunSQL(read_statement(SQL / "packed_cause.sql"), "DROP FUNCTION diagnosis_span"),
    ]
