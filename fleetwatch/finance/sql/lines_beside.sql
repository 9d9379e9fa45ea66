-- One row: digest of what the fleet's report over [start, end) says beside the ledger's dollars (report_lines.py).
-- In:  start, end (timestamptz, the organisation's midnights); zone (IANA name).
-- Again: safe, it only reads. Places of nodes count where somebody committed to something.
WITH commitment AS MATERIALIZED (
    SELECT commitment.*, model.name AS model_name
    FROM costs_commitment AS commitment
    JOIN inventory_gpumodel AS model ON model.id = commitment.gpu_model_id
    WHERE commitment.valid_from < %(end)s
      AND (commitment.valid_to IS NULL OR commitment.valid_to > %(start)s)
)
SELECT md5(concat_ws('/',
    (
        SELECT md5(COALESCE(string_agg(to_jsonb(commitment)::text, ',' ORDER BY id), ''))
        FROM commitment
    ),
    (
        SELECT md5(COALESCE(string_agg(concat_ws(' ', currency, usd_per_unit, valid_from), ',' ORDER BY currency, valid_from), ''))
        FROM costs_exchangerate
        WHERE valid_from < %(end)s
          AND currency IN (SELECT currency FROM commitment)
    ),
    (
        SELECT md5(COALESCE(string_agg(concat_ws(' ', node_id, pool, node_class, region, valid_from, valid_to), ',' ORDER BY node_id, valid_from), ''))
        FROM costs_nodeplace
        WHERE valid_from < %(end)s
          AND (valid_to IS NULL OR valid_to > %(start)s)
          AND EXISTS (SELECT FROM commitment)
    ),
    (
        SELECT md5(COALESCE(string_agg(id::text, ',' ORDER BY id), ''))
        FROM reports_invoiceadjustment
        WHERE booked_in = to_char(%(start)s AT TIME ZONE %(zone)s, 'YYYY-MM')
          AND withdrawn_at IS NULL
    )
)) AS digest
