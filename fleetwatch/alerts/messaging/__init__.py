"""Who hears of incidents, when, and in which words."""
