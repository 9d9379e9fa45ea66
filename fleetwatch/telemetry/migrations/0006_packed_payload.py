from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('telemetry', '0005_stored_bytes'),
    ]

    operations = [
        migrations.AlterField(
            model_name='batch',
            name='payload',
            field=models.BinaryField(help_text='as packed (agent/packed.py)'),
        ),
    ]
