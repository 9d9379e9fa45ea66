"""The figures engine: GPU time of a period, priced and grouped, whatever it is time of.

In:   packed spans of the ledger (time in a state) or of diagnosis (time with a cause); the rates in
      force and the jobs' owners, as the views costs_gpurate and costs_owned.
Out:  engine.read(), pricing, selectors: totals, groups, dollars over time.
Rule: Decimal; divided and quantised once, when shown. A new rate never reposts the ledger.
"""
