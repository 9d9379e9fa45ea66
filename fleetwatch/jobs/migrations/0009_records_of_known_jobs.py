"""What is known of jobs is from now on the word of the nodes that hold them; of a job that nobody held, of an import."""

from django.db import migrations

FACTS = """
jsonb_build_object(
    'scheduler', job.scheduler, 'cluster', job.cluster, 'external_id', job.external_id, 'name', job.name, 'user', job."user",
    'account', job.account, 'kind', job.kind, 'state', job.state, 'submit_ms', job.submit_ms, 'start_ms', job.start_ms,
    'end_ms', job.end_ms, 'restarts', job.restarts, 'labels', job.labels
)
"""
ORDER = """
coalesce((job.facts_order ->> 0)::bigint, 0), coalesce((job.facts_order ->> 1)::bigint, 0), coalesce((job.facts_order ->> 2)::bigint, 0)
"""
HOLDERS = f"""
INSERT INTO jobs_jobrecord (key, node_id, voice, as_of_ms, boot_start_ms, sequence, facts, held_at, held_until_ms)
SELECT job.key, held.node_id, 1, {ORDER}, {FACTS}, to_timestamp(held.since_ms / 1000.0), held.until_ms
FROM jobs_job AS job
JOIN (
    SELECT allocation.job_id, gpu.node_id, min(lower(allocation.asserted)) AS since_ms, max(upper(allocation.asserted)) AS until_ms
    FROM jobs_allocation AS allocation
    JOIN inventory_gpu AS gpu ON gpu.id = allocation.gpu_id
    WHERE NOT isempty(allocation.asserted)
    GROUP BY allocation.job_id, gpu.node_id
) AS held ON held.job_id = job.id
ON CONFLICT DO NOTHING
"""
OTHERS = f"""
INSERT INTO jobs_jobrecord (key, node_id, voice, as_of_ms, boot_start_ms, sequence, facts)
SELECT job.key, NULL, 2, {ORDER}, {FACTS}
FROM jobs_job AS job
WHERE NOT EXISTS (SELECT FROM jobs_jobrecord AS record WHERE record.key = job.key)
ON CONFLICT DO NOTHING
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0008_job_records"), ("inventory", "0003_node_speaks_for_its_gpus")]

    operations = [migrations.RunSQL([HOLDERS, OTHERS], migrations.RunSQL.noop)]
