"""Tokens and enrolments of agents."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('inventory', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='AgentToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('hint', models.CharField(max_length=8)),
                ('created_at', models.DateTimeField()),
                ('revoked_at', models.DateTimeField(null=True)),
                ('last_used_at', models.DateTimeField(null=True)),
                ('may_import', models.BooleanField(default=False, help_text='whether it may send accounting: batches of jobs without windows')),
                ('speaks_for', models.CharField(blank=True, default='', help_text='the cluster whose books it speaks for; "" = none', max_length=128)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='agent_tokens', to='inventory.node')),
            ],
        ),
        migrations.CreateModel(
            name='EnrollmentToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('hint', models.CharField(max_length=8)),
                ('created_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('uses_left', models.PositiveIntegerField()),
                ('revoked_at', models.DateTimeField(null=True)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('uses_left__lte', 1000)), name='at_most_1000_uses_of_an_enrolment_token')],
            },
        ),
        migrations.CreateModel(
            name='Enrollment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('address', models.GenericIPAddressField(help_text="the agent's, as the trusted proxies tell it", null=True)),
                ('network', models.CharField(db_index=True, help_text='its /24 or /48; "" = the address is not known', max_length=43)),
                ('is_new_network', models.BooleanField(help_text='nobody had enrolled from there before, and somebody from elsewhere')),
                ('agent_token', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='enrollment', to='ingest.agenttoken')),
                ('token', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='enrollments', to='ingest.enrollmenttoken')),
            ],
        ),
    ]
