"""Rules and incidents; and the rule every hub starts with."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models
from django.utils import timezone

MINUTES = 30


def create_default_rule(apps: Any, schema_editor: Any) -> None:
    """A job that is idle for 30 minutes."""
    rules = apps.get_model("alerts", "Rule").objects
    rules.create(name="Job idle", condition="job_idle", threshold=MINUTES, created_at=timezone.now())


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('notify', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='Rule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('condition', models.CharField(default='job_idle', max_length=32)),
                ('threshold', models.FloatField(help_text="in the condition's unit: minutes for job_idle")),
                ('is_enabled', models.BooleanField(default=True)),
                ('created_at', models.DateTimeField()),
                ('channels', models.ManyToManyField(blank=True, help_text='none chosen = every channel', related_name='rules', to='notify.channel')),
            ],
        ),
        migrations.CreateModel(
            name='Incident',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('subject', models.CharField(help_text="by its page: a job's key", max_length=400)),
                ('opened_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('resolved_at', models.DateTimeField(null=True)),
                ('resolution', models.CharField(blank=True, default='', help_text='why it was resolved', max_length=200)),
                ('note', models.CharField(blank=True, default='', help_text='what keeps us from knowing: no data since ...', max_length=200)),
                ('facts', models.JSONField(default=dict, help_text='breach.Breach: what was true at updated_at')),
                ('rule', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='incidents', to='alerts.rule')),
            ],
            options={
                'indexes': [models.Index(fields=['-opened_at'], name='incident_latest')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('resolved_at', None)), fields=('rule', 'subject'), name='one_open_incident_per_subject')],
            },
        ),
        migrations.RunPython(create_default_rule, migrations.RunPython.noop),
    ]
