"""The views costs_asked, what mapping rules see of a job, and costs_owned, whose its time is."""

from django.db import migrations

# One row: a job; NULL where it names nothing. Kubernetes names a job namespace/pod; others may say a namespace by a label.
ASKED = """
CREATE VIEW costs_asked AS
SELECT
    id,
    NULLIF("user", '') AS "user",
    NULLIF(account, '') AS account,
    CASE WHEN scheduler = 'kubernetes' THEN NULLIF(split_part(name, '/', 1), '') ELSE labels ->> 'namespace' END AS namespace,
    labels ->> 'partition' AS partition,
    labels,
    team_id,
    "user" <> '' OR account <> '' AS is_named
FROM jobs_job
"""

# One row: a job and a span of time in which it belongs to one team, project and cost centre. Spans of a job follow each
# other without gaps; a job for which no rule speaks is its account's team's.
OWNED = """
CREATE VIEW costs_owned AS
SELECT
    job.id AS job_id,
    CASE WHEN attribution.id IS NULL THEN job.team_id ELSE attribution.team_id END AS team_id,
    COALESCE(attribution.project, '') AS project,
    COALESCE(attribution.cost_centre, '') AS cost_centre,
    COALESCE(attribution.is_named, job."user" <> '' OR job.account <> '') AS is_named,
    COALESCE(attribution.valid_from, '-infinity'::timestamptz) AS valid_from,
    COALESCE(attribution.valid_to, 'infinity'::timestamptz) AS valid_to
FROM jobs_job AS job
LEFT JOIN costs_attribution AS attribution ON attribution.job_id = job.id
"""


class Migration(migrations.Migration):
    dependencies = [("costs", "0013_mapping_rules"), ("jobs", "0003_changed_jobs")]

    operations = [migrations.RunSQL(ASKED, "DROP VIEW costs_asked"), migrations.RunSQL(OWNED, "DROP VIEW costs_owned")]
