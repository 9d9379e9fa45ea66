-- One row per given node: what it brought in the hour, with what is given.
-- In:  nodes, jobs, labels, teams, gpu_models, gpus (by position), hour_ms. The nodes' rows are locked by who stores their batches.
-- Again: adds again; it stands in the transaction of a batch that is stored once.
INSERT INTO inventory_intake AS kept (node_id, hour_ms, jobs, labels, teams, gpu_models, gpus)
SELECT node_id, %(hour_ms)s::bigint, jobs, labels, teams, gpu_models, gpus
FROM unnest(
    %(nodes)s::bigint[], %(jobs)s::bigint[], %(labels)s::bigint[], %(teams)s::bigint[], %(gpu_models)s::bigint[],
    %(gpus)s::bigint[]
) AS given (node_id, jobs, labels, teams, gpu_models, gpus)
ORDER BY node_id
ON CONFLICT (node_id) DO UPDATE SET
    hour_ms = excluded.hour_ms,
    jobs = excluded.jobs + CASE WHEN kept.hour_ms = excluded.hour_ms THEN kept.jobs ELSE 0 END,
    labels = excluded.labels + CASE WHEN kept.hour_ms = excluded.hour_ms THEN kept.labels ELSE 0 END,
    teams = excluded.teams + CASE WHEN kept.hour_ms = excluded.hour_ms THEN kept.teams ELSE 0 END,
    gpu_models = excluded.gpu_models + CASE WHEN kept.hour_ms = excluded.hour_ms THEN kept.gpu_models ELSE 0 END,
    gpus = excluded.gpus + CASE WHEN kept.hour_ms = excluded.hour_ms THEN kept.gpus ELSE 0 END
RETURNING node_id, jobs, labels, teams, gpu_models, gpus
