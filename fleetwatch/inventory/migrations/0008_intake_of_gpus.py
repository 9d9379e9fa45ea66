"""How many GPUs a node brought in an hour is counted too."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0007_intake'),
    ]

    operations = [
        migrations.AddField(
            model_name='intake',
            name='gpus',
            field=models.BigIntegerField(default=0),
        ),
    ]
