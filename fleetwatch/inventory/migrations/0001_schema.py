"""Nodes, GPUs, their models and where they were when."""

import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Node',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=253, unique=True)),
                ('labels', models.JSONField(default=dict)),
                ('window_s', models.PositiveIntegerField(default=10)),
                ('last_ms', models.BigIntegerField(help_text='newest window end, host sample end or event: its last sign of life', null=True)),
                ('silent_ms', models.BigIntegerField(help_text='its silence is on the bill until then (silence.py); None = never was', null=True)),
                ('last_received_at', models.DateTimeField(null=True)),
                ('agent', models.JSONField(default=dict, help_text='what the newest batch said of its agent: version, driver, source, ...')),
                ('clock_offset_ms', models.BigIntegerField(help_text='server minus agent clock at the newest batch; None = not sent', null=True)),
                ('facts_order', models.JSONField(default=list, help_text='(boot_start_ms, sequence) of the batch these facts come from')),
                ('facts_digest', models.BinaryField(help_text='of what the newest batch said of labels and GPUs; None = not known (steady.py)', null=True)),
                ('continued_order', models.JSONField(help_text='facts_order of the GPUs for which windows_ms speaks', null=True)),
                ('windows_ms', models.BigIntegerField(help_text='end of the newest window of these GPUs; None = their own rows say it', null=True)),
            ],
        ),
        migrations.CreateModel(
            name='ElasticRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(help_text='name, label or cluster', max_length=16)),
                ('pattern', models.CharField(help_text='with * and ?; of a label key=value', max_length=253)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('kind', 'pattern'), name='one_elastic_rule_of_a_kind_and_pattern')],
            },
        ),
        migrations.CreateModel(
            name='GPUModel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('idle_w', models.FloatField(help_text='bare idle board power, lower end', null=True)),
                ('limit_w', models.FloatField(help_text='default power limit', null=True)),
                ('board_share', models.DecimalField(decimal_places=10, help_text='the part, by memory', max_digits=11, null=True)),
                ('board_from', models.DateTimeField(help_text='rates of the board reach it from then on; None = ever', null=True)),
                ('board', models.ForeignKey(help_text='a virtual GPU is a part of it', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='slices', to='inventory.gpumodel')),
            ],
        ),
        migrations.CreateModel(
            name='Intake',
            fields=[
                ('node', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='intake', serialize=False, to='inventory.node')),
                ('hour_ms', models.BigIntegerField()),
                ('jobs', models.BigIntegerField()),
                ('labels', models.BigIntegerField()),
                ('teams', models.BigIntegerField()),
                ('gpu_models', models.BigIntegerField()),
                ('gpus', models.BigIntegerField(default=0)),
                ('events', models.BigIntegerField(default=0)),
                ('batch_bytes', models.BigIntegerField(default=0, help_text='as sent, but those that came the short way (ingest/door.py)')),
            ],
        ),
        migrations.CreateModel(
            name='GPU',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uuid', models.CharField(max_length=96)),
                ('index', models.PositiveIntegerField(null=True)),
                ('model_name', models.CharField(blank=True, default='', help_text='as the driver says it', max_length=100)),
                ('memory_total_bytes', models.BigIntegerField(null=True)),
                ('power_limit_w', models.FloatField(null=True)),
                ('sm_count', models.PositiveIntegerField(null=True)),
                ('mig_profile', models.CharField(blank=True, default='', max_length=32)),
                ('persistence', models.BooleanField(null=True)),
                ('unread', models.JSONField(default=dict, help_text="metric -> why it can't be read")),
                ('first_ms', models.BigIntegerField(help_text='start of the earliest window: capacity begins', null=True)),
                ('last_ms', models.BigIntegerField(help_text='end of the newest window when it was last written: read newest_ms', null=True)),
                ('retired_ms', models.BigIntegerField(help_text='capacity ended here (by hand, 7 silent days, or it went to another node)', null=True)),
                ('facts_order', models.JSONField(default=list, help_text='(boot_start_ms, sequence) of the batch these facts come from')),
                ('parent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='instances', to='inventory.gpu')),
                ('model', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='gpus', to='inventory.gpumodel')),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='gpus', to='inventory.node')),
            ],
        ),
        migrations.CreateModel(
            name='Departure',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at_ms', models.BigIntegerField(help_text='when it was said')),
                ('by', models.CharField(help_text='who said it, or which rule', max_length=200)),
                ('reason', models.CharField(max_length=300)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='departures', to='inventory.node')),
            ],
        ),
        migrations.CreateModel(
            name='Stay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uuid', models.CharField(help_text="the GPU's: at one moment it is at one node", max_length=96)),
                ('first_ms', models.BigIntegerField(help_text='start of the first window')),
                ('last_ms', models.BigIntegerField(help_text='end of the last window when it was last written')),
                ('is_believed', models.BooleanField(help_text='False: another node observed the GPU then, or is not silent about it yet')),
                ('gpu', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='stays', to='inventory.gpu')),
            ],
        ),
        migrations.AddConstraint(
            model_name='gpumodel',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('board', None), ('board_from', None), ('board_share', None)), models.Q(('board__isnull', False), ('board_share__gt', 0), ('board_share__lte', 1)), _connector='OR'), name='a_part_of_a_board_has_its_share'),
        ),
        migrations.AddConstraint(
            model_name='gpu',
            constraint=models.UniqueConstraint(fields=('uuid', 'node'), name='one_row_per_gpu_and_node'),
        ),
        migrations.AddIndex(
            model_name='stay',
            index=models.Index(fields=['uuid', 'first_ms'], name='stay_by_uuid'),
        ),
        migrations.AddConstraint(
            model_name='stay',
            constraint=models.CheckConstraint(condition=models.Q(('first_ms__lt', models.F('last_ms'))), name='a_stay_ends_after_it_begins'),
        ),
        migrations.AddConstraint(
            model_name='stay',
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(condition=models.Q(('is_believed', True)), expressions=[(models.Func(models.Func(models.F('uuid'), models.Value(0), function='hashtextextended', output_field=models.BigIntegerField()), models.Func(models.F('uuid'), models.Value(0), function='hashtextextended', output_field=models.BigIntegerField()), models.Value('[]'), function='int8range', output_field=django.contrib.postgres.fields.ranges.BigIntegerRangeField()), '='), (models.Func(models.F('first_ms'), models.F('last_ms'), function='int8range', output_field=django.contrib.postgres.fields.ranges.BigIntegerRangeField()), '&&')], name='one_node_at_a_time'),
        ),
    ]
