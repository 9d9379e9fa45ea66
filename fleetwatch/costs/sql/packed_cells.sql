-- One row: what many spans have in common, and of each of them its key, GPU time and energy, packed as columns: a month has
--      tens of thousands of jobs, of which a page shows a few. Follows spans.sql, whose parameters it takes.
-- In:  with_users (whether to tell whose job each span is of).
-- Again: safe, it only reads. The columns of a row are of one order: its aggregates see the spans together.
SELECT
    is_held,
    team_id,
    owner_text,
    is_named,
    state,
    tier,
    is_busy_only,
    usd_per_gpu_hour,
    is_example,
    string_agg(int8send(COALESCE(key_id, 0)), ''::bytea) AS keys,
    string_agg(int8send(gpu_ms::bigint), ''::bytea) AS gpu_ms,
    string_agg(float8send(COALESCE(energy_j, 'NaN')), ''::bytea) AS energy_j,
    string_agg(int8send(energy_ms::bigint), ''::bytea) AS energy_ms,
    CASE WHEN %(with_users)s::boolean THEN array_agg(COALESCE(user_name, '')) END AS users
FROM placed
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
