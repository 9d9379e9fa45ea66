"""Nodes and GPUs by UUID; what is known of each GPU model.

In:   ingest, through services.register. Out:  selectors. Rule: facts come from the newest batch by
(boot_start_ms, sequence), whatever order batches arrive in.
"""
