"""Channels and deliveries."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Channel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(help_text='kind of one of transports.TRANSPORTS', max_length=32)),
                ('name', models.CharField(max_length=100, unique=True)),
                ('config', models.BinaryField(help_text="encrypted JSON of the transport's settings (secrets.py)")),
                ('gets_digest', models.BooleanField(default=False, help_text='the weekly digest goes here')),
                ('is_enabled', models.BooleanField(default=True)),
                ('disabled_reason', models.CharField(blank=True, default='', max_length=300)),
                ('created_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(help_text='what this send is about, e.g. incident/7/opened', max_length=200)),
                ('message', models.JSONField(help_text='message.Message')),
                ('state', models.CharField(default='pending', max_length=16)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('next_attempt_at', models.DateTimeField(help_text='not before; while someone sends it, the end of the claim')),
                ('sent_at', models.DateTimeField(null=True)),
                ('last_answer', models.CharField(blank=True, default='', max_length=300)),
                ('created_at', models.DateTimeField()),
                ('channel', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='notify.channel')),
            ],
            options={
                'indexes': [models.Index(fields=['channel', 'state', 'id'], name='delivery_by_channel')],
                'constraints': [models.UniqueConstraint(fields=('channel', 'key'), name='one_delivery_per_channel_and_key')],
            },
        ),
    ]
