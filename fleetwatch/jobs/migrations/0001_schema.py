"""Jobs, allocations and what nodes say of them."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.expressions
import fleetwatch.jobs.models
import fleetwatch.lib.multirange
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0001_schema'),
        ('inventory', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='ChangedJob',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('job_id', models.BigIntegerField()),
                ('is_new', models.BooleanField()),
                ('former_team_id', models.BigIntegerField(help_text='that its account named until then', null=True)),
                ('was_named', models.BooleanField(default=False, help_text='whether it named a user or an account until then')),
            ],
        ),
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=410, unique=True)),
                ('said_key', models.GeneratedField(db_persist=True, expression=fleetwatch.jobs.models.Replaced(models.F('key'), models.Value('~[0-9]+$'), models.Value('')), help_text='the key without its number', output_field=models.CharField(max_length=400))),
                ('scheduler', models.CharField(blank=True, default='', max_length=64)),
                ('cluster', models.CharField(blank=True, default='', max_length=128)),
                ('external_id', models.CharField(blank=True, default='', max_length=200)),
                ('name', models.CharField(blank=True, default='', max_length=300)),
                ('user', models.CharField(blank=True, default='', help_text='as the scheduler names the owner; no account of ours', max_length=128)),
                ('account', models.CharField(blank=True, default='', max_length=128)),
                ('kind', models.CharField(default='batch', max_length=16)),
                ('state', models.CharField(blank=True, default='', max_length=32)),
                ('submit_ms', models.BigIntegerField(null=True)),
                ('start_ms', models.BigIntegerField(null=True)),
                ('end_ms', models.BigIntegerField(null=True)),
                ('restarts', models.PositiveIntegerField(default=0)),
                ('labels', models.JSONField(default=dict)),
                ('team', models.ForeignKey(help_text='that its account names; whose its time is, costs.attribution says', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='jobs', to='accounts.team')),
            ],
        ),
        migrations.CreateModel(
            name='GPUProcess',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('pid', models.BigIntegerField()),
                ('started_ms', models.BigIntegerField(null=True)),
                ('user', models.CharField(blank=True, default='', max_length=128)),
                ('name', models.CharField(blank=True, default='', max_length=300)),
                ('state', models.CharField(blank=True, default='', max_length=8)),
                ('memory_bytes', models.BigIntegerField(null=True)),
                ('seen_ms', models.BigIntegerField()),
                ('gpu', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='processes', to='inventory.gpu')),
                ('job', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to='jobs.job')),
            ],
        ),
        migrations.CreateModel(
            name='Allocation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source', models.CharField(max_length=32)),
                ('share', models.FloatField(help_text='granted share of the GPU; None = not known', null=True)),
                ('asserted', fleetwatch.lib.multirange.Int8MultiRangeField(help_text='milliseconds, half-open: the union over all batches')),
                ('starts', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, help_text='of its runs, ascending: a requeued job has several', size=None)),
                ('ended', fleetwatch.lib.multirange.Int8MultiRangeField(default=list, help_text='from each known end (RunEnd) to the start of the next run')),
                ('held', models.GeneratedField(db_persist=True, expression=models.ExpressionWrapper(django.db.models.expressions.CombinedExpression(models.F('asserted'), '-', models.F('ended')), output_field=fleetwatch.lib.multirange.Int8MultiRangeField()), output_field=fleetwatch.lib.multirange.Int8MultiRangeField())),
                ('gpu', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='allocations', to='inventory.gpu')),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='allocations', to='jobs.job')),
            ],
        ),
        migrations.CreateModel(
            name='JobChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('voice', models.PositiveSmallIntegerField(help_text='records.Voice')),
                ('facts', models.JSONField(help_text='what it said otherwise than it was believed until then')),
                ('refused', models.JSONField(help_text='names of those facts that were not taken')),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='changes', to='jobs.job')),
                ('node', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='inventory.node')),
            ],
        ),
        migrations.CreateModel(
            name='JobRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=400)),
                ('user', models.CharField(blank=True, default='', help_text='whose it says the job is; "" = it names nobody', max_length=128)),
                ('job_id', models.BigIntegerField(help_text='the job that it is of; null = it may not speak', null=True)),
                ('voice', models.PositiveSmallIntegerField(help_text='records.Voice')),
                ('as_of_ms', models.BigIntegerField(help_text='until when the batch speaks that said it')),
                ('boot_start_ms', models.BigIntegerField()),
                ('sequence', models.BigIntegerField()),
                ('facts', models.JSONField(help_text='records.JobFacts')),
                ('held_at', models.DateTimeField(help_text='when the hub first heard that the node holds the job; null = it never did', null=True)),
                ('held_until_ms', models.BigIntegerField(help_text='end of its hold, as far as it is known', null=True)),
                ('node', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.node')),
            ],
        ),
        migrations.CreateModel(
            name='RunEnd',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source', models.CharField(blank=True, default='', help_text='of the hold on the GPU', max_length=32)),
                ('start_ms', models.BigIntegerField(help_text='of the run; None = not known', null=True)),
                ('end_ms', models.BigIntegerField()),
                ('is_cluster', models.BooleanField(default=False, help_text='told by the books of the cluster')),
                ('as_of_ms', models.BigIntegerField(help_text='until when the batch spoke')),
                ('boot_start_ms', models.BigIntegerField()),
                ('sequence', models.BigIntegerField()),
                ('gpu', models.ForeignKey(help_text='None: of the whole job', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.gpu')),
                ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='run_ends', to='jobs.job')),
                ('node', models.ForeignKey(db_index=False, help_text='on whose GPUs; None: on all', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.node')),
            ],
        ),
        migrations.CreateModel(
            name='SourceReport',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=32)),
                ('ok', models.BooleanField()),
                ('why', models.CharField(blank=True, default='', help_text='that it did not answer; of the newest reasons only', max_length=300)),
                ('asserted', fleetwatch.lib.multirange.Int8MultiRangeField(help_text='milliseconds, half-open')),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='source_reports', to='inventory.node')),
            ],
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(fields=['said_key'], name='jobs_by_said_key'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(fields=['start_ms'], name='jobs_by_start'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('start_ms', None), ('state', 'PENDING')), fields=['submit_ms'], name='jobs_that_wait'),
        ),
        migrations.AddConstraint(
            model_name='allocation',
            constraint=models.UniqueConstraint(fields=('gpu', 'job', 'source', 'share'), name='one_allocation_per_gpu_job_source_share', nulls_distinct=False),
        ),
        migrations.AddIndex(
            model_name='jobrecord',
            index=models.Index(condition=models.Q(('held_at', None), ('voice__lt', 2)), fields=['id'], name='records_nobody_held'),
        ),
        migrations.AddConstraint(
            model_name='jobrecord',
            constraint=models.UniqueConstraint(fields=('key', 'node', 'voice', 'user'), name='one_record_per_word', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='runend',
            constraint=models.UniqueConstraint(fields=('job', 'node', 'gpu', 'source', 'start_ms'), name='one_end_per_run_of_a_job_or_hold', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='runend',
            constraint=models.CheckConstraint(condition=models.Q(('start_ms', None), ('end_ms__gte', models.F('start_ms')), _connector='OR'), name='a_run_ends_not_before_its_start'),
        ),
        migrations.AddConstraint(
            model_name='sourcereport',
            constraint=models.UniqueConstraint(fields=('node', 'kind', 'ok', 'why'), name='one_report_per_node_kind_ok_why'),
        ),
    ]
