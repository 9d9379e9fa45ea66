"""`fleetwatch`: what GPU jobs cost and waste, for people at a shell.

One file, of the standard library alone, Python >= 3.8; it reads the hub's API as the person whose
token it has.
"""
