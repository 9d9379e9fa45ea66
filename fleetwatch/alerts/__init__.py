"""Rules and incidents.

In:   ledger runs, costs.
Out:  incidents, deliveries.
Rule: one open incident per (rule, subject); it resolves by itself.
"""
