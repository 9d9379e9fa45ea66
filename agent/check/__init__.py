"""`once` and `check`: what this host offers, for people."""
