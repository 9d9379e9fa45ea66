"""Rates, places, mapping rules and sums of days; and the functions of ../sql that pack these."""

from pathlib import Path

import django.contrib.postgres.constraints
import django.contrib.postgres.fields
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
from django.db import migrations, models

from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).resolve().parent.parent / "sql"
# a day of eight GPUs is some 4 kB that every figure reads: beside the row, not behind it, and not
# compressed
INLINE = """
ALTER TABLE costs_summedday
    ALTER COLUMN spans SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160)
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0001_schema'),
        ('inventory', '0001_schema'),
        ('jobs', '0001_schema'),
    ]

    operations = [
        migrations.CreateModel(
            name='GPURate',
            fields=[
                ('pk', models.CompositePrimaryKey('gpu', 'valid_from', blank=True, editable=False, primary_key=True, serialize=False)),
                ('usd_per_gpu_hour', models.DecimalField(decimal_places=14, max_digits=36)),
                ('is_example', models.BooleanField()),
                ('valid_from', models.DateTimeField()),
                ('valid_to', models.DateTimeField(null=True)),
            ],
            options={
                'db_table': 'costs_gpurate',
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='ExchangeRate',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('currency', models.CharField(max_length=3)),
                ('usd_per_unit', models.DecimalField(decimal_places=8, max_digits=18)),
                ('valid_from', models.DateTimeField()),
                ('source', models.CharField(blank=True, default='', max_length=300)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('currency', 'valid_from'), name='one_exchange_rate_per_currency_and_moment'), models.CheckConstraint(condition=models.Q(('usd_per_unit__gt', 0)), name='an_exchange_rate_is_above_zero'), models.CheckConstraint(condition=models.Q(('currency', 'USD'), _negated=True), name='dollars_are_not_exchanged')],
            },
        ),
        migrations.CreateModel(
            name='MappingRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('priority', models.PositiveSmallIntegerField(default=100, help_text='the smallest is asked first')),
                ('user', models.CharField(blank=True, default='', max_length=128)),
                ('account', models.CharField(blank=True, default='', max_length=128)),
                ('namespace', models.CharField(blank=True, default='', help_text='of a Kubernetes job', max_length=128)),
                ('partition', models.CharField(blank=True, default='', help_text="a job's label `partition`", max_length=128)),
                ('label', models.CharField(blank=True, default='', help_text="a label's name, exactly", max_length=128)),
                ('label_value', models.CharField(blank=True, default='', max_length=128)),
                ('project', models.CharField(blank=True, default='', max_length=100)),
                ('cost_centre', models.CharField(blank=True, default='', max_length=100)),
                ('valid_from', models.DateTimeField()),
                ('valid_to', models.DateTimeField(help_text='None = still valid', null=True)),
                ('note', models.CharField(blank=True, default='', max_length=300)),
                ('created_at', models.DateTimeField()),
                ('created_by', models.CharField(blank=True, default='', max_length=200)),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='mapping_rules', to='accounts.team')),
            ],
        ),
        migrations.CreateModel(
            name='Attribution',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('valid_from', models.DateTimeField()),
                ('valid_to', models.DateTimeField(help_text='None = from then on', null=True)),
                ('project', models.CharField(blank=True, default='', max_length=100)),
                ('cost_centre', models.CharField(blank=True, default='', max_length=100)),
                ('is_named', models.BooleanField(help_text='whether the job names a user or an account: why it has no team, project or cost centre')),
                ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='jobs.job')),
                ('team', models.ForeignKey(db_index=False, help_text="a rule's, or the account's", null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='accounts.team')),
                ('cost_centre_rule', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='costs.mappingrule')),
                ('project_rule', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='costs.mappingrule')),
                ('team_rule', models.ForeignKey(db_index=False, help_text='None = its account', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='costs.mappingrule')),
            ],
        ),
        migrations.CreateModel(
            name='NodePlace',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('pool', models.CharField(blank=True, default='', max_length=63)),
                ('node_class', models.CharField(blank=True, default='', max_length=16)),
                ('region', models.CharField(blank=True, default='', max_length=63)),
                ('valid_from', models.DateTimeField()),
                ('valid_to', models.DateTimeField(help_text='None = still so', null=True)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='places', to='inventory.node')),
            ],
        ),
        migrations.CreateModel(
            name='Rate',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('pool', models.CharField(blank=True, default='', help_text="as nodes' label `pool` says it", max_length=63)),
                ('node_class', models.CharField(blank=True, default='', help_text="of a model's rate: only on nodes of this class", max_length=16)),
                ('region', models.CharField(blank=True, default='', help_text="of a model's rate: only on nodes of this region", max_length=63)),
                ('pricing_class', models.CharField(blank=True, default='', help_text='one of PRICING_CLASSES, or not said', max_length=16)),
                ('price_per_gpu_hour', models.DecimalField(decimal_places=6, help_text='in its currency', max_digits=18)),
                ('currency', models.CharField(default='USD', help_text='ISO 4217; others than USD are converted by ExchangeRate', max_length=3)),
                ('valid_from', models.DateTimeField()),
                ('valid_to', models.DateTimeField(help_text='None = still valid', null=True)),
                ('is_example', models.BooleanField(default=False, help_text='shipped list price; badged until replaced')),
                ('source', models.CharField(blank=True, default='', max_length=300)),
                ('source_date', models.DateField(null=True)),
                ('components', models.JSONField(default=list, help_text='of a computed price: name, dollars as text, how (tco.py); they sum to the price')),
                ('created_at', models.DateTimeField()),
                ('gpu', models.ForeignKey(help_text='a physical GPU', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='rates', to='inventory.gpu')),
                ('gpu_model', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='rates', to='inventory.gpumodel')),
                ('node', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='rates', to='inventory.node')),
            ],
        ),
        migrations.CreateModel(
            name='Region',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(blank=True, help_text='"" = nodes that name none', max_length=63)),
                ('valid_from', models.DateTimeField()),
                ('pue', models.DecimalField(decimal_places=3, help_text='energy at the meter ÷ energy of the machines', max_digits=6)),
                ('usd_per_kwh', models.DecimalField(decimal_places=6, max_digits=12, null=True)),
                ('g_per_kwh', models.DecimalField(decimal_places=3, help_text='grams of CO2 equivalents per kWh of the grid', max_digits=10, null=True)),
                ('source', models.CharField(blank=True, default='', max_length=300)),
                ('source_date', models.DateField(null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('name', 'valid_from'), name='one_row_per_region_and_moment')],
            },
        ),
        migrations.CreateModel(
            name='SummedDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField(help_text="the organisation's midnight")),
                ('until', models.DateTimeField(help_text="the day's end, or a clock hour within it")),
                ('versions', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), help_text="ledger.NodeDay's of each clock hour that [start, until) touches", size=None)),
                ('alike', models.CharField(help_text='digest of which GPUs of the node have one price', max_length=32)),
                ('spans', models.BinaryField(help_text='of each GPU, holder and kind of time, as ledger_spans.py reads it')),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.node')),
            ],
        ),
        migrations.CreateModel(
            name='Commitment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='the contract, for people', max_length=100)),
                ('pool', models.CharField(blank=True, default='', max_length=63)),
                ('node_class', models.CharField(blank=True, default='', max_length=16)),
                ('region', models.CharField(blank=True, default='', max_length=63)),
                ('gpus', models.PositiveIntegerField()),
                ('price_per_gpu_hour', models.DecimalField(decimal_places=6, help_text='in its currency; None = paid by the month', max_digits=18, null=True)),
                ('amount_per_month', models.DecimalField(decimal_places=6, help_text="for all of its GPUs, in its currency; part of a month = its share of the month's hours", max_digits=24, null=True)),
                ('currency', models.CharField(default='USD', help_text='ISO 4217; others than USD are converted by ExchangeRate', max_length=3)),
                ('valid_from', models.DateTimeField()),
                ('valid_to', models.DateTimeField(help_text='None = open', null=True)),
                ('source', models.CharField(blank=True, default='', max_length=300)),
                ('created_at', models.DateTimeField()),
                ('gpu_model', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='commitments', to='inventory.gpumodel')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('gpus__gt', 0)), name='a_commitment_is_for_some_gpus'), models.CheckConstraint(condition=models.Q(models.Q(('amount_per_month__isnull', True), ('price_per_gpu_hour__gte', 0)), models.Q(('amount_per_month__gte', 0), ('price_per_gpu_hour__isnull', True)), _connector='OR'), name='a_commitment_has_one_price'), models.CheckConstraint(condition=models.Q(('node_class__in', ('', 'on_demand', 'reserved', 'spot', 'owned'))), name='a_commitment_is_for_a_known_class'), models.CheckConstraint(condition=models.Q(('valid_to__isnull', True), ('valid_to__gt', models.F('valid_from')), _connector='OR'), name='a_commitment_ends_after_it_starts')],
            },
        ),
        migrations.CreateModel(
            name='DayHours',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField(help_text="the organisation's midnight")),
                ('cuts', django.contrib.postgres.fields.ArrayField(base_field=models.DateTimeField(), size=None)),
                ('capacity_ms', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
                ('held_ms', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), help_text='of it, what a job held', size=None)),
                ('unobserved_ms', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), help_text='of it, what nobody saw', size=None)),
                ('gpu', models.ForeignKey(db_index=False, help_text='one of the GPUs: all have its price', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.gpu')),
                ('node', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.node')),
            ],
            options={
                'indexes': [models.Index(fields=['node', 'start'], name='day_hours_by_node')],
            },
        ),
        migrations.AddConstraint(
            model_name='mappingrule',
            constraint=models.CheckConstraint(condition=models.Q(('account', ''), ('label', ''), ('namespace', ''), ('partition', ''), ('user', ''), _negated=True), name='a_mapping_rule_has_a_condition'),
        ),
        migrations.AddConstraint(
            model_name='mappingrule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('label', ''), ('label_value', '')), models.Q(models.Q(('label', ''), _negated=True), models.Q(('label_value', ''), _negated=True)), _connector='OR'), name='a_label_has_a_value'),
        ),
        migrations.AddConstraint(
            model_name='mappingrule',
            constraint=models.CheckConstraint(condition=models.Q(('team__isnull', False), models.Q(('cost_centre', ''), ('project', ''), _negated=True), _connector='OR'), name='a_mapping_rule_gives_something'),
        ),
        migrations.AddConstraint(
            model_name='mappingrule',
            constraint=models.CheckConstraint(condition=models.Q(('valid_to__isnull', True), ('valid_to__gt', models.F('valid_from')), _connector='OR'), name='a_mapping_rule_ends_after_it_starts'),
        ),
        migrations.AddConstraint(
            model_name='attribution',
            constraint=models.UniqueConstraint(fields=('job', 'valid_from'), name='one_attribution_per_job_and_moment'),
        ),
        migrations.AddConstraint(
            model_name='nodeplace',
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(expressions=[(models.Func(models.F('node'), models.F('node'), models.Value('[]'), function='int8range', output_field=django.contrib.postgres.fields.ranges.BigIntegerRangeField()), '='), (models.Func(models.F('valid_from'), models.F('valid_to'), function='tstzrange', output_field=django.contrib.postgres.fields.ranges.DateTimeRangeField()), '&&')], name='one_place_per_node_at_a_time'),
        ),
        migrations.AddConstraint(
            model_name='nodeplace',
            constraint=models.UniqueConstraint(condition=models.Q(('valid_to__isnull', True)), fields=('node',), name='one_present_place_per_node'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('gpu__isnull', False), ('gpu_model__isnull', True), ('node__isnull', True), ('pool', '')), models.Q(('gpu__isnull', True), ('gpu_model__isnull', True), ('node__isnull', False), ('pool', '')), models.Q(('gpu__isnull', True), ('gpu_model__isnull', True), ('node__isnull', True), models.Q(('pool', ''), _negated=True)), models.Q(('gpu__isnull', True), ('gpu_model__isnull', False), ('node__isnull', True), ('pool', '')), _connector='OR'), name='a_rate_is_for_one_subject'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=models.CheckConstraint(condition=models.Q(('gpu_model__isnull', False), models.Q(('node_class', ''), ('region', '')), _connector='OR'), name='class_and_region_are_of_a_models_rate'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=models.CheckConstraint(condition=models.Q(('node_class__in', ('', 'on_demand', 'reserved', 'spot', 'owned'))), name='a_rate_is_for_a_known_class'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=models.CheckConstraint(condition=models.Q(('pricing_class__in', ('', 'on_demand', 'reserved', 'spot', 'owned'))), name='a_rate_is_of_a_known_class'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=models.CheckConstraint(condition=models.Q(('price_per_gpu_hour__gte', 0)), name='a_rate_is_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=models.CheckConstraint(condition=models.Q(('valid_to__isnull', True), ('valid_to__gt', models.F('valid_from')), _connector='OR'), name='a_rate_ends_after_it_starts'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(condition=models.Q(('gpu__isnull', False)), expressions=[(models.Func(models.F('gpu'), models.F('gpu'), models.Value('[]'), function='int8range', output_field=django.contrib.postgres.fields.ranges.BigIntegerRangeField()), '='), (models.Func(models.F('valid_from'), models.F('valid_to'), function='tstzrange', output_field=django.contrib.postgres.fields.ranges.DateTimeRangeField()), '&&')], name='one_rate_per_gpu_at_a_time'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(condition=models.Q(('node__isnull', False)), expressions=[(models.Func(models.F('node'), models.F('node'), models.Value('[]'), function='int8range', output_field=django.contrib.postgres.fields.ranges.BigIntegerRangeField()), '='), (models.Func(models.F('valid_from'), models.F('valid_to'), function='tstzrange', output_field=django.contrib.postgres.fields.ranges.DateTimeRangeField()), '&&')], name='one_rate_per_node_at_a_time'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(condition=models.Q(('pool', ''), _negated=True), expressions=[(models.Func(models.Func(models.F('pool'), models.Value(0), function='hashtextextended', output_field=models.BigIntegerField()), models.Func(models.F('pool'), models.Value(0), function='hashtextextended', output_field=models.BigIntegerField()), models.Value('[]'), function='int8range', output_field=django.contrib.postgres.fields.ranges.BigIntegerRangeField()), '='), (models.Func(models.F('valid_from'), models.F('valid_to'), function='tstzrange', output_field=django.contrib.postgres.fields.ranges.DateTimeRangeField()), '&&')], name='one_rate_per_pool_at_a_time'),
        ),
        migrations.AddConstraint(
            model_name='rate',
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(condition=models.Q(('gpu_model__isnull', False)), expressions=[(models.Func(models.F('gpu_model'), models.F('gpu_model'), models.Value('[]'), function='int8range', output_field=django.contrib.postgres.fields.ranges.BigIntegerRangeField()), '='), (models.Func(models.Func(models.F('node_class'), models.Value(0), function='hashtextextended', output_field=models.BigIntegerField()), models.Func(models.F('node_class'), models.Value(0), function='hashtextextended', output_field=models.BigIntegerField()), models.Value('[]'), function='int8range', output_field=django.contrib.postgres.fields.ranges.BigIntegerRangeField()), '='), (models.Func(models.Func(models.F('region'), models.Value(0), function='hashtextextended', output_field=models.BigIntegerField()), models.Func(models.F('region'), models.Value(0), function='hashtextextended', output_field=models.BigIntegerField()), models.Value('[]'), function='int8range', output_field=django.contrib.postgres.fields.ranges.BigIntegerRangeField()), '='), (models.Func(models.F('valid_from'), models.F('valid_to'), function='tstzrange', output_field=django.contrib.postgres.fields.ranges.DateTimeRangeField()), '&&')], name='one_rate_per_model_at_a_time'),
        ),
        migrations.AddConstraint(
            model_name='summedday',
            constraint=models.UniqueConstraint(fields=('node', 'start'), name='one_sum_per_node_and_day'),
        ),
        migrations.RunSQL(INLINE, migrations.RunSQL.noop),
        migrations.RunSQL(read_statement(SQL / "hour_versions.sql"), "DROP FUNCTION costs_versions"),
        migrations.RunSQL(read_statement(SQL / "kind_of_time.sql"), "DROP FUNCTION costs_kind"),
        migrations.RunSQL(read_statement(SQL / "packed_span.sql"), "DROP FUNCTION costs_span"),
    ]
