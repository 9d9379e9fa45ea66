"""GPU time by state: every millisecond of a registered GPU has exactly one.

In:   telemetry.frames and jobs, for the hours that TouchedHour names.
Out:  Entry (sums), HourRuns (spans; Run is a view of them).
Rule: recomputed whole, never incremented; judgement/ is pure numpy.
"""
