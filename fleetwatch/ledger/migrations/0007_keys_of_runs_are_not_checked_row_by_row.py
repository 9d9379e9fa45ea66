import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Runs are written with the entries of their hour, whose keys are checked: checking them again was half of posting's writes."""

    dependencies = [("ledger", "0006_one_index_per_reader")]

    operations = [
        *(
            migrations.AlterField(
                model_name="run",
                name=name,
                field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=on_delete, to=to, null=null),
            )
            for name, on_delete, to, null in (
                ("gpu", django.db.models.deletion.PROTECT, "inventory.gpu", False),
                ("job", django.db.models.deletion.SET_NULL, "jobs.job", True),
                ("node", django.db.models.deletion.PROTECT, "inventory.node", False),
            )
        ),
    ]
