from django.db import migrations

# what had no effect, or ended a breach beyond its own threshold, is refused from now on
FORGET = """
UPDATE alerts_rule
SET clear = NULL
WHERE condition IN ('budget_spent', 'finding_saving', 'gpu_memory_errors', 'unusual_spending')
    OR (condition = 'low_utilisation' AND clear < threshold)
    OR (condition <> 'low_utilisation' AND clear > threshold)
"""


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0008_failing_rules'),
    ]

    operations = [migrations.RunSQL(FORGET, migrations.RunSQL.noop)]
