"""What leaves the house on a schedule or as a file: waste report, CSV, weekly digest.

In:   costs.selectors.
Out:  CSV, Report rows, deliveries.
Rule: a sent report can be read again.
"""
