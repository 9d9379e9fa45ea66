from django.db import migrations

# What a node's trouble cost a job stays a cause of that job's time; to decide on there is one finding of the node.
# Findings are worked out anew from causes; those that people spoke of stay.
_DELETE = """
DELETE FROM diagnosis_finding AS finding
WHERE cause IN ('throttled', 'gpu_fault', 'no_telemetry')
  AND job_id IS NOT NULL
  AND NOT EXISTS (SELECT FROM diagnosis_said AS said WHERE said.finding_id = finding.id)
"""


class Migration(migrations.Migration):

    dependencies = [('diagnosis', '0005_findings_of_nodes_and_clusters')]

    operations = [migrations.RunSQL(_DELETE, migrations.RunSQL.noop)]
