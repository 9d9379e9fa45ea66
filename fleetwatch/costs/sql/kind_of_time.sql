-- The function costs_kind(): the place of a state, tier and "a kernel was running alone" among the
-- KINDS of figures/state_spans.py. Kept in rows, so never in another order.
CREATE FUNCTION costs_kind(state text, tier text, efficiency_source text)
RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
    SELECT (
        8 * (array_position(
            '{useful,underused,stalled,idle,starting,orphaned,free,unavailable,unobserved}'::text[], state
        ) - 1)
        + 2 * (array_position('{"",certain,probable,potential}'::text[], tier) - 1)
        + (state = 'useful' AND efficiency_source = 'none')::int
    )::smallint
$$
