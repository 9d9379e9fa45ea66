"""Ground floor: intervals, sets of time, SQL helpers, environment, logs, the one HTTP client out.

Rule: no models, no imports of ours.
"""
