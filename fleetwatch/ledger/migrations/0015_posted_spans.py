"""What was posted of a GPU's capacity are spans: it may leave its node and come back."""

from django.db import migrations, models

FILL = "UPDATE ledger_posted SET spans = jsonb_build_array(jsonb_build_array(start_ms, end_ms))"
EMPTY = "UPDATE ledger_posted SET start_ms = (spans -> 0 ->> 0)::bigint, end_ms = (spans -> -1 ->> 1)::bigint"


class Migration(migrations.Migration):

    dependencies = [
        ('ledger', '0014_node_days_by_their_key'),
    ]

    operations = [
        migrations.AddField(
            model_name='posted',
            name='spans',
            field=models.JSONField(default=list, help_text='[start_ms, end_ms] of each span of capacity, or to where telemetry went for now'),
            preserve_default=False,
        ),
        migrations.AlterField(model_name='posted', name='start_ms', field=models.BigIntegerField(default=0)),
        migrations.AlterField(model_name='posted', name='end_ms', field=models.BigIntegerField(default=0)),
        migrations.RunSQL(FILL, EMPTY),
        migrations.RemoveField(model_name='posted', name='start_ms'),
        migrations.RemoveField(model_name='posted', name='end_ms'),
    ]
