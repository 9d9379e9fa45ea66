"""FleetWatch: what a GPU fleet costs and wastes, from sensor to dollar to person."""
