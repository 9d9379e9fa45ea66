"""Budgets, forecasts and anomalies."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='Anomaly',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=16)),
                ('key', models.CharField(max_length=200)),
                ('metric', models.CharField(help_text='cost or wasted', max_length=16)),
                ('start', models.DateTimeField()),
                ('end', models.DateTimeField()),
                ('usd', models.DecimalField(decimal_places=6, help_text='of these hours', max_digits=18)),
                ('usual_usd', models.DecimalField(decimal_places=6, help_text='what is usual in them', max_digits=18)),
                ('spreads', models.FloatField(help_text='how many usual spreads its farthest hour is off; signed')),
                ('movers', models.JSONField(default=list, help_text='kind, key, label, usd: what changed most against the same hours before')),
                ('found_at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['end'], name='anomaly_by_end')],
                'constraints': [models.UniqueConstraint(fields=('kind', 'key', 'metric', 'start'), name='one_anomaly_per_series_and_start')],
            },
        ),
        migrations.CreateModel(
            name='Outlook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=16)),
                ('key', models.CharField(max_length=200)),
                ('origin', models.DateTimeField(help_text="the organisation's midnight: what comes begins here")),
                ('made_at', models.DateTimeField()),
                ('days', models.PositiveIntegerField(help_text='of history, from the first one with dollars on')),
                ('has_shifted', models.BooleanField(help_text='the level is that of the last week alone')),
                ('usd_per_hour', models.JSONField(help_text="7 days from origin's on × 24 hours on the wall")),
                ('low', models.JSONField(help_text='by days ahead: lower end of the range, relative to the forecast')),
                ('high', models.JSONField()),
                ('median_error', models.JSONField(help_text='by days ahead: the same forecast at earlier days against what came; null = never tried')),
                ('tries', models.JSONField(help_text='by days ahead: how often it was tried')),
                ('is_whole', models.BooleanField(help_text='all of the history that there is was read')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('kind', 'key'), name='one_outlook_per_series')],
            },
        ),
        migrations.CreateModel(
            name='SpendDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=16)),
                ('key', models.CharField(help_text='as costs groups them: "" = what no job held, "(none)" = jobs without a team', max_length=200)),
                ('start', models.DateTimeField(help_text="the organisation's midnight")),
                ('usd', models.DecimalField(decimal_places=6, max_digits=24)),
                ('wasted_usd', models.DecimalField(decimal_places=6, help_text='certain and probable', max_digits=24)),
                ('hours', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(null=True), help_text='dollars; None = the ledger says nothing, or no such hour', size=24)),
                ('wasted_hours', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(null=True), size=24)),
            ],
            options={
                'indexes': [models.Index(fields=['kind', 'start'], name='spend_day_by_kind')],
                'constraints': [models.UniqueConstraint(fields=('kind', 'key', 'start'), name='one_row_per_series_and_day')],
            },
        ),
        migrations.CreateModel(
            name='Budget',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.DateField(help_text="its first day, in the organisation's zone")),
                ('repeats', models.BooleanField(default=False, help_text='holds for the months after it too, until another one begins')),
                ('amount', models.DecimalField(decimal_places=6, help_text='None = no budget from this month on', max_digits=18, null=True)),
                ('currency', models.CharField(default='USD', help_text="converted by the rate of exchange at each month's beginning", max_length=3)),
                ('created_at', models.DateTimeField()),
                ('created_by', models.CharField(max_length=200)),
                ('team', models.ForeignKey(help_text='None = the whole fleet', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.team')),
            ],
            options={
                'indexes': [models.Index(fields=['month'], name='budget_by_month')],
                'constraints': [models.CheckConstraint(condition=models.Q(('amount__isnull', True), ('amount__gt', 0), _connector='OR'), name='a_budget_is_above_zero'), models.CheckConstraint(condition=models.Q(('month__day', 1)), name='a_budget_is_for_a_month')],
            },
        ),
    ]
