"""Whose a name in another system is, and the rules that give people theirs."""
