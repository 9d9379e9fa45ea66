import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Entries and runs lose the indexes of single keys, which no reader used and every posting wrote."""

    dependencies = [
        ("inventory", "0002_node_facts_digest"),
        ("jobs", "0003_changed_jobs"),
        ("ledger", "0005_closed_months_and_adjustments"),
    ]

    operations = [
        migrations.AddIndex(model_name="entry", index=models.Index(fields=["gpu", "start"], name="entry_by_gpu")),
        *(
            migrations.AlterField(
                model_name=model, name=name, field=models.ForeignKey(db_index=False, on_delete=on_delete, to=to, null=null)
            )
            for model, name, on_delete, to, null in (
                ("entry", "gpu", django.db.models.deletion.PROTECT, "inventory.gpu", False),
                ("entry", "job", django.db.models.deletion.SET_NULL, "jobs.job", True),
                ("entry", "node", django.db.models.deletion.PROTECT, "inventory.node", False),
                ("entry", "policy", django.db.models.deletion.PROTECT, "ledger.policy", False),
                ("run", "gpu", django.db.models.deletion.PROTECT, "inventory.gpu", False),
                ("run", "job", django.db.models.deletion.SET_NULL, "jobs.job", True),
                ("run", "node", django.db.models.deletion.PROTECT, "inventory.node", False),
            )
        ),
    ]
