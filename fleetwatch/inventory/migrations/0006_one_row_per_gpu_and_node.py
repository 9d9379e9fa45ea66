"""A GPU has one row with each node that it was with."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0005_stays_of_known_gpus'),
    ]

    operations = [
        migrations.AddConstraint(
            model_name='gpu',
            constraint=models.UniqueConstraint(fields=('uuid', 'node'), name='one_row_per_gpu_and_node'),
        ),
    ]
