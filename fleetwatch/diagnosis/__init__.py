"""Why GPU time was wasted.

In:   telemetry frames, jobs, the ledger's entries.
Out:  findings with evidence, savings, the cause of each wasted GPU-millisecond.
Rule: one primary cause per GPU and moment; what was not read forbids verdicts.
"""
