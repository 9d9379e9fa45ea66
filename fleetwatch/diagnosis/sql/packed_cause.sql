-- The function diagnosis_span(): one row of the RECORD of cause_columns.py. A GPU's day is
-- 86,400,000 ms: four bytes hold it.
CREATE FUNCTION diagnosis_span(
    gpu_id bigint, job_id bigint, cause int, confidence smallint, held_ms numeric,
    idle_certain_ms numeric, idle_probable_ms numeric, stalled_probable_ms numeric,
    stalled_potential_ms numeric, underused_ms numeric, low_ms numeric, high_ms numeric
) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT int8send(gpu_id) || int8send(job_id) || int2send(cause::smallint) || int2send(confidence)
        || int4send(held_ms::int) || int4send(idle_certain_ms::int) || int4send(idle_probable_ms::int)
        || int4send(stalled_probable_ms::int) || int4send(stalled_potential_ms::int) || int4send(underused_ms::int)
        || int4send(low_ms::int) || int4send(high_ms::int)
$$
