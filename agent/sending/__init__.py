"""From the spool to the hub."""
