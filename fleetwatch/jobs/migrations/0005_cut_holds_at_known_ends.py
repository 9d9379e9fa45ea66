"""What was asserted before ends were kept: each span is a run, and the end of a job that is known cuts what was held after it.

The hours that this changes are judged again with all that the upgrade judges again.
"""

from django.db import migrations

STARTS = """
UPDATE jobs_allocation
SET starts = ARRAY(SELECT lower(span) FROM unnest(asserted) AS span ORDER BY 1)
"""
ENDS = """
INSERT INTO jobs_runend (job_id, source, start_ms, end_ms, as_of_ms, boot_start_ms, sequence)
SELECT
    id, '', start_ms, end_ms,
    coalesce((facts_order ->> 0)::bigint, end_ms), coalesce((facts_order ->> 1)::bigint, 0), coalesce((facts_order ->> 2)::bigint, 0)
FROM jobs_job
WHERE end_ms >= coalesce(start_ms, end_ms)
"""
# A span that begins after the end is another run, as in cut_holds.sql.
CUT = """
UPDATE jobs_allocation AS allocation
SET ended = int8multirange(int8range(
    run_end.end_ms,
    coalesce((SELECT min(start_ms) FROM unnest(allocation.starts) AS start_ms WHERE start_ms >= run_end.end_ms), 9223372036854775807)
))
FROM jobs_runend AS run_end
WHERE run_end.job_id = allocation.job_id AND allocation.source IN ('slurm', 'kubernetes')
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0004_ends_of_runs")]

    operations = [
        migrations.RunSQL(STARTS, migrations.RunSQL.noop),
        migrations.RunSQL(ENDS, migrations.RunSQL.noop),
        migrations.RunSQL(CUT, migrations.RunSQL.noop),
    ]
