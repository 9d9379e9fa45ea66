"""Jobs, and who held which GPU from when to when.

In:   ingest, through job_writes.store_jobs, services.assert_allocations and assert_sources.
      What batches repeat of them: repeats.
Out:  selectors.
Rule: the truth is the union over all batches, cut at the known ends. What is believed of a job
      follows from what each node says of it (records.py), and each node's time is charged to whom
      it names. Nothing depends on the order of batches, but what kind of job it is, where two nodes
      of it contradict each other.
"""
