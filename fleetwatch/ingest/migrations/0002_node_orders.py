"""What agents are asked to do."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('ingest', '0001_schema'),
        ('inventory', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='NodeOrder',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=64, unique=True)),
                ('kind', models.CharField(max_length=32)),
                ('scheduler', models.CharField(max_length=64)),
                ('job', models.CharField(help_text='its id at its scheduler', max_length=200)),
                ('gpus', models.JSONField(help_text='UUIDs that it holds on the node')),
                ('grace_ms', models.BigIntegerField()),
                ('reason', models.CharField(max_length=200)),
                ('is_dry_run', models.BooleanField()),
                ('created_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='orders', to='inventory.node')),
            ],
            options={
                'indexes': [models.Index(fields=['expires_at'], name='order_by_expiry')],
            },
        ),
    ]
