-- The function packed_integer(): the integer of `length` bytes that begins at the byte `first`,
-- from 1 on, of what int8send() and its like packed. None of them is negative.
CREATE OR REPLACE FUNCTION packed_integer(packed bytea, first bigint, length int)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT ('x' || lpad(encode(substring(packed FROM first::int FOR length), 'hex'), 16, '0'))
        ::bit(64)::bigint
$$
