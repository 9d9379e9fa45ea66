"""Months that are closed, hours that can't be judged again, and which policy judges what."""
