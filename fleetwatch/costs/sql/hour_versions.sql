-- The function costs_versions(): the versions of the clock hours that [start, until) touches, out
-- of those of three UTC days from start's on (a day of 25 h that begins at half past may touch three);
-- where no version was counted it is 0.
CREATE FUNCTION costs_versions(
    first_day bigint[], second_day bigint[], third_day bigint[],
    start timestamptz, until timestamptz
) RETURNS bigint[] LANGUAGE sql IMMUTABLE AS $$
    SELECT (
        COALESCE(first_day, array_fill(0::bigint, ARRAY[24]))
        || COALESCE(second_day, array_fill(0::bigint, ARRAY[24]))
        || COALESCE(third_day, array_fill(0::bigint, ARRAY[24]))
    )[
        1 + extract(hour FROM start AT TIME ZONE 'UTC')::int
        : ceil(extract(epoch FROM until - date_trunc('day', start, 'UTC')) / 3600)::int
    ]
$$
