"""What leaves the house on a schedule or as a file: monthly statements, waste report, weekly
digest.

In:   costs.selectors.
Out:  Report rows in versions, files of them, deliveries.
Rule: a report is never overwritten; statements and own lines sum to the fleet's cost.
"""
