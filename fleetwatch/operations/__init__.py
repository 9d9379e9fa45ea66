"""What FleetWatch itself did: runs of background work, heartbeats.

In:   every task and command, through services.record_run and services.beat.
Out:  selectors, for /status, /metrics and /readyz.
Rule: nothing here knows what the work was about.
"""
