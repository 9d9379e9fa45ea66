-- One row: a node's UTC day, and its GPU time packed: for each physical GPU (its instances' time too), hour and state the GPU's id,
--      the hour, the state's place in `states`, counted from 1, and milliseconds. States are as people see them (SHOWN_STATES): useful
--      time of which utilisation alone tells is unverified, what services stall is waiting. In no order.
-- In:  node_ids, starts (arrays of one length: UTC midnights); states.
-- Again: safe, it only reads.
SELECT
    of_state.node_id,
    of_state.start,
    string_agg(int8send(gpu_id) || int4send(hour) || int4send(state) || int8send(gpu_ms), ''::bytea)
FROM (
    SELECT
        day.node_id,
        day.start,
        COALESCE(gpu.parent_id, gpu.id) AS gpu_id,
        (extract(epoch FROM entry.start - day.start) / 3600)::int AS hour,
        array_position(%(states)s::text[], CASE
            WHEN entry.state = 'useful' AND entry.efficiency_source = 'none' THEN 'unverified'
            WHEN entry.state = 'stalled' AND entry.tier = 'potential' THEN 'waiting'
            ELSE entry.state
        END::text) AS state,
        sum(entry.gpu_ms)::bigint AS gpu_ms
    FROM unnest(%(node_ids)s::bigint[], %(starts)s::timestamptz[]) AS day (node_id, start)
    -- the fence: each day by the index on (node, start); joined freely, few days may cost a scan of the table
    CROSS JOIN LATERAL (
        SELECT gpu_id, date_trunc('hour', start, 'UTC') AS start, state, tier, efficiency_source, gpu_ms,
            generate_series(1, 1) AS fence
        FROM ledger_entry
        WHERE node_id = day.node_id
          AND start >= day.start
          AND start < day.start + INTERVAL '24 hours'
    ) AS entry
    JOIN inventory_gpu AS gpu ON gpu.id = entry.gpu_id
    GROUP BY 1, 2, 3, 4, 5
) AS of_state
GROUP BY 1, 2
