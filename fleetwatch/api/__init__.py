"""The public read API under /api/v1, and /metrics: thin over selectors.

In:   token or session.
Out:  JSON with units in names, coverage beside every total.
Rule: nothing here writes but what people decide: about findings, incidents, rules,
      silences, routes and how they hear of things.
"""
