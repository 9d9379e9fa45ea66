-- The function diagnosis_extent(): from when to when a cause wasted time of a job, by its cells; no row where it wasted none.
-- It reads the first and the last cut alone, by the index waste_by_job: how long a job has run makes no difference. A function, for on a
-- hub of several database nodes, which has no word for that of many jobs at once, each of its reads is a statement.
CREATE FUNCTION diagnosis_extent(wanted_job bigint, wanted_cause text)
RETURNS TABLE (first_ms bigint, last_ms bigint) LANGUAGE plpgsql STABLE AS $$
DECLARE
    first_start timestamptz;
    last_start timestamptz;
BEGIN
    SELECT min(entry.start), max(entry.start)
    INTO first_start, last_start
    FROM diagnosis_causeentry AS entry
    WHERE entry.job_id = wanted_job AND entry.cause = wanted_cause AND entry.high_ms > 0;
    IF first_start IS NULL THEN
        RETURN;
    END IF;
    -- a bit for each of the hour's twelve cells, the highest is the last
    RETURN QUERY
    SELECT
        extract(epoch FROM date_trunc('hour', first_start, 'UTC'))::bigint * 1000
            + (position('1' IN reverse(cells.first::int::bit(12)::text)) - 1) * 300000,
        extract(epoch FROM date_trunc('hour', last_start, 'UTC'))::bigint * 1000
            + (13 - position('1' IN cells.last::int::bit(12)::text)) * 300000
    FROM (
        SELECT
            bit_or(entry.cells) FILTER (WHERE entry.start = first_start) AS first,
            bit_or(entry.cells) FILTER (WHERE entry.start = last_start) AS last
        FROM diagnosis_causeentry AS entry
        WHERE entry.job_id = wanted_job AND entry.cause = wanted_cause AND entry.high_ms > 0
          AND entry.start = ANY(ARRAY[first_start, last_start])
    ) AS cells;
END
$$
