"""Since when a process says without a pause that it lives; of those from before, since they last did."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('operations', '0001_schema'),
    ]

    operations = [
        migrations.AddField(
            model_name='heartbeat',
            name='since',
            field=models.DateTimeField(null=True),
        ),
        migrations.RunSQL("UPDATE operations_heartbeat SET since = at", migrations.RunSQL.noop),
        migrations.AlterField(
            model_name='heartbeat',
            name='since',
            field=models.DateTimeField(help_text='without a pause of 90 s since then'),
        ),
    ]
