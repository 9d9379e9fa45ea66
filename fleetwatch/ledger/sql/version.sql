-- The function ledger_version(): one number of a node's day that grows with the version of any of its
-- hours.
CREATE FUNCTION ledger_version(versions bigint[]) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT COALESCE(sum(version), 0)::bigint FROM unnest(versions) AS each (version)
$$
