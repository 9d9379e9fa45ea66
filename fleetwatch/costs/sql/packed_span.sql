-- The function costs_span(): one span as the RECORD of figures/state_spans.py. A job that is NULL
-- is 0, energy that nobody read is not a number.
CREATE FUNCTION costs_span(
    gpu_id bigint, job_id bigint, kind smallint, gpu_ms bigint, energy_j float8, energy_ms bigint
) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT int8send(gpu_id) || int8send(COALESCE(job_id, 0)) || int2send(kind)
        || int8send(gpu_ms) || float8send(COALESCE(energy_j, 'NaN')) || int8send(energy_ms)
$$
