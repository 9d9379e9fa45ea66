-- One row: digest of all that figures over [start, end) are made of. The same digest means the same figures.
-- In:  start, end (timestamptz, the organisation's midnights).
-- Again: safe, it only reads.
-- Versions of the ledger only grow; a policy that changed has posted its hours again.
SELECT md5(concat_ws('/',
    (
        SELECT md5(COALESCE(string_agg(md5(concat_ws(' ', node_id, day, versions[
            CASE WHEN day = (%(start)s AT TIME ZONE 'UTC')::date THEN 1 + extract(hour FROM %(start)s AT TIME ZONE 'UTC')::int ELSE 1 END
            : CASE WHEN day = (%(end)s AT TIME ZONE 'UTC')::date THEN ceil(extract(epoch FROM (%(end)s AT TIME ZONE 'UTC')::time) / 3600)::int ELSE 24 END
        ]::text)), '' ORDER BY node_id, day), ''))
        FROM ledger_nodeday
        WHERE day >= (%(start)s AT TIME ZONE 'UTC')::date
          AND day < %(end)s AT TIME ZONE 'UTC'
    ),
    (
        SELECT md5(COALESCE(string_agg(concat_ws(' ', gpu_id, usd_per_gpu_hour, is_example, GREATEST(valid_from, %(start)s), LEAST(valid_to, %(end)s)), ',' ORDER BY gpu_id, valid_from), ''))
        FROM costs_gpurate
        WHERE valid_from < %(end)s
          AND (valid_to IS NULL OR valid_to > %(start)s)
    ),
    (
        SELECT md5(COALESCE(string_agg(concat_ws(' ', gpu.id, model.name), ',' ORDER BY gpu.id), ''))
        FROM inventory_gpu AS gpu
        LEFT JOIN inventory_gpumodel AS model ON model.id = gpu.model_id
        WHERE gpu.first_ms < extract(epoch FROM %(end)s) * 1000
    ),
    (
        SELECT md5(COALESCE(string_agg(concat_ws(' ',
            job.id, job.key, quote_literal(job.name), quote_literal(job."user"), team.slug, quote_literal(team.name),
            quote_literal(owned.project), quote_literal(owned.cost_centre), owned.is_named,
            GREATEST(owned.valid_from, %(start)s), LEAST(owned.valid_to, %(end)s)
        ), ',' ORDER BY job.id, owned.valid_from), ''))
        FROM jobs_job AS job
        JOIN costs_owned AS owned ON owned.job_id = job.id AND owned.valid_from < %(end)s AND owned.valid_to > %(start)s
        LEFT JOIN accounts_team AS team ON team.id = owned.team_id
        WHERE COALESCE(job.start_ms, job.submit_ms, 0) < extract(epoch FROM %(end)s) * 1000
          AND COALESCE(job.end_ms, extract(epoch FROM %(end)s) * 1000) >= extract(epoch FROM %(start)s) * 1000
    ),
    (
        SELECT md5(COALESCE(string_agg(concat_ws(' ', adjustment.id, owned.team_id, owned.is_named, rate.usd_per_gpu_hour), ',' ORDER BY adjustment.id), ''))
        FROM ledger_adjustment AS adjustment
        LEFT JOIN costs_owned AS owned
            ON  owned.job_id = adjustment.job_id
            AND owned.valid_from <= adjustment.start
            AND owned.valid_to > adjustment.start
        LEFT JOIN costs_gpurate AS rate
            ON  rate.gpu_id = adjustment.gpu_id
            AND rate.valid_from <= adjustment.start
            AND (rate.valid_to IS NULL OR rate.valid_to > adjustment.start)
        WHERE adjustment.booked_at >= %(start)s
          AND adjustment.booked_at < %(end)s
    ),
    (
        SELECT md5(COALESCE(string_agg((to_jsonb(region) - 'id')::text, ',' ORDER BY name, valid_from), ''))
        FROM costs_region AS region
        WHERE valid_from < %(end)s
    ),
    (
        SELECT md5(COALESCE(string_agg(concat_ws(' ', node_id, quote_literal(region), GREATEST(valid_from, %(start)s), LEAST(valid_to, %(end)s)), ',' ORDER BY node_id, valid_from), ''))
        FROM costs_nodeplace
        WHERE valid_from < %(end)s
          AND (valid_to IS NULL OR valid_to > %(start)s)
    )
)) AS digest
