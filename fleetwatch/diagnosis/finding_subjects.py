"""Whose a finding is, by its cause: a job's, a node's, or a cluster's. Pure.

What is broken, hot or silent is one thing to mend, however many jobs it hurt: one finding for its
node, which names them.
"""

from fleetwatch.diagnosis.verdicts import GPU_FAULT, NO_TELEMETRY

QUEUE, PERSISTENCE_OFF, THROTTLED, ORPHANED = (
    "queue_or_scheduler",
    "persistence_off",
    "throttled",
    "orphaned",
)
OF_NODES = (GPU_FAULT, THROTTLED, NO_TELEMETRY, PERSISTENCE_OFF, ORPHANED)
OF_CLUSTERS = (QUEUE,)
# They happen, each time anew; heat and a driver's setting are how a machine is.
OUTBREAKS = (GPU_FAULT, NO_TELEMETRY, ORPHANED)
# Own lines of the ledger (unavailable, unobserved, free): what could be won there is capacity,
# never a part of what was wasted.
OF_CAPACITY = (GPU_FAULT, NO_TELEMETRY, PERSISTENCE_OFF, QUEUE)
