-- The function packed_float(): the number, 0 or above, that float8send() packed into the eight
-- bytes that begin at the byte `first`; NULL for what is not a number.
CREATE OR REPLACE FUNCTION packed_float(packed bytea, first bigint)
RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE exponent
        WHEN 2047 THEN NULL
        WHEN 0 THEN 0
        ELSE (1 + fraction / 4503599627370496.0::float8) * power(2::float8, exponent - 1023)
    END
    FROM (
        SELECT (bits >> 52) & 2047 AS exponent, (bits & 4503599627370495)::float8 AS fraction
        FROM (SELECT packed_integer(packed, first, 8) AS bits) AS number
    ) AS parts
$$
