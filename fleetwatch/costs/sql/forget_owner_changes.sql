-- Deletes the changes of owners that everybody could see for so long; one row per change that goes.
-- In:  before (those first seen before it), now.
-- Again: safe. When a transaction that noted one was committed nobody writes down: so what is seen for the first time is marked, and goes later.
WITH seen AS (
    UPDATE costs_ownerchange
    SET seen_at = %(now)s
    WHERE seen_at IS NULL
)
DELETE FROM costs_ownerchange
WHERE seen_at < %(before)s
RETURNING job_id
