"""Dollars: ledger x the rate that held at that hour.

In:   ledger entries, rates.
Out:  selectors: totals, groups, dollars over time.
Rule: Decimal; divided and quantised once, when shown. A new rate never reposts the ledger.
"""
