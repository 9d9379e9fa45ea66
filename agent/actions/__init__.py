"""What the hub may ask this host to do, off unless its operator allowed it here.

An order names one job on this node, or GPUs of it for which it is drained; it is signed, expires,
and is carried out once. Whatever the hub believes, nothing is ended whose GPUs did something within
the grace, or were not read all of it, and no node is drained whose GPUs work.
"""
