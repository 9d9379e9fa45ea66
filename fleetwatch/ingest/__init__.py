"""The door: agents and their tokens, POST /api/v1/batches, /api/v1/enroll, the agent package.

In:   HTTP.
Out:  services of inventory, jobs and telemetry, in one transaction.
Rule: 2xx only after commit; a refused batch leaves nothing behind; a replay is a no-op.
"""
