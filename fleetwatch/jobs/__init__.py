"""Jobs, and who held which GPU from when to when.

In:   ingest, through services.store_jobs, assert_allocations and assert_sources.
Out:  selectors.
Rule: the truth is the union over all batches, cut at the known ends; nothing depends on their order.
"""
