-- One row: of an episode (its place in the arrays) and a cause that its job had in these hours: how surely, and how many
-- milliseconds of what was wasted and held it explains.
-- In:  job_ids (bigint[]), since, until (timestamptz[]): as long as each other.
-- Again: safe, it only reads.
SELECT
    asked.place,
    entry.cause,
    max(entry.confidence),
    sum(
        entry.idle_certain_ms + entry.idle_probable_ms + entry.stalled_probable_ms + entry.stalled_potential_ms
        + entry.underused_ms
    ),
    sum(entry.held_ms)
FROM unnest(%(job_ids)s::bigint[], %(since)s::timestamptz[], %(until)s::timestamptz[])
    WITH ORDINALITY AS asked (job_id, since, until, place)
JOIN diagnosis_causeentry AS entry
    ON entry.job_id = asked.job_id
    AND entry.start >= asked.since
    AND entry.start < asked.until
GROUP BY
    asked.place,
    entry.cause
