"""Jobs, and who held which GPU from when to when.

In:   ingest, through store.store_jobs, services.assert_allocations and assert_sources.
Out:  selectors.
Rule: the truth is the union over all batches, cut at the known ends. What is believed of a job follows from what each node
      says of it (records.py). Nothing depends on the order of batches, but of two nodes that contradict each other on whose
      a job is the one is believed that was heard first to hold it.
"""
