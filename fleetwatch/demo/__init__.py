"""The simulated fleet: history drawn from the same archetype table as the live simulated agents.

In:   agent.sources.simulated.
Out:  batches, through the real ingest service.
Rule: nothing above the windows is seeded; on a hub it is alone, loaded and removed as a whole.
"""
