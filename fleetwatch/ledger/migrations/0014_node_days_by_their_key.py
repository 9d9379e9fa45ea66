"""Days of nodes are found by node and day: the index of the node alone is gone."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0003_node_speaks_for_its_gpus'),
        ('ledger', '0013_cells_are_one_frame'),
    ]

    operations = [
        migrations.AlterField(
            model_name='nodeday',
            name='node',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.node'),
        ),
    ]
