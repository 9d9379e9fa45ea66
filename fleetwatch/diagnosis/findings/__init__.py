"""Causes as something to act on: of a job, a node or a cluster.

In:   causes of hours, jobs, what people decide.
Out:  findings in order of what they could save, evidence, advice, what fixes brought.
Rule: a finding is its subject's and cause's, once; what people said of it stays.
"""
