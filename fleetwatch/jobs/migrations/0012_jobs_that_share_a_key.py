"""Nodes that name several owners hold several jobs of one key: records say whose, and of which job they are."""

import fleetwatch.jobs.models
from django.db import migrations, models


RECORDS = """
UPDATE jobs_jobrecord AS record
SET "user" = coalesce(record.facts ->> 'user', ''),
    job_id = CASE WHEN record.held_at IS NOT NULL OR record.voice >= 2 THEN job.id END
FROM jobs_job AS job
WHERE job.key = record.key
"""
UNHEARD = """
UPDATE jobs_jobrecord SET "user" = coalesce(facts ->> 'user', '') WHERE "user" = '' AND job_id IS NULL
"""


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0001_initial'),
        ('inventory', '0008_intake_of_gpus'),
        ('jobs', '0011_a_node_ends_jobs_on_its_own_gpus'),
    ]

    operations = [
        migrations.AlterField(
            model_name='job',
            name='key',
            field=models.CharField(max_length=410, unique=True),
        ),
        migrations.RemoveConstraint(
            model_name='jobrecord',
            name='one_record_per_job_node_voice',
        ),
        migrations.AddField(
            model_name='job',
            name='said_key',
            field=models.GeneratedField(db_persist=True, expression=fleetwatch.jobs.models.Replaced(models.F('key'), models.Value('~[0-9]+$'), models.Value('')), help_text='the key without its number', output_field=models.CharField(max_length=400)),
        ),
        migrations.AddField(
            model_name='jobrecord',
            name='job_id',
            field=models.BigIntegerField(help_text='the job that it is of; null = it may not speak', null=True),
        ),
        migrations.AddField(
            model_name='jobrecord',
            name='user',
            field=models.CharField(blank=True, default='', help_text='whose it says the job is; "" = it names nobody', max_length=128),
        ),
        migrations.AddField(
            model_name='runend',
            name='is_cluster',
            field=models.BooleanField(default=False, help_text='told by the books of the cluster'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(fields=['said_key'], name='jobs_by_said_key'),
        ),
        migrations.RunSQL([RECORDS, UNHEARD], migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name='jobrecord',
            constraint=models.UniqueConstraint(fields=('key', 'node', 'voice', 'user'), name='one_record_per_word', nulls_distinct=False),
        ),
    ]
