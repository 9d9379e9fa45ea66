-- One row: signed GPU time of one GPU model, region and kind of ownership under one rate, observed or not, by
--      which closed hours in [start, end) were adjusted, whenever that was booked; and what of it nobody observed.
-- In:  start, end (timestamptz).
-- Again: safe, it only reads. A corrected hour is priced, and stands where its node stood, as of that hour.
SELECT
    model.name AS gpu_model,
    COALESCE(place.region, '') AS region,
    COALESCE(place.node_class, '') = 'owned' AS is_owned,
    rate.usd_per_gpu_hour,
    sum(adjustment.gpu_ms)::bigint AS gpu_ms,
    CASE WHEN adjustment.state = 'unobserved' THEN sum(adjustment.gpu_ms) ELSE 0 END::bigint AS unobserved_ms
FROM ledger_adjustment AS adjustment
JOIN inventory_gpu AS gpu ON gpu.id = adjustment.gpu_id
LEFT JOIN inventory_gpu AS parent ON parent.id = gpu.parent_id
LEFT JOIN inventory_gpumodel AS model ON model.id = COALESCE(parent.model_id, gpu.model_id)
LEFT JOIN costs_nodeplace AS place
    ON  place.node_id = adjustment.node_id
    AND place.valid_from <= adjustment.start
    AND (place.valid_to IS NULL OR place.valid_to > adjustment.start)
LEFT JOIN costs_gpurate AS rate
    ON  rate.gpu_id = adjustment.gpu_id
    AND rate.valid_from <= adjustment.start
    AND (rate.valid_to IS NULL OR rate.valid_to > adjustment.start)
WHERE adjustment.start >= %(start)s
  AND adjustment.start < %(end)s
GROUP BY 1, 2, 3, 4, adjustment.state = 'unobserved'
HAVING sum(adjustment.gpu_ms) <> 0
