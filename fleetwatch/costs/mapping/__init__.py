"""Whose a job's time is: rules that people set, what they give, and what a change of them moves."""
