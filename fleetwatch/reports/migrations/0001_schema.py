"""Reports, invoices and what was booked of them."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('inventory', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='Invoice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.CharField(help_text='2026-10', max_length=7)),
                ('issuer', models.CharField(blank=True, default='', help_text='who sent it, as the file names it', max_length=100)),
                ('digest', models.CharField(help_text='SHA-256 of the file: the same one is taken once', max_length=64)),
                ('form', models.CharField(help_text='csv, focus', max_length=16)),
                ('file_name', models.CharField(blank=True, default='', max_length=200)),
                ('currency', models.CharField(default='USD', max_length=3)),
                ('usd_per_unit', models.DecimalField(decimal_places=8, help_text="of the currency, at the month's beginning", max_digits=18)),
                ('rows', models.PositiveIntegerField(help_text='rows of the file; rows of one kind are one line')),
                ('imported_at', models.DateTimeField()),
                ('imported_by', models.CharField(blank=True, default='', max_length=150)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('month', 'issuer'), name='one_invoice_per_month_and_issuer')],
            },
        ),
        migrations.CreateModel(
            name='InvoiceAdjustment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.CharField(help_text="the invoice's", max_length=7)),
                ('booked_in', models.CharField(help_text='the month whose reports have the line', max_length=7)),
                ('key', models.CharField(help_text='which line of the reconciliation (reconciling.py)', max_length=300)),
                ('label', models.CharField(max_length=300)),
                ('hours_usd', models.DecimalField(decimal_places=6, max_digits=24)),
                ('unobserved_usd', models.DecimalField(decimal_places=6, max_digits=24)),
                ('rate_usd', models.DecimalField(decimal_places=6, max_digits=24)),
                ('other_usd', models.DecimalField(decimal_places=6, help_text='of lines that are not matched', max_digits=24)),
                ('reason', models.CharField(max_length=300)),
                ('booked_at', models.DateTimeField()),
                ('booked_by', models.CharField(max_length=150)),
                ('withdrawn_at', models.DateTimeField(null=True)),
                ('withdrawn_by', models.CharField(blank=True, default='', max_length=150)),
            ],
            options={
                'indexes': [models.Index(fields=['booked_in'], name='invoice_booking_by_month'), models.Index(fields=['month'], name='invoice_booking_by_invoice')],
            },
        ),
        migrations.CreateModel(
            name='InvoiceLine',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('line', models.PositiveIntegerField(help_text='of the file, where its first row stands')),
                ('sku', models.CharField(blank=True, default='', max_length=200)),
                ('region', models.CharField(blank=True, default='', max_length=63)),
                ('category', models.CharField(default='Usage', help_text='as FOCUS: Usage, Purchase, Tax, Credit, Adjustment', max_length=16)),
                ('gpu_model', models.CharField(blank=True, default='', help_text='as the file names it; empty = by its SKU (InvoiceSKU)', max_length=100)),
                ('description', models.CharField(blank=True, default='', max_length=300)),
                ('hours', models.DecimalField(decimal_places=9, help_text='as billed; None = not by the hour', max_digits=30, null=True)),
                ('gpus_per_hour', models.PositiveIntegerField(help_text='GPUs that one billed hour is of; None = by its SKU', null=True)),
                ('amount', models.DecimalField(decimal_places=12, help_text="in the invoice's currency", max_digits=36)),
                ('invoice', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='lines', to='reports.invoice')),
            ],
        ),
        migrations.CreateModel(
            name='InvoiceSKU',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sku', models.CharField(max_length=200, unique=True)),
                ('gpus_per_hour', models.PositiveIntegerField(default=1)),
                ('gpu_model', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.gpumodel')),
            ],
        ),
        migrations.CreateModel(
            name='MonthRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.CharField(help_text='2026-10', max_length=7)),
                ('start', models.DateTimeField()),
                ('end', models.DateTimeField()),
                ('previous_start', models.DateTimeField(help_text='what it is compared with')),
                ('previous_end', models.DateTimeField()),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('computing', 'Computing'), ('done', 'Done'), ('stale', 'Stale'), ('failed', 'Failed')], default='waiting', max_length=16)),
                ('asked_at', models.DateTimeField()),
                ('asked_by', models.CharField(blank=True, default='', help_text="a person's name; empty = the clock", max_length=150)),
                ('planned_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('inputs', models.CharField(blank=True, default='', max_length=64)),
                ('free_capacity', models.CharField(default='own', help_text='how it is told (statement_choices.py), as chosen when this was planned', max_length=16)),
                ('restarts', models.PositiveIntegerField(default=0, help_text='how often the ledger changed while it was computed')),
                ('note', models.CharField(blank=True, default='', help_text='for people: why it failed, or had nothing to do', max_length=300)),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('state__in', ('waiting', 'computing'))), fields=('month',), name='one_open_run_per_month')],
            },
        ),
        migrations.CreateModel(
            name='Report',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(help_text='digest.KINDS, statement, fleet', max_length=32)),
                ('subject', models.CharField(blank=True, default='', help_text="the team's slug, (none) for jobs without one; fleet: empty; a person's digest: its id", max_length=100)),
                ('start', models.DateTimeField()),
                ('end', models.DateTimeField()),
                ('version', models.PositiveIntegerField(default=1)),
                ('computed_at', models.DateTimeField()),
                ('inputs', models.CharField(blank=True, default='', help_text='digest of what it was first computed from (inputs.py)', max_length=64)),
                ('cost_usd', models.DecimalField(decimal_places=6, help_text='the total, in micro-dollars', max_digits=24, null=True)),
                ('content', models.JSONField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('kind', 'subject', 'start', 'version'), name='one_report_per_version')],
            },
        ),
        migrations.CreateModel(
            name='StatementChoice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('free_capacity', models.CharField(default='own', help_text='one of choices.WAYS', max_length=16)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('pk', 1)), name='only_one_choice_for_statements')],
            },
        ),
        migrations.CreateModel(
            name='ReportPart',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=32)),
                ('subject', models.CharField(blank=True, default='', max_length=100)),
                ('cost_usd', models.DecimalField(decimal_places=6, help_text="its part of the fleet's micro-dollars", max_digits=24)),
                ('previous_usd', models.DecimalField(decimal_places=6, help_text='None = nothing to compare with', max_digits=24, null=True)),
                ('free_usd', models.DecimalField(decimal_places=6, help_text='its part of what stood free; fleet: what of it no team gets; None = not spread', max_digits=24, null=True)),
                ('handed_out_at', models.DateTimeField(help_text='given to Celery; again, where nothing came of it', null=True)),
                ('done_at', models.DateTimeField(null=True)),
                ('failures', models.PositiveIntegerField(default=0)),
                ('report', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='reports.report')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='parts', to='reports.monthrun')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('run', 'kind', 'subject'), name='one_part_per_run_and_subject')],
            },
        ),
    ]
