"""What an hour of a GPU costs, and whose it is.

In:   rates, exchange rates, mapping rules: what people set.
Out:  the rates in force and the owners of jobs (views), what a change does before it is made.
Rule: a rate and a rule hold from when to when; nothing is overwritten.
"""
