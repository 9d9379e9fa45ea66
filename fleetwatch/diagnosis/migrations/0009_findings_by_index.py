"""Findings are refreshed by index, however long a job has run or a node is known; no key has an index that another one begins with."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('diagnosis', '0008_no_rows_of_sums'),
        ('inventory', '0003_node_speaks_for_its_gpus'),
        ('jobs', '0003_changed_jobs'),
    ]

    operations = [
        migrations.AlterField(
            model_name='causeentry',
            name='gpu',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.gpu'),
        ),
        migrations.AlterField(
            model_name='causeentry',
            name='job',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='causes', to='jobs.job'),
        ),
        migrations.AlterField(
            model_name='causeentry',
            name='node',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.node'),
        ),
        migrations.AlterField(
            model_name='diagnosedday',
            name='node',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.node'),
        ),
        migrations.AlterField(
            model_name='nodecells',
            name='node',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.node'),
        ),
        migrations.AddIndex(
            model_name='capacityentry',
            index=models.Index(condition=models.Q(('cluster', '')), fields=['node', 'cause', 'start'], name='capacity_by_node_cause'),
        ),
        migrations.AddIndex(
            model_name='capacityentry',
            index=models.Index(condition=models.Q(('high_ms__gt', 0), models.Q(('cluster', ''), _negated=True)), fields=['cluster', 'cause', 'start'], name='capacity_by_cluster'),
        ),
        migrations.AddIndex(
            model_name='causeentry',
            index=models.Index(condition=models.Q(('high_ms__gt', 0)), fields=['job', 'cause', 'start'], name='waste_by_job'),
        ),
        migrations.AddIndex(
            model_name='causeentry',
            index=models.Index(condition=models.Q(('cause', 'throttled'), ('high_ms__gt', 0)), fields=['node', 'start'], name='throttled_by_node'),
        ),
    ]
