"""Incidents: whose they are, how they are grouped, why nobody hears of one, what people do."""
