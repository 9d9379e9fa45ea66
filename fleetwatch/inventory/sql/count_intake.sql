-- One row per given node: what it brought in the hour, with what is given.
-- In:  nodes, jobs, labels, teams, gpu_models, gpus, events, batch_bytes (by position), hour_ms. The nodes' rows are locked by who stores their batches.
-- Again: adds again; it stands in the transaction of a batch that is stored once.
INSERT INTO inventory_intake AS kept (node_id, hour_ms, jobs, labels, teams, gpu_models, gpus, events, batch_bytes)
SELECT node_id, %(hour_ms)s::bigint, jobs, labels, teams, gpu_models, gpus, events, batch_bytes
FROM unnest(
    %(nodes)s::bigint[], %(jobs)s::bigint[], %(labels)s::bigint[], %(teams)s::bigint[], %(gpu_models)s::bigint[],
    %(gpus)s::bigint[], %(events)s::bigint[], %(batch_bytes)s::bigint[]
) AS given (node_id, jobs, labels, teams, gpu_models, gpus, events, batch_bytes)
ORDER BY node_id
ON CONFLICT (node_id) DO UPDATE SET
    hour_ms = excluded.hour_ms,
    jobs = excluded.jobs + CASE WHEN kept.hour_ms = excluded.hour_ms THEN kept.jobs ELSE 0 END,
    labels = excluded.labels + CASE WHEN kept.hour_ms = excluded.hour_ms THEN kept.labels ELSE 0 END,
    teams = excluded.teams + CASE WHEN kept.hour_ms = excluded.hour_ms THEN kept.teams ELSE 0 END,
    gpu_models = excluded.gpu_models + CASE WHEN kept.hour_ms = excluded.hour_ms THEN kept.gpu_models ELSE 0 END,
    gpus = excluded.gpus + CASE WHEN kept.hour_ms = excluded.hour_ms THEN kept.gpus ELSE 0 END,
    events = excluded.events + CASE WHEN kept.hour_ms = excluded.hour_ms THEN kept.events ELSE 0 END,
    batch_bytes = excluded.batch_bytes + CASE WHEN kept.hour_ms = excluded.hour_ms THEN kept.batch_bytes ELSE 0 END
RETURNING node_id, jobs, labels, teams, gpu_models, gpus, events, batch_bytes
