"""Where a GPU was when are stays; its UUID may stand with several nodes."""

import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0003_node_speaks_for_its_gpus'),
    ]

    operations = [
        migrations.AlterField(
            model_name='gpu',
            name='retired_ms',
            field=models.BigIntegerField(help_text='capacity ended here (by hand, 7 silent days, or it went to another node)', null=True),
        ),
        migrations.AlterField(
            model_name='gpu',
            name='uuid',
            field=models.CharField(max_length=96),
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
